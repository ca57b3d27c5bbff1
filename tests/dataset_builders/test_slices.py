"""A published slice is cut from a raw copy of MS MARCO, and from a repaired one, to equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import datasets
import ir_datasets
import pytest

from msshift_bench import evaluate
from msshift_bench.data import double_encode, read_manifest, repair_text
from msshift_bench.dataset_builders.slices import SLICES, cut_ids, cut_slice, publish_slice
from msshift_bench.errors import DataError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.leaderboard.description import BOARDS
from tests.conftest import Command
from tests.support.board_digests import data_digest

PASSAGES = {
    "0": "A café in Zürich costs 5 €.",
    "7": "Plain words.",
    "12": "The naïve ’quote’ — 20 °C.",  # noqa: RUF001
    "30": "日本 is Japan.",
    "31": "No query needs it.",
    "99": "It is not in the slice.",
}
QUERIES = {"3": "café in Zürich", "5": "what is plain", "20": "how warm", "44": "not in the slice"}
QRELS = {"3": {"0": 1}, "5": {"7": 1, "99": 1}, "20": {"12": 1, "31": 0}, "44": {"99": 1}}
INSIDE = {key: text for key, text in PASSAGES.items() if key != "99"}


def write_copy(folder: Path, passages: Mapping[str, str], *, parts: bool) -> Path:
    """Write a made MS MARCO: in files of train and dev as Microsoft's, or as a collection here."""
    folder.mkdir()
    rows = {key: [key] for key in QUERIES}
    first, second = (".train", ".dev.small") if parts else ("", None)
    (folder / "collection.tsv").write_text("".join(f"{k}\t{t}\n" for k, t in passages.items()))
    for end, keys in ((first, ["44", "3", "5"]), (second, ["20"])):
        target = folder / f"queries{first if end is None else end}.tsv"
        with target.open("a") as file:
            file.writelines(f"{key}\t{QUERIES[key]}\n" for key in keys if rows[key])
        with (folder / target.name.replace("queries", "qrels")).open("a") as file:
            file.writelines(
                f"{key}\t0\t{doc}\t{grade}\n" for key in keys for doc, grade in QRELS[key].items()
            )
    return folder


@pytest.fixture
def published(tmp_path: Path) -> Path:
    queries = {key: text for key, text in QUERIES.items() if key != "44"}
    publish_slice(tmp_path / "made.parquet", INSIDE, queries, QRELS, ["20"])
    return tmp_path / "made.parquet"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_raw_and_repaired_copies_give_equal_bytes(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = {key: double_encode(text) for key, text in PASSAGES.items()}
    mixed = raw | {"12": double_encode("The naïve ") + "’quote’ — 20 °C."}  # noqa: RUF001
    copies = {
        "raw": write_copy(tmp_path / "raw", raw, parts=True),
        "mixed": write_copy(tmp_path / "mixed", dict(reversed(mixed.items())), parts=False),
        "repaired": write_copy(tmp_path / "repaired", PASSAGES, parts=True),
    }
    whole = write_copy(tmp_path / "whole", PASSAGES, parts=False)
    names = [str(whole / f"{name}.tsv") for name in ("collection", "queries", "qrels")]
    toy = ir_datasets.create_dataset(*names)
    for part in ("train", "dev/small"):
        monkeypatch.setitem(ir_datasets.registry._registered, f"msmarco-passage/{part}", toy)
    cuts = [cut_ids(published, copy, tmp_path / f"cut-{name}") for name, copy in copies.items()]
    cuts.append(cut_ids(published, "msmarco-passage", tmp_path / "cut-ids"))
    assert {cut.changed for cut in cuts} == {()}
    first, *others = (content(cut.folder) for cut in cuts)
    assert others == [first] * 3
    rows = [line.split("\t") for line in first["collection.tsv"].decode().splitlines()]
    assert {key: repair_text(text) for key, text in rows} == INSIDE
    assert first["qrels.tsv"] == b"3\t0\t0\t1\n5\t0\t7\t1\n20\t0\t12\t1\n"
    assert first["test-queries.txt"] == b"20\n"


def test_texts_that_differ_are_counted_and_named(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = write_copy(tmp_path / "changed", PASSAGES | {"7": "Other words."}, parts=True)
    with pytest.raises(DataError, match=r"changed has other texts of 1 of 8 .*\(passage 7\); give"):
        cut_ids(published, changed, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
    monkeypatch.setattr("msshift_bench.dataset_builders.slices._MOST_CHANGED", 0.2)
    cut = cut_ids(published, changed, tmp_path / "cut")
    assert cut.changed == ("passage 7",)
    assert json.loads((cut.folder / "slice.json").read_text())["changed"] == ["passage 7"]
    assert cut_ids(published, None, tmp_path / "cut") == cut  # It is not cut again.


def test_what_a_copy_lacks_is_counted_and_named(published: Path, tmp_path: Path) -> None:
    passages = {key: text for key, text in PASSAGES.items() if key not in ("0", "30")}
    lacking = write_copy(tmp_path / "lacking", passages, parts=True)
    (lacking / "queries.dev.small.tsv").unlink()
    with pytest.raises(DataError, match=r"lacks 3 of 8 .*\(passage 0, passage 30, query 20\); giv"):
        cut_ids(published, lacking, tmp_path / "cut")
    short = write_copy(tmp_path / "short", PASSAGES, parts=True)
    (short / "qrels.dev.small.tsv").unlink()
    with pytest.raises(DataError, match=r"short has 2 judgements of relevant .* expected 3 "):
        cut_ids(published, short, tmp_path / "cut")
    (short / "queries.train.tsv").unlink()
    (short / "queries.dev.small.tsv").unlink()
    with pytest.raises(NotFoundError, match=r"holds none of queries\.tsv, queries\.train\.tsv"):
        cut_ids(published, short, tmp_path / "cut")


def test_a_slice_needs_its_name_and_a_copy(tmp_path: Path, msshift: Command) -> None:
    with pytest.raises(UnknownNameError):
        cut_slice("msmarco", tmp_path, tmp_path / "cut")
    with pytest.raises(UsageError, match=r"msmarco-pool is cut from your copy.*--from FOLDER"):
        cut_slice("msmarco-pool", None, tmp_path / "cut")
    done = msshift("build", "length", "--collection", "mini:300", "--from", tmp_path)
    assert (done.returncode, "unknown slice" in done.stderr) == (2, True), done.stderr


def test_a_folder_that_is_no_slice_stays(
    published: Path, tmp_path: Path, msshift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = write_copy(tmp_path / "msmarco-pool", PASSAGES, parts=False)
    before = content(copy)
    with pytest.raises(
        UsageError, match=r"msmarco-pool is not a cut slice.*; move it away, or .*--out"
    ):
        cut_ids(published, copy, copy)
    monkeypatch.chdir(tmp_path)
    place = ("--collection", "msmarco-pool", "--licence", "mit")
    assert msshift("build", "length", *place, "--from", copy).returncode == 2
    assert content(copy) == before
    done = msshift("build", "length", *place, "--train-size", "all", "--validation-size", 0)
    assert "slice" not in done.stderr  # It is read as a collection of the reader's own.


@pytest.mark.extended
@pytest.mark.realdata
def test_the_published_slice_is_cut_from_real_passages(
    real_data: Path, tmp_path: Path, msshift: Command
) -> None:
    (name,) = SLICES
    out, collection = tmp_path / "msshift", tmp_path / name
    place = ("--collection", name, "--out", out, "--encoder", "terms")
    done = msshift("build", "length", "topics", *place, "--from", real_data / "msmarco-pool")
    assert done.returncode == 0, done.stderr
    counts = {path.name: len(path.read_bytes().splitlines()) for path in collection.iterdir()}
    assert counts == {
        "collection.tsv": 58_822, "queries.tsv": 16_367, "qrels.tsv": 23_443,
        "test-queries.txt": 3_847, "slice.json": 5,
    }  # fmt: skip
    manifest = read_manifest(out)
    assert manifest.collection["licence"] == "cc-by-nc-sa-4.0"

    board = BOARDS["msmarco-pool-v2"]
    assert {shift: (data_digest(shift, out),) for shift in board.shifts} == board.shifts
    assert board.groups["topics"] == manifest.describe_groups("topics")
    rows = datasets.load_dataset(str(out), "length-short", cache_dir=str(tmp_path / "cache"))
    relevant = {row["text"]: row["relevant_doc_ids"][0] for row in rows["test"]}
    assert len(relevant) == 1_965

    class Retriever:
        def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
            return [{relevant.get(query, "0"): 1.0} for query in queries]

    result = evaluate(Retriever(), "length", data=out, collection=collection)
    found = {row.group: row.value for row in result.figures.where(figure="score")}
    assert found["short"] == 1.0
    assert found["long"] == 0.0
