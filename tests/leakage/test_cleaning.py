"""Taking leaks out of a training set: every file, by tier, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench import clean_training, find_leakage
from msshift_bench.errors import CollectionError, DataError, NotFoundError, UsageError
from tests.conftest import Command

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
    assert [(one["lines"], one["leaking"], one["unknown"]) for one in manifest["files"]] == [
        (4, 2, 0),
        (5, 2, 1),
        (3, 1, 1),
    ]
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


def test_what_cannot_be_cleaned_leaves_nothing_behind(work: Path) -> None:
    found, train, out = work / "found", work / "train.tsv", work / "clean"
    (work / "none.tsv").write_text("2\td1\td2\n")
    (work / "bad.tsv").write_text("1\td1\td2\n2\td1\n")
    (work / "other.tsv").write_text("7\tflowers\n")
    with pytest.raises(DataError, match=r"nothing of .*none\.tsv would be left: of 1 lines, 1 are"):
        clean_training(found, train, out, triples=work / "none.tsv")
    with pytest.raises(CollectionError, match=r"bad\.tsv:2: 2 tab-separated fields where 3"):
        clean_training(found, train, out, triples=work / "bad.tsv")
    with pytest.raises(DataError, match="for other training queries than"):
        clean_training(found, work / "other.tsv", out)
    with pytest.raises(NotFoundError, match=r"holds no found\.json"):
        clean_training(work, train, out)
    with pytest.raises(NotFoundError, match=r"there is no file .*gone\.tsv"):
        clean_training(found, work / "gone.tsv", out)
    assert not out.exists()
    (found / "candidates.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"names another SHA-256"):
        clean_training(found, train, out)
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    find_leakage(train, {"t": "red shoes"}).write(work / "again")
    with pytest.raises(UsageError, match=r"holds mine\.txt, which is no part of"):
        clean_training(work / "again", train, out)


def test_no_training_set_but_a_cleaned_one_is_replaced(work: Path) -> None:
    own = work / "own"
    own.mkdir()
    (own / "queries.tsv").write_text(TRAIN)
    (own / "qrels.tsv").write_text(QRELS)
    with pytest.raises(UsageError, match=r"own holds qrels\.tsv, which is no part of"):
        clean_training(work / "found", work / "train.tsv", own)
    assert (own / "queries.tsv").read_text() == TRAIN
    clean = work / "clean"
    clean_training(work / "found", work / "train.tsv", clean)
    find_leakage(clean / "queries.tsv", {"t": "how old is the sun"}).write(work / "again")
    with pytest.raises(UsageError, match=r"queries\.tsv is read, and would be overwritten"):
        clean_training(work / "again", clean / "queries.tsv", clean)
    assert clean_training(work / "again", clean / "queries.tsv", work / "next").files[0].kept == 1


def test_what_was_changed_since_it_was_found_is_refused(work: Path) -> None:
    found, train, out = work / "found", work / "train.tsv", work / "clean"
    facts = (found / "found.json").read_text()
    (found / "found.json").write_text(
        facts.replace('"training_queries": ', '"training_queries": 1')
    )
    with pytest.raises(DataError, match=r"found\.json was changed after .* wrote it; find again"):
        clean_training(found, train, out)
    (found / "found.json").write_text(facts)
    data = (found / "candidates.parquet").read_bytes()
    (found / "candidates.parquet").write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(CollectionError, match=r"found\.json names another SHA-256"):
        clean_training(found, train, out)
    assert not out.exists()
