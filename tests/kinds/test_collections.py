"""Every kind of collection gives the same data and runs at every command that reads one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import ir_datasets
import pytest

from msshift_bench.data import Collection, open_collection, read_manifest
from tests.support.command_line import run_msshift
from tests.support.commands import COMMANDS
from tests.support.lanes import with_first
from tests.support.tiny_recipes import write_recipes
from tests.support.tsv_files import write_tsv_folder

MINI = "mini:300"
REGISTERED = "msshift-test-kinds"


def write_beir(folder: Path, pack: Callable[[str], bytes] = str.encode, end: str = "") -> None:
    collection = open_collection(MINI)
    (folder / "qrels").mkdir(parents=True)
    passages = [{"_id": p.doc_id, "title": "", "text": p.text} for p in collection.passages()]
    queries = [{"_id": query_id, "text": text} for query_id, text in collection.queries.items()]
    for name, rows in (("corpus", passages), ("queries", queries)):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl{end}").write_bytes(pack(text))
    judged = "".join(
        f"{query_id}\t{doc_id}\t{grade}\n"
        for query_id, docs in collection.qrels.items()
        for doc_id, grade in docs.items()
    )
    (folder / "qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")


def compress(text: str) -> bytes:
    return gzip.compress(text.encode())


def write_compressed(folder: Path) -> None:
    write_tsv_folder(folder, open_collection(MINI))
    for path in list(folder.glob("*.tsv")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def write_slice(folder: Path) -> None:
    """A slice of a larger collection: some judged passages are not in it."""
    write_tsv_folder(folder, open_collection(MINI))
    (folder / "qrels.tsv").rename(folder / "qrels_in_pool.tsv")
    (folder / "qrels.tsv").write_text("absent 0 elsewhere 1\n")


def register(folder: Path) -> None:
    write_tsv_folder(folder, open_collection(MINI))
    files = ("collection.tsv", "queries.tsv", "qrels.tsv")
    ir_datasets.registry._registered[REGISTERED] = ir_datasets.create_dataset(
        *(str(folder / name) for name in files)
    )


KINDS: Mapping[str, tuple[str, Callable[[Path], object] | None]] = {
    "generated": (MINI, None),
    "tsv": ("tsv", lambda folder: write_tsv_folder(folder, open_collection(MINI))),
    "tsv with gzip": ("packed", write_compressed),
    "tsv of a slice": ("slice", write_slice),
    "tsv in another order": (
        "shuffled",
        lambda folder: write_tsv_folder(folder, open_collection(MINI), shuffle=True),
    ),
    "beir": ("beir", write_beir),
    "beir with gzip": ("beir-packed", lambda folder: write_beir(folder, compress, ".gz")),
    "ir_datasets": (REGISTERED, register),
}
"""Kind -> the value of ``--collection``, and what writes the folder."""

STEPS: Mapping[str, str] = {
    "build": "build length topics --encoder terms --collection {0}",
    "verify": "verify msshift --topics replay --collection {0}",
    "triples": "triples --collection {0} --negatives 2 --depth 20 --shift length",
    "export": "export length-short-triples triples.tsv --text --collection {0}",
    "run": "run bm25 --collection {0} --shift length",
    "irds": "irds --collection {0} export msshift/length/short/test docs",
    "import": "import ids/msshift --collection {0}",
}
"""Command -> its words. They run one after the other in one folder."""

TRAINING: Mapping[str, str] = {
    "pretrain": "pretrain --collection {0} --out encoder",
    "leakage experiment": "leakage experiment --collection {0} --sizes 20 --leaked 8 --seeds 1 "
    "--system knrm",
}
"""Commands that train -> their words, for the extended tests."""

LAYOUTS = ("generated", "tsv", "beir", "ir_datasets")

ELSEWHERE = {"demo"}
"""A command that tests/integration/test_demo.py runs: topics of other layouts need the Hub."""


def open_kind(kind: str, folder: Path) -> str:
    """Write the collection of a kind below a folder, and return the value of ``--collection``."""
    name, write = KINDS[kind]
    if write is None:
        return name
    write(folder / name)
    return name if name == REGISTERED else str(folder / name)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = dict(ir_datasets.registry._registered)
    monkeypatch.setattr(ir_datasets.registry, "_registered", registered)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | str]:
    """What the commands write from the generated collection."""
    return take_steps("generated", tmp_path_factory.mktemp("generated"))


def take_steps(kind: str, folder: Path) -> dict[str, bytes | str]:
    """Run `STEPS` on a kind; return the digests and bytes that must not depend on the kind."""
    source = open_kind(kind, folder)
    cache: dict[str, str | None] = {"MSSHIFT_CACHE": str(folder / "cache")}
    printed = {}
    for command, words in STEPS.items():
        if command == "import":
            (folder / "ids").mkdir()
            without_texts = f"{STEPS['build'].format(source)} --ids-only --out ids/msshift"
            assert run_msshift(without_texts.split(), folder, cache).returncode == 0
        done = run_msshift(words.format(source).split(), folder, cache)
        assert done.returncode == 0, done.stderr
        printed[command] = done.stdout
    manifests = (read_manifest(folder / "msshift"), read_manifest(folder / "ids/msshift"))
    built, hydrated = (
        {f"{config}/{split}": entry.digest for config, splits in one.configs.items()
         for split, entry in splits.items()}
        for one in manifests
    )  # fmt: skip
    assert hydrated.items() <= built.items()
    return {
        **built,
        "docs": "".join(sorted(printed["irds"].splitlines(keepends=True))),
        "triples": (folder / "triples.tsv").read_bytes(),
        "run": (folder / "runs/bm25/length.run.gz").read_bytes(),
    }


def test_every_kind_and_every_command_has_a_row() -> None:
    assert {kind.layout for kind in Collection.__subclasses__() if hasattr(kind, "layout")} <= {
        *LAYOUTS
    }
    assert KINDS.keys() >= {*LAYOUTS}
    reading = {
        " ".join(words)
        for words, command in COMMANDS.items()
        if any(parameter.name == "collection" for parameter in command.params)
    }
    assert reading == {*STEPS, *TRAINING, *ELSEWHERE}


@pytest.mark.extended
@pytest.mark.parametrize(
    "kind", with_first((kind for kind in KINDS if kind != "generated"), ["tsv"])
)
def test_every_command_reads_every_kind(
    kind: str, generated: dict[str, bytes | str], tmp_path: Path
) -> None:
    made = take_steps(kind, tmp_path)
    assert {name for name in made if made[name] != generated[name]} == set()


@pytest.mark.neural
@pytest.mark.extended
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("command", TRAINING)
def test_every_command_that_trains_reads_every_layout(
    command: str, kind: str, tmp_path: Path
) -> None:
    source = open_kind(kind, tmp_path)
    environment = {"MSSHIFT_RECIPES": str(write_recipes(tmp_path / "recipes"))}
    done = run_msshift(TRAINING[command].format(source).split(), tmp_path, environment)
    assert done.returncode == 0, done.stderr
