"""Every example of the help texts runs exactly as it is shown."""

from __future__ import annotations

import shlex
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from msshift_bench.annotation import LEAKAGE, Pair, write_sheet
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leakage import LeakedPair, find_leakage
from tests.support.command_line import run_msshift, run_script
from tests.support.commands import EXAMPLES
from tests.support.fabricated import write_runs, write_system
from tests.support.hub_server import LoopbackHub, Repository
from tests.support.hub_server.client import client_environment
from tests.support.leaks import write_found
from tests.support.making import make_runs
from tests.support.official_checkout import write_checkout
from tests.support.run_files import write_test_set
from tests.support.tiny_recipes import write_recipes
from tests.support.tsv_files import write_tsv_folder

SIZE = 500


def _qrels(path: Path) -> None:
    data = path.with_name("msshift")
    rows = [r for g in ("short", "long") for r in load_dataset(data, f"length-{g}", split="test")]
    judged = ((row.query_id, doc_id) for row in rows for doc_id in row.relevant_doc_ids)
    path.write_text("".join(f"{query_id} 0 {doc_id} 1\n" for query_id, doc_id in judged))


def _labels(path: Path) -> None:
    rows = load_dataset(path.with_name("msshift"), "length", split="queries")
    path.write_text("".join(f"{row.query_id}\t{len(row.text.split())}\n" for row in rows))


def _models(path: Path) -> None:
    for group in ("short", "long"):
        (path.parent / group).mkdir(parents=True)
        settings = '{"model_type": "SentenceTransformer"}'
        (path.parent / group / "config_sentence_transformers.json").write_text(settings)


def _runs(folder: Path) -> None:
    write_runs(folder, folder.parent.with_name("msshift"))


def _run(path: Path) -> None:
    folder = path.with_name(f"made-{path.name}")
    made = write_runs(folder, path.with_name("msshift"), one=True)
    (made / "length.run.gz").rename(path)
    made.rmdir()


def _run_sets(folder: Path) -> None:
    _runs(folder / "my-system")
    write_runs(folder / "bm25", folder.with_name("msshift"), one=True)


def _sheet(path: Path) -> None:
    header = "test_id,test_text,train_id,train_text,found_by,entity,intent"
    path.write_text(f"{header}\n2,cheap rooms,1,cheap flights,BM25,1,0\n")


def _leaked_tests(folder: Path) -> None:
    first = next(iter(load_dataset(folder.with_name("msshift"), "length-short", split="test")))
    pair = LeakedPair(first.query_id, "t", "near-duplicate", 0.95, first.text, first.text)
    write_found(folder, [pair])


def _review(path: Path) -> None:
    pair = Pair("a", "cheap flights", "b", "cheap flight", "near-duplicate", 0.93)
    write_sheet([pair], LEAKAGE, path)
    path.write_text(path.read_text().replace(",,\n", f",{path.stem},identical\n"))


def _extra_tests(path: Path) -> None:
    # What the example names is NAME=FOLDER, so the last part is the folder, beside the runs.
    work = path.parents[1]
    rows = load_dataset(work / "msshift", "length", split="queries")
    (work / "dl19").mkdir()
    (work / "dl19" / "queries.tsv").write_text("".join(f"{row.query_id}\twho\n" for row in rows))
    _qrels(work / "qrels.txt")
    (work / "qrels.txt").rename(work / "dl19" / "qrels.tsv")
    for name in ("my-system", "bm25"):
        write_runs(work / "runs" / name / "extra" / "dl19", work / "msshift", one=True)


def _system(path: Path) -> None:
    write_system(path, "my-system", length="msshift")


def _found(folder: Path) -> None:
    train = folder.with_name("train.tsv")
    train.write_text("1\tcheap flights\n")
    find_leakage(train, {"2": "cheap rooms"}).write(folder)


def _typos(folder: Path) -> None:
    folder.mkdir()
    for name in ("", ".typo1"):
        (folder / f"queries.dev.small{name}.tsv").write_text("1\tcheap flights\n")


NAMED: Mapping[str, Callable[[Path], object]] = {
    "my-collection": lambda folder: write_tsv_folder(folder, open_collection(f"mini:{SIZE}")),
    "ms-marco-shift": write_checkout,
    "qrels.txt": _qrels,
    "labels.tsv": _labels,
    "domain=labels.tsv": lambda path: path.with_name("labels.tsv").write_text(
        "".join(f"{key}\t{'ab'[int(key) % 2]}\n" for key in open_collection(f"mini:{SIZE}").queries)
    ),
    "dl19": lambda folder: write_test_set(folder, {"t1": "cheap rooms"}, {"t1": "d1"}),
    "my.run.gz": _run,
    "bm25.run.gz": _run,
    "system.toml": _system,
    "scores.csv": lambda path: path.write_text(
        "model,interpolation,extrapolation,nfcorpus\n"
        + "".join(f"m{n},0.{n},0.{9 - n},0.{n * n % 7}\n" for n in range(1, 7))
    ),
    "train.tsv": lambda path: path.write_text("1\tcheap flights\n"),
    "test.tsv": lambda path: path.write_text("2\tcheap rooms\n"),
    **{f"sheet-{name}.csv": _sheet for name in "abc"},
    "found": _found,
    "./models/{held_out}": _models,
    "runs/": _run_sets,
    "found/": _leaked_tests,
    **{f"review-{name}.csv": _review for name in ("ann", "bob")},
    "dl19=./dl19": _extra_tests,
    "CharacterBERT-DR": _typos,
    "runs/my-system": _runs,
    "runs/bi-encoder": _runs,
    "runs/splade-max": _runs,
}
"""What an example may name as a thing that is there -> what makes it, beside the data set."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built data set with topics and triples."""
    folder = tmp_path_factory.mktemp("small") / "msshift"
    collection = open_collection(f"mini:{SIZE}")
    build_dataset(collection, ("topics", "wh-words", "length"), folder)
    add_triples(folder, collection, shifts=["length"], count=2, depth=20)
    return folder


@pytest.fixture
def work(small: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the data set, and what the leaderboard's examples name."""
    folder = tmp_path / "work"
    example = request.node.callspec.params["example"].split()
    if example[1] == "build" or "ms-marco-shift" in example:
        folder.mkdir()
    elif example[1] in ("leaderboard", "submit") or "--with" in example:
        shutil.copytree(request.getfixturevalue("mini_length"), folder / "msshift")
    else:
        shutil.copytree(small, folder / "msshift")
    if example[1] == "leaderboard":
        good = request.getfixturevalue("good")
        shutil.copytree(good, folder / "submission")
        shutil.copytree(good / "entries", folder / "mine")
        shutil.copytree(good / "runs", folder / "runs")
    return folder


WITH_MODELS = ("msshift demo", "msshift run", "msshift pretrain", "msshift leakage experiment")
SLOW = ("report", "install", "push", "leaderboard build", "--plot")


def _marks(example: str) -> list[pytest.MarkDecorator]:
    trains = example.startswith(WITH_MODELS)
    is_slow = trains or any(one in example for one in SLOW)
    return [pytest.mark.extended] * is_slow + [pytest.mark.neural] * trains


@pytest.mark.extended
@pytest.mark.parametrize("example", [pytest.param(one, marks=_marks(one)) for one in EXAMPLES])
def test_every_example_runs_as_it_stands(
    example: str, work: Path, tmp_path: Path, hub: LoopbackHub
) -> None:
    line, _, target = example.partition(" > ")
    words = shlex.split(line)
    for name in words:
        if name in NAMED and not (work / name).exists():
            NAMED[name](work / name)
    if "leaderboard check mini/bm25" in example:
        data = work / "msshift"
        make_runs("bm25", ["length"], collection="mini", out=work / "runs", data=data)
    if "runs/ --shift wh-words" in example:
        write_runs(work / "runs" / "my-system", work / "msshift", "wh-words")
    hub.repositories["my-org/msshift"] = Repository()
    environment = {
        **client_environment(tmp_path, hub),
        "IR_DATASETS_HOME": str(tmp_path / "irds"),
        "MSSHIFT_RECIPES": str(write_recipes(tmp_path / "recipes")),
    }
    # The Hub's client reads its environment as it is imported, and the demo imports everything.
    run_command = run_script if words[1] in ("install", "push", "demo") else run_msshift
    done = run_command(words[1:], work, environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    if target:
        assert tomllib.loads(done.stdout)
