"""Every command of the command line: one call that works, and one that is refused.

The rows are those of the product's own tree of commands, so that a new command needs a row.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from msshift_bench.cli import begin
from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leakage import find_leakage
from tests.conftest import Build
from tests.support.command_line import Done, run_msshift, run_script
from tests.support.commands import COMMANDS
from tests.support.fabricated import write_runs, write_system
from tests.support.figures import read_figures
from tests.support.hub_server import LoopbackHub
from tests.support.hub_server.client import client_environment
from tests.support.tiny_recipes import write_recipes

Found = Callable[[Done, Path], object]
"""Returns what a command printed or wrote."""


def printed(*path: str | int) -> Found:
    """Return what finds a value in the JSON that is printed."""

    def find(done: Done, work: Path) -> object:
        value = json.loads(done.stdout)
        for part in path:
            value = value[part]
        return value

    return find


def figure(**names: str) -> Found:
    """Return what finds a figure's value in the JSON that is printed."""

    def find(done: Done, work: Path) -> object:
        (row,) = read_figures(done.stdout).where(**names)
        return row.value

    return find


def lines(file: str = "") -> Found:
    """Return what counts the lines of a file, or of stdout."""

    def find(done: Done, work: Path) -> object:
        data = (work / file).read_bytes() if file else done.stdout.encode()
        return (gzip.decompress(data) if file.endswith(".gz") else data).count(b"\n")

    return find


def rows(file: str) -> Found:
    """Return what counts the rows of a Parquet file."""
    return lambda done, work: pq.read_metadata(work / file).num_rows


def queries(run: str) -> Found:
    """Return what counts the queries of a compressed run."""

    def find(done: Done, work: Path) -> object:
        return len(
            {line.split()[0] for line in gzip.decompress((work / run).read_bytes()).splitlines()}
        )

    return find


def listed(folder: str) -> Found:
    """Return what names the files and folders of a folder."""
    return lambda done, work: sorted(path.name for path in (work / folder).iterdir())


def states(code: str) -> Found:
    """Return what finds the states of the doctor's lines with a code."""
    return lambda done, work: [
        line["state"] for line in json.loads(done.stdout)["diagnoses"] if line["code"] == code
    ]


class Works(NamedTuple):
    """A call: its arguments, what is looked at, and what that must be."""

    line: str
    found: Found
    value: object


class Fails(NamedTuple):
    """A call that is refused: its arguments, the exit code, and the value that a message names."""

    line: str
    code: int
    wrong: str


TRIPLES = "msshift/length-short-triples/train-00000-of-00001.parquet"
AGREED = figure(figure="kappa_of_intent", system="all")
LEAKED = figure(figure="topics", slice="any of these")
FIND = "--train train.tsv --test test.tsv --encoder terms"
EXPERIMENT = "--collection mini:300 --system bi-encoder --sizes 20 --leaked 8 --seeds 1"

ROWS: dict[str, tuple[Works, Fails]] = {
    "demo": (
        Works("--collection mini:300", queries("msshift-demo/runs/bm25/length.run.gz"), 106),
        Fails("--collection ./nowhere", 3, "./nowhere"),
    ),
    "list": (
        Works("--format json", printed("shifts", "length", "built", "groups", "long", "test"), 62),
        Fails("bi-encoder-papr", 2, "'bi-encoder-papr'"),
    ),
    "doctor": (
        Works("msshift --format json", states("data"), ["ok"]),
        Fails("msshift --format xml", 2, "'xml'"),
    ),
    "build": (
        Works(
            "length --collection mini:300 --out made", rows("made/length-short/test.parquet"), 44
        ),
        Fails("lenght", 2, "'lenght'"),
    ),
    "import": (
        Works("ids --collection mini:300 --format json", printed("texts"), True),
        Fails("nowhere --check", 3, "nowhere"),
    ),
    "verify": (
        Works("--format json", printed("findings"), []),
        Fails("--topics sideways", 2, "'sideways'"),
    ),
    "triples": (
        Works("--negatives 1 --depth 10", rows(TRIPLES), 135),
        Fails("--shift lenght", 2, "'lenght'"),
    ),
    "export": (
        Works("length-short-triples out.tsv.gz", lines("out.tsv.gz"), 270),
        Fails("length-shrt-triples out.tsv", 2, "'length-shrt-triples'"),
    ),
    "variants": (
        Works("typos --out typos.tsv", lines("typos.tsv"), 106),
        Fails("typo --out x.tsv", 2, "'typo'"),
    ),
    "install": (
        Works(
            "./msshift --format json", printed("configs"), ["length", "length-short", "length-long"]
        ),
        Fails("no/such/folder", 3, "no/such/folder"),
    ),
    "push": (
        Works("./msshift --repo org/msshift --format json", printed("created"), True),
        Fails("./msshift --repo nobody", 2, "'nobody'"),
    ),
    "irds": (
        Works("export msshift/length/short/test queries", lines(), 44),
        Fails("export msshift/length/shrt/test queries", 1, "msshift/length/shrt/test"),
    ),
    "run": (
        Works("bm25 --out made", queries("made/bm25/length.run.gz"), 106),
        Fails("bm52", 2, "'bm52'"),
    ),
    "pretrain": (
        Works(
            "--collection mini:300 --recipe mini --out encoder",
            lambda done, work: (work / "encoder" / "model.safetensors").is_file(),
            True,
        ),
        Fails("--collection mini:300 --recipe mni --out encoder", 2, "'mni'"),
    ),
    "score": (
        Works(
            "runs/bm25/length.run.gz --test length-short --format json",
            figure(figure="score"),
            pytest.approx(0.3010822511),
        ),
        Fails("runs/bm25/length.run.gz --test length-shrt", 2, "'length-shrt'"),
    ),
    "evaluate": (
        Works(
            "runs --format json",
            figure(figure="rel_loss", group="mean"),
            pytest.approx(0.4988059093),
        ),
        Fails("runs --measures RRR@10", 2, "'RRR@10'"),
    ),
    "compare": (
        Works(
            "runs --reference bm25 --format json",
            figure(figure="out", against="bm25", group="mean"),
            pytest.approx(-0.1370622993),
        ),
        Fails("runs --reference bm24", 2, "'bm24'"),
    ),
    "report": (
        Works("runs/bm25 --no-links", lines("report/figures/matrix-length.csv"), 3),
        Fails("runs --out train.tsv", 2, "train.tsv"),
    ),
    "similarity": (
        Works(
            "--indicator unseen-words --format json",
            figure(figure="similarity", group="short"),
            pytest.approx(0.4053030303),
        ),
        Fails("--indicator unsen-words", 2, "'unsen-words'"),
    ),
    "annotate": (
        Works("--train train.tsv --test test.tsv --out sheet.csv", lines("sheet.csv"), 5),
        Fails("--train train.tsv --test nowhere.tsv", 3, "nowhere.tsv"),
    ),
    "agree": (
        Works("sheet-a.csv sheet-b.csv sheet-c.csv --format json", AGREED, pytest.approx(1 / 3)),
        Fails("sheet-a.csv nowhere.csv", 3, "nowhere.csv"),
    ),
    "analyse": (
        Works(
            "--published --format json",
            figure(figure="spearman", system="splade-max", shift="topics", slice="all"),
            -1,
        ),
        Fails("--published --shift length", 2, "'length'"),
    ),
    "submit": (
        Works(
            "good/runs/made-up --system system.toml --data mini --out submission",
            listed("submission/entries/mini/made-up/v1"),
            ["scores.parquet", "system.toml", "training.csv"],
        ),
        Fails("runs/dense --system nowhere.toml", 3, "nowhere.toml"),
    ),
    "leakage find": (
        Works(f"{FIND} --format json", LEAKED, 1),
        Fails(f"{FIND} --fail-on same-txt", 2, "'same-txt'"),
    ),
    "leakage clean": (
        Works("--found found --train train.tsv --out cleaned", lines("cleaned/queries.tsv"), 1),
        Fails("--found nowhere --train train.tsv --out cleaned", 3, "nowhere"),
    ),
    "leakage experiment": (
        Works(
            f"{EXPERIMENT} --format json",
            lambda done, work: {row.system for row in read_figures(done.stdout)},
            {"bi-encoder"},
        ),
        Fails("--collection mini:300 --system bi-encodr", 2, "'bi-encodr'"),
    ),
    "leaderboard check": (
        Works(
            "--entries good/entries --data mini --runs good/runs",
            lambda done, work: "mini/made-up/v1" in done.stdout + done.stderr,
            True,
        ),
        Fails("mini/made-down --entries good/entries --data mini --runs runs", 2, "mini/made-down"),
    ),
    "leaderboard build": (
        Works(
            "--entries good/entries --out site",
            lambda done, work: (work / "site/index.html").is_file(),
            True,
        ),
        Fails("--entries nowhere --out site", 3, "nowhere"),
    ),
}
"""A command's words -> its calls."""

BY_SCRIPT = ("install", "push")
"""The commands whose libraries read the environment as they are imported."""

TRAINED = ("pretrain", "leakage experiment")

EACH = [
    pytest.param(words, marks=[pytest.mark.neural] if words in TRAINED else []) for words in ROWS
]


@pytest.fixture
def short_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the demo one shift and BM25; test_help runs all of it, by the console script."""
    monkeypatch.setattr(begin, "SHIFT_NAMES", ("length",))
    monkeypatch.setattr(begin, "SYSTEMS", ("bm25",))


def test_every_command_has_a_row() -> None:
    assert list(ROWS) == [" ".join(words) for words in COMMANDS]


@pytest.fixture(scope="module")
def stock(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with triples, the same without texts, run sets, queries and sheets."""
    folder = tmp_path_factory.mktemp("stock") / "work"
    shutil.copytree(build_once("mini:300", "length", texts=False), folder / "ids")
    data = shutil.copytree(build_once("mini:300", "length"), folder / "msshift")
    add_triples(data, open_collection("mini:300"), count=2, depth=20)
    write_runs(folder / "runs" / "dense", data, seeds=(1, 2))
    write_runs(folder / "runs" / "bm25", data, one=True)
    (folder / "train.tsv").write_text("1\tcheap flights to rome\n2\twho is the pope\n")
    (folder / "test.tsv").write_text("8\tcheap flights to rome\n9\twho is rome\n")
    head = "test_id,test_text,train_id,train_text,found_by,entity,intent"
    for name, intent in zip("abc", "110", strict=True):
        judged = f"8,rooms,1,flights,BM25,1,{intent}\n9,rome,2,pope,BM25,0,0\n"
        (folder / f"sheet-{name}.csv").write_text(f"{head}\n{judged}")
    find_leakage(folder / "train.tsv", folder / "test.tsv").write(folder / "found")
    write_system(folder / "system.toml", length="msshift")
    write_recipes(folder / "recipes")
    return folder


@pytest.fixture
def work(stock: Path, good: Path, mini_length: Path, tmp_path: Path) -> Path:
    """A copy of the stock; and a submission on the data set `mini`."""
    folder = shutil.copytree(stock, tmp_path / "work")
    shutil.copytree(good, folder / "good")
    (folder / "mini").symlink_to(mini_length)
    return folder


Call = Callable[..., Done]


@pytest.fixture
def call(work: Path, tmp_path: Path, hub: LoopbackHub) -> Call:
    """Return a function that calls a command with a line of arguments."""
    environment = {
        **client_environment(tmp_path, hub),
        "USE_TORCH": "0",
        "IR_DATASETS_HOME": str(tmp_path / "irds"),
        "MSSHIFT_RECIPES": str(work / "recipes"),
    }

    def run(words: str, line: str, *, by_script: bool = False) -> Done:
        run_command = run_script if by_script else run_msshift
        return run_command([*words.split(), *line.split()], work, environment)

    return run


def check_works(expected: Works, done: Done, work: Path) -> None:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert expected.found(done, work) == expected.value


def check_fails(expected: Fails, done: Done) -> None:
    assert done.returncode == expected.code, done.stderr
    assert expected.wrong in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", EACH)
@pytest.mark.usefixtures("short_demo")
def test_a_command_does_what_it_is_for(words: str, call: Call, work: Path) -> None:
    works, _ = ROWS[words]
    check_works(works, call(words, works.line, by_script=words in BY_SCRIPT), work)


@pytest.mark.parametrize("words", ROWS)
def test_a_command_refuses_a_wrong_value_and_names_it(words: str, call: Call, work: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    _, fails = ROWS[words]
    check_fails(fails, call(words, fails.line))
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


@pytest.mark.extended
@pytest.mark.parametrize("words", [one for one in ROWS if one not in (*BY_SCRIPT, "demo")])
def test_the_installed_console_script_does_and_refuses_the_same(
    words: str, call: Call, work: Path
) -> None:
    works, fails = ROWS[words]
    check_fails(fails, call(words, fails.line, by_script=True))
    check_works(works, call(words, works.line, by_script=True), work)
