"""Taking leaks out of a training set: every file, by tier, whole or not at all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from msshift_bench import clean_training, find_leakage
from msshift_bench.errors import UsageError
from tests.conftest import Command
from tests.support.golden import Golden

TRAIN = "1\tcheap flights\n2\tred shoes\n3\tshoes red\n4\thow old is the sun\n"
QRELS = "1 0 d1 1\n2 0 d2 2\n2 0 d3 0\n9 0 d1 1\n4 0 d4 1\n"
IDS = "1\td1\td2\n3\td2\td1\n9\td1\td2\n"
TEXTS = "cheap flights\ta passage\tanother one\nred shoes\ta passage\tanother\nnobody's\tp p\tn n\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name, text in (("train", TRAIN), ("qrels", QRELS), ("ids", IDS), ("texts", TEXTS)):
        (tmp_path / f"{name}.tsv").write_text(text)
    find_leakage(tmp_path / "train.tsv", {"t": "red shoes"}).write(tmp_path / "found")
    return tmp_path


def test_every_file_loses_what_leaks_and_what_nobody_looked_at(
    msshift: Command, work: Path
) -> None:
    command = ("leakage", "clean", "--found", "found", "--train", "train.tsv")
    done = msshift(*command, "--qrels", "qrels.tsv", "--triples", "ids.tsv")
    assert done.returncode == 0, done.stderr
    clean = work / "clean"
    assert (clean / "queries.tsv").read_text() == "1\tcheap flights\n4\thow old is the sun\n"
    assert (clean / "qrels.tsv").read_text() == "1\t0\td1\t1\n4\t0\td4\t1\n"
    assert (clean / "triples.tsv").read_text() == "1\td1\td2\n"
    assert (clean / "removed.tsv").read_text() == "2\tsame-text\n3\tsame-words\n"
    manifest = json.loads((clean / "manifest.json").read_text())
    counts = [(file["lines"], file["leaking"], file["unknown"]) for file in manifest["files"]]
    assert counts == [(4, 2, 0), (5, 2, 1), (3, 1, 1)]
    cleaned = clean_training(
        work / "found", work / "train.tsv", clean, triples=work / "texts.tsv", tier="same-text"
    )
    assert cleaned.removed == {"same-text": 1}
    assert [one.kept for one in cleaned.files] == [3, 1]
    assert repr(cleaned) == "<CleanedTraining: 1 queries left out>"
    assert (clean / "triples.tsv").read_text() == "cheap flights\ta passage\tanother one\n"
    assert not (clean / "qrels.tsv").exists()
    written = json.loads((clean / "manifest.json").read_text())
    assert [one["kept"] for one in written["files"]] == [3, 1]
    # What is clean stays clean.
    assert find_leakage(clean / "queries.tsv", {"t": "red shoes"}).count("same-text").pairs == 0


def test_what_cannot_be_cleaned_leaves_nothing_behind(work: Path, golden: Golden) -> None:
    found, train, out = work / "found", work / "train.tsv", work / "clean"
    files = {"none": "2\td1\td2\n", "bad": "1\td1\td2\n2\td1\n", "other": "7\tflowers\n"}
    for name, text in files.items():
        (work / f"{name}.tsv").write_text(text)
    facts = (found / "found.json").read_bytes()
    data = (found / "candidates.parquet").read_bytes()
    for name, facts_now, data_now in (
        ("facts", facts.replace(b'"training_queries": ', b'"training_queries": 1'), data),
        ("pairs", facts, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
        ("short", facts, b"PAR1"),
    ):
        (work / name).mkdir()
        (work / name / "found.json").write_bytes(facts_now)
        (work / name / "candidates.parquet").write_bytes(data_now)
    clean = partial(clean_training, out=out)
    refusals = {
        "nothing left": partial(clean, found, train, triples=work / "none.tsv"),
        "two columns": partial(clean, found, train, triples=work / "bad.tsv"),
        "other queries": partial(clean, found, work / "other.tsv"),
        "nothing found": partial(clean, work, train),
        "no queries": partial(clean, found, work / "gone.tsv"),
        **{f"other {name}": partial(clean, work / name, train)
           for name in ("facts", "pairs", "short")},
    }  # fmt: skip
    golden.check_refusals("cannot-be-cleaned.txt", refusals)
    assert not out.exists()


def test_no_training_set_but_a_cleaned_one_is_replaced(work: Path) -> None:
    for files in (["mine.txt"], ["queries.tsv", "qrels.tsv"], ["qrels.tsv", "removed.tsv"]):
        own = work / files[0].partition(".")[0]
        own.mkdir()
        for name in files:
            (own / name).write_text(TRAIN)
        with pytest.raises(UsageError, match=rf"{own.name} holds {min(files)}, which is no part"):
            clean_training(work / "found", work / "train.tsv", own)
        assert {path.read_text() for path in own.iterdir()} == {TRAIN}
    clean = work / "clean"
    clean_training(work / "found", work / "train.tsv", clean)
    find_leakage(clean / "queries.tsv", {"t": "how old is the sun"}).write(work / "again")
    with pytest.raises(UsageError, match=r"queries\.tsv is read, and would be overwritten"):
        clean_training(work / "again", clean / "queries.tsv", clean)
    assert clean_training(work / "again", clean / "queries.tsv", work / "next").files[0].kept == 1
