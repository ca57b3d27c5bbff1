"""Every hostile kind of input at every door that takes it: told or refused, never silent.

A door is a command of the console script or a public function. Each stands in the tables below with
the kinds that it takes, or with the reason why it takes none of the others: a new one fails here.
"""

from __future__ import annotations

import gzip
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import msshift_bench as ms
from msshift_bench.cli import app
from msshift_bench.cli.failures import explain
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.plumbing import with_checksum
from msshift_bench.report import writing
from msshift_bench.runs import read_run
from tests.conftest import Build
from tests.support.commands import COMMANDS as ALL_COMMANDS
from tests.support.fabricated import write_runs, write_system

SAID: Mapping[str, str] = {
    "zeros": r"ids-changed",
    "same": r"the same rankings",
    "foreign": r"no relevant passage is retrieved|has no Rel Loss",
    "own": r"trained-on-test",
    "shallow": r"no ranking has more than",
    "incomplete": r"incomplete-run|queries that a run does not hold",
    "misnamed": r"\[no-place\]",
    "bomb": r"unpacks to more than",
    "empty": r"",
    "circular": r"in a circle|form a loop|leads nowhere|no (qrels )?file ",
    "damaged": r"damaged|ended before|cut off",
}
"""Kind -> what is said of it, by a refusal or in the table."""

OF_RUNS = ("zeros", "same", "foreign", "shallow", "incomplete", "bomb", "circular", "damaged")

NO_INPUT = "it takes no input of a user's but names and numbers"
NO_RUNS = "it reads no runs"
HUB = "its input is a repository or the folder of a build, checked by digests"

WITHOUT_DOOR: Mapping[str, str] = {
    "build, run, pretrain, triples, build_dataset, add_triples, add_split_leakage, make_runs, "
    "open_collection, import_official, training_pairs, validation_candidates, "
    "mteb_tasks": "a collection: tests/dataset_builders try what is odd",
    "export, install, push, load_triples, install_dataset, push_dataset, hydrate_dataset": HUB,
    "irds": "it hands a data set to ir_datasets: tests/irds",
    "import, import_variants": "it reads queries in lines of text",
    "demo, open_system, detectable_rel_loss": NO_INPUT,
    "leaderboard build": "it draws entries, which the gate checked: test_hostile_entries.py",
    "write_report, clean_training, evaluate_run_sets, compare_run_sets, evaluate_extra_tests, "
    "score_runs, analyse_run_sets, read_leaked_queries, read_annotations, find_leakage, "
    "verify_dataset, group_similarity, diagnose": "commands hand them what they take",
    "write_run": "it writes what is in memory: tests/runs/test_writing.py",
    "evaluate": "its runs are made by a model in memory: test_odd_models.py",
    "set_similarity, make_variants, link_losses, review_leakage": "in memory",
    "analyse_report, draw_result, predict_losses": "they take a result, with its warnings",
}
"""Commands and functions that take no hostile input of these kinds -> why."""


def doors(kinds: tuple[str, ...], words: str) -> dict[str, str]:
    return dict.fromkeys(kinds, words)


RUN_SET = "{0}/{kind} --data {0}/msshift"
FILE = "score {0}/{kind}/dense/wh-words/wha.run --data {0}/msshift --test wh-words-wha"
FILES = FILE.replace("--data", "{0}/{kind}/dense/wh-words/how.run --data")
QUERIES = "--train {0}/{kind}.tsv --test {0}/queries.tsv"
EMPTY = "--data {0}/empty/msshift"
STREAMS = ("circular", "damaged")

COMMANDS: Mapping[str, tuple[dict[str, str], str]] = {
    "evaluate": (
        doors((*OF_RUNS, "misnamed"), f"evaluate {RUN_SET} --measures R@20")
        | {
            "own": "evaluate {0}/good --data {0}/msshift --extra-test own={0}/own",
            "empty": f"evaluate {{0}}/good {EMPTY}",
        },
        "",
    ),
    "compare": (
        doors((*OF_RUNS, "misnamed"), f"compare {{0}}/good/other {RUN_SET} --measures R@20")
        | {"empty": f"compare {{0}}/good {EMPTY}"},
        "it scores the shifts' own test queries, which nobody trained on",
    ),
    "score": (
        doors(("zeros", "foreign", "shallow", "circular", "damaged"), f"{FILE} --measures R@20")
        | {
            "incomplete": FILE,
            "same": FILES,
            "bomb": FILE.replace(".run", ".parquet"),
            "own": "score {0}/good/dense/wh-words/wha.run --data {0}/msshift --qrels "
            "{0}/own/qrels.tsv",
            "empty": FILE.format("{0}", kind="good").replace("/msshift", "/empty/msshift"),
        },
        "files have no place in a folder",
    ),
    "report": (
        doors((*OF_RUNS, "misnamed"), f"report {RUN_SET} --measures R@20 --no-links --out {{out}}")
        | {"empty": f"report {{0}}/good {EMPTY} --no-links --out {{out}}"},
        "it draws the shifts' own test queries, which nobody trained on",
    ),
    "analyse": (
        doors((*OF_RUNS, "misnamed"), f"analyse {RUN_SET} --measures R@20")
        | {"empty": f"analyse {{0}}/good {EMPTY}"},
        "it links losses on the shifts' own test queries, which nobody trained on",
    ),
    "submit": (
        doors(
            (*OF_RUNS, "misnamed"),
            f"submit {RUN_SET.replace('{kind}', '{kind}/dense')} --system {{0}}/system.toml "
            "--out {out}",
        ),
        "a board takes no other test queries, and its data set is one of few",
    ),
    "leaderboard check": (
        doors(
            ("zeros", "incomplete", "damaged", "circular"),
            "leaderboard check mini/made-up --entries {0}/board --data {0}/mini --runs {0}/{kind}",
        ),
        "run files are scored again, and must give the scores that stand there",
    ),
    "similarity": (
        doors(STREAMS, f"similarity {QUERIES}") | {"empty": f"similarity {EMPTY}"},
        NO_RUNS,
    ),
    "annotate": (
        doors(STREAMS, f"annotate {QUERIES} --out {{out}}.csv")
        | {"bomb": "annotate --candidates {0}/bomb/found --out {out}.csv"},
        NO_RUNS,
    ),
    "agree": (doors(STREAMS, "agree {0}/{kind}.csv"), NO_RUNS),
    "leakage find": (
        doors(STREAMS, f"leakage find {QUERIES} --out {{out}}")
        | {"damaged": "leakage find --train {0}/queries.tsv --test {0}/damaged.tsv --out {out}"},
        NO_RUNS,
    ),
    "leakage clean": (
        doors(STREAMS, "leakage clean --found {0}/found --train {0}/{kind}.tsv --out {out}")
        | {"bomb": "leakage clean --found {0}/bomb/found --train {0}/queries.tsv --out {out}"},
        NO_RUNS,
    ),
    "leakage experiment": (
        {
            "bomb": "leakage experiment --collection mini:300 --found {0}/bomb/found --topics 5 "
            "--leaked 2 --sizes 2 --out {out}"
        },
        NO_RUNS,
    ),
    "variants": (
        doors(STREAMS, "variants typos --queries {0}/{kind}.tsv --out {out}.tsv")
        | {"empty": f"variants typos {EMPTY} --out {{out}}.tsv"},
        NO_RUNS,
    ),
    "verify": ({"empty": "verify {0}/empty/msshift"}, HUB),
    "doctor": ({"empty": "doctor {0}/empty/msshift"}, HUB),
    "list": ({"empty": f"list {EMPTY}"}, NO_INPUT),
}
"""Command -> kind -> its words, and why it takes no other kind."""

LONG = ("analyse", "report")
"""Commands that are tested in the second lane."""

Call = Callable[[Path, str], Any]


def run_of(folder: Path, kind: str) -> Path:
    end = ".parquet" if kind == "bomb" else ".run"
    return folder / kind / f"dense/wh-words/wha{end}"


FUNCTIONS: Mapping[str, tuple[tuple[str, ...], Call]] = {
    "find_run_sets": (("misnamed",), lambda folder, kind: ms.find_run_sets(folder / kind)),
    "read_run": (
        ("bomb", "circular", "damaged"),
        lambda folder, kind: ms.read_run(run_of(folder, kind)),
    ),
    "validate_run": (
        ("bomb", "circular", "damaged"),
        lambda folder, kind: list(map(str, ms.validate_run(run_of(folder, kind)).errors)),
    ),
    "read_qrels": (STREAMS, lambda folder, kind: ms.read_qrels(folder / f"{kind}.tsv")),
    "open_test_set": (STREAMS, lambda folder, kind: ms.open_test_set(folder / f"{kind}.tsv")),
    "load_dataset": (
        ("empty",),
        lambda folder, kind: ms.load_dataset(folder / kind / "msshift", "wh-words-wha"),
    ),
    "open_dataset": (("empty",), lambda folder, kind: ms.open_dataset(folder / kind / "msshift")),
}
"""Public function that no command stands for -> the kinds that it takes, and a call."""


def rewrite(run: Path, change: Callable[[list[str]], list[str]]) -> None:
    rows = [line.split() for line in run.read_text().splitlines()]
    changed = [" ".join(fields) for row in rows if (fields := change(row))]
    run.write_text("".join(f"{line}\n" for line in changed))


@pytest.fixture(scope="session")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ``good`` runs and data, and one of each hostile kind."""
    folder = tmp_path_factory.mktemp("doors")
    data = build_once("mini", "wh-words")
    (folder / "msshift").symlink_to(data)
    (folder / "mini").symlink_to(data)
    for system in ("dense", "other"):
        runs = write_runs(folder / "good" / system, data, "wh-words")
        for path in list(runs.rglob("*.run.gz")):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
            fill(path.with_suffix(""))
    kinds = {name for row in (COMMANDS, FUNCTIONS) for part, _ in row.values() for name in part}
    assert kinds == set(SAID)
    for kind in kinds - {"own", "empty"}:
        shutil.copytree(folder / "good/dense", folder / kind / "dense")
        for number, run in enumerate(sorted((folder / kind).rglob("*.run"))):
            spoil(kind, run, number)
    own_queries(folder, data)
    empty = build_once("mini", "wh-words", samples=SampleSizes(validation_size=0))
    (folder / "empty").mkdir()
    (folder / "empty/msshift").symlink_to(empty)
    streams(folder)
    write_system(folder / "system.toml", "dense", **{"wh-words": "msshift"})
    write_system(folder / "made-up.toml", "made-up", **{"wh-words": "msshift"})
    board(folder, data)
    return folder


def fill(run: Path) -> None:
    """Make every ranking as deep as 20."""
    ranked = read_run(run)
    lines = []
    for query, docs in ranked.items():
        names = [*docs, *(f"deep{n}" for n in range(20 - len(docs)))]
        lines += [f"{query} Q0 {doc} {n} {40 - n} t\n" for n, doc in enumerate(names, 1)]
    run.write_text("".join(lines))


def spoil(kind: str, run: Path, number: int) -> None:
    first = run.with_name("wha.run")
    if kind == "zeros":
        rewrite(run, lambda row: [*row[:2], f"0{row[2]}", *row[3:]])
    elif kind == "foreign":
        rewrite(run, lambda row: [*row[:2], f"elsewhere{row[2]}", *row[3:]])
    elif kind == "shallow":
        rewrite(run, lambda row: row if int(row[3]) <= 10 else [])
    elif kind == "incomplete":
        queries = sorted(read_run(run))[::4]
        rewrite(run, lambda row: row if row[0] not in queries else [])
    elif kind == "same" and run.stem == "how":
        shutil.copy(first, run)
        rewrite(run, lambda row: [*row[:4], f"{float(row[4]) / 2}", "other"])
    elif kind == "misnamed" and not number:
        target = run.parents[1] / "wh-wrods/wha.run"
        target.parent.mkdir()
        shutil.copy(run, target)
    elif kind == "bomb" and not number:
        bomb(run.parent / "wha.parquet")
        first.unlink()
        candidates(run.parents[2] / "found")
    elif kind == "circular":
        run.unlink()
        run.symlink_to(run.name)
    elif kind == "damaged":
        run.write_bytes(gzip.compress(run.read_bytes())[:-20])


ONE_TEXT = pa.DictionaryArray.from_arrays(pa.array([0] * 2000), pa.array(["x" * (1 << 20)]))


def bomb(path: Path) -> None:
    columns = {"query_id": ONE_TEXT, "doc_id": ONE_TEXT, "score": [1.0] * len(ONE_TEXT)}
    pq.write_table(pa.table(columns), path)


def candidates(folder: Path) -> None:
    folder.mkdir()
    names = ("test_id", "test_text", "train_id", "train_text", "tier")
    columns: dict[str, Any] = dict.fromkeys(names, ONE_TEXT)
    columns["cosine"] = pa.array([0.95] * len(ONE_TEXT), pa.float32())
    pq.write_table(pa.table(columns), folder / "candidates.parquet")
    (folder / "found.json").write_text(json.dumps(with_checksum({"test_ids": []})))


def own_queries(folder: Path, data: Path) -> None:
    """Write training queries of the model without wha as a test set, with good's runs on it."""
    rows = list(ms.load_dataset(data, "wh-words-wha", split="train"))[:30]
    (folder / "own").mkdir()
    texts = "".join(f"{row.query_id}\t{row.text}\n" for row in rows)
    (folder / "own/queries.tsv").write_text(texts)
    judged = [f"{row.query_id} 0 {doc} 1\n" for row in rows for doc in row.relevant_doc_ids]
    (folder / "own/qrels.tsv").write_text("".join(judged))
    for number, group in enumerate(("wha", "how", "who")):
        lines = [
            f"{row.query_id} Q0 {doc} {n} {9 - n} t\n"
            for row in rows
            for n, doc in enumerate([*["x", "y", "z"][:number], *row.relevant_doc_ids], 1)
        ]
        run = folder / f"good/dense/extra/own/wh-words/{group}.run"
        run.parent.mkdir(parents=True, exist_ok=True)
        run.write_text("".join(lines))
        facts = {"shift": "wh-words", "held_out": group}
        beside = folder / f"good/dense/wh-words/{group}.run.json"
        beside.write_text(json.dumps(with_checksum(facts)))
    run = folder / "good/dense/wh-words/wha.run"
    extra = (folder / "good/dense/extra/own/wh-words/wha.run").read_text()
    run.write_text(run.read_text() + extra)


def streams(folder: Path) -> None:
    """Write files of queries and sheets that are links in a circle, or compressed and cut off."""
    (folder / "queries.tsv").write_text("1\twhat is a cat\n2\twho is a dog\n")
    for name in ("circular.tsv", "circular.csv"):
        (folder / name).symlink_to(name)
    damaged = gzip.compress("".join(f"{n}\tquery {n}\n" for n in range(999)).encode())[:-20]
    for name in ("damaged.tsv", "damaged.csv"):
        (folder / name).write_bytes(damaged)
    (folder / "found").mkdir()
    found = ms.find_leakage(folder / "queries.tsv", folder / "queries.tsv", separate_ids=True)
    found.write(folder / "found")


def board(folder: Path, data: Path) -> None:
    """Write an entry of the good runs, and runs of each kind under its name."""
    shutil.copytree(folder / "good/other", folder / "made-up")
    submit_system(folder / "made-up", folder / "made-up.toml", folder / "submission", data)
    shutil.copytree(folder / "submission/entries", folder / "board")
    for kind in ("zeros", "incomplete", "damaged", "circular"):
        shutil.copytree(folder / kind / "dense", folder / kind / "made-up", symlinks=True)


def test_every_command_and_every_public_function_has_its_row() -> None:
    public = {name: getattr(ms, name) for name in ms.__all__}
    functions = {name for name, value in public.items() if inspect.isroutine(value)}
    commands = {" ".join(words) for words in ALL_COMMANDS}
    without = [name for names in WITHOUT_DOOR for name in names.split(", ")]
    assert sorted([*without, *COMMANDS, *FUNCTIONS]) == sorted([*commands, *functions])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.extended] if name in LONG or number % 3 else [])
        for name, (part, _) in COMMANDS.items()
        for number, kind in enumerate(part)
    ],
)
def test_commands(
    world: Path, tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a report the first pictures will do: what is odd stands above them.
    monkeypatch.setattr(writing, "SECTIONS", writing.SECTIONS[:1])
    monkeypatch.setattr(writing, "PICTURE_FORMATS", ("svg",))
    # The doctor would import torch, to ask it for a GPU.
    if name == "doctor":
        monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch"))
    out = tmp_path / "out"
    words = COMMANDS[name][0][kind].format(world, kind=kind, out=out).split()
    done = CliRunner().invoke(app, words)
    error = done.exception
    told = "" if error is None or isinstance(error, SystemExit) else tell(error)
    page = out / "report.html"
    table = done.stdout + (page.read_text("utf-8") if page.is_file() else "")
    if kind == "empty":
        assert done.exit_code == 0, done.output + told
    elif done.exit_code:
        assert re.search(SAID[kind], table + done.stderr + told), table + done.stderr + told
    else:
        assert re.search(SAID[kind], table), f"only on stderr: {done.stderr}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=pytest.mark.extended if kind == "bomb" else ())
        for name, (kinds, _) in FUNCTIONS.items()
        for kind in kinds
    ],
)
def test_functions(world: Path, name: str, kind: str) -> None:
    _, call = FUNCTIONS[name]
    if kind == "empty":
        call(world, kind)
        return
    try:
        value = call(world, kind)
    except Exception as error:
        said = tell(error)
    else:
        said = str(value)
    assert re.search(SAID[kind], said), said


def tell(error: BaseException) -> str:
    """Return the words of a refusal; anything else than one is a traceback."""
    failure = explain(error)
    if failure is None:
        raise error
    return failure[0]
