"""The official edition's validation queries: sampled by us, from what nothing else uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.data.manifest import Manifest, read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders import release as importing
from msshift_bench.dataset_builders.release import import_official
from msshift_bench.shifts import parse_config
from tests.conftest import Command, WriteFolder
from tests.support.cut_rows import ids_of
from tests.support.official_checkout import (
    training_file,
    write_checkout,
    write_mini_checkout,
    write_resttest,
)

MINI = open_collection("mini:500")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mini_checkout(tmp_path_factory.mktemp("made-up") / "ms-marco-shift", MINI)


@pytest.fixture(scope="module")
def imported(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "msshift"
    import_official([checkout], folder, collection=MINI)
    return folder


def ids(folder: Path, split: str) -> dict[str, frozenset[str]]:
    """Return config -> the ids of a split, for every experiment."""
    configs = (name for name in read_manifest(folder).configs if parse_config(name)[1] is not None)
    return {config: frozenset(ids_of(folder, config, split)) for config in configs}


@pytest.mark.slow
def test_all_shifts_validate_on_what_none_of_them_uses(imported: Path) -> None:
    (common,) = set(ids(imported, "validation").values())
    used = frozenset().union(*ids(imported, "train").values(), *ids(imported, "test").values())
    assert not common & used
    # The made-up training file names every other query; none is left out.
    assert common | used == MINI.qrels.relevant().keys()
    assert len(common) > 20
    texts, relevant = dict(MINI.queries), MINI.qrels.relevant()
    for row in load_dataset(imported, "length-short", split="validation"):
        assert (row.text, row.relevant_doc_ids) == (texts[row.query_id], relevant[row.query_id])
        assert row.group == ("short" if len(row.text.split(" ")) <= 5 else "long")
    assert verify_dataset(imported)[1] == []
    facts = {"queries": len(common), "sampled_from": len(common), "seed": 0}
    assert read_manifest(imported).parameters["validation"] == facts
    card = (imported / "README.md").read_text()
    assert f"{len(common)} validation queries, the same for every shift: the release names" in card
    assert f"from the {len(common)} joined training queries" in card
    assert 'held_out["validation"]' in card


def test_no_more_are_sampled_than_the_papers_number(
    checkout: Path, tmp_path: Path, imported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "VALIDATION_SIZE", 10)
    manifest = import_official([checkout], tmp_path / "msshift", collection=MINI)
    assert manifest.parameters["validation"]["queries"] == 10
    (ten,) = set(ids(tmp_path / "msshift", "validation").values())
    assert len(ten) == 10
    assert ten < ids(imported, "validation")["length-short"]
    monkeypatch.undo()
    import_official([checkout], tmp_path / "alone", collection=MINI, shifts=["wh-words"])
    alone, all_three = read_manifest(tmp_path / "alone"), read_manifest(imported)
    assert alone.configs["wh-words-who"] == all_three.configs["wh-words-who"]


@pytest.fixture
def toy(tsv_folder: WriteFolder) -> Collection:
    folder = tsv_folder(
        queries="1\tone\n2\ttwo\n3\ttested\n4\ttrained\n5\ttrained\n6\tunjudged\n7\tnot named\n",
        qrels="".join(f"{query} 0 d1 1\n" for query in (1, 2, 3, 4, 5, 7)),
    )
    return open_collection(folder)


def import_toy(toy: Collection, folder: Path, *lines: str) -> Manifest:
    checkout = write_checkout(
        folder / "release",
        training_file(*lines),
        wha=("elsewhere\ttested\n", {"elsewhere": {"d1": 1}}),
    )
    return import_official([checkout], folder / "msshift", collection=toy)


def test_a_text_that_is_tested_or_trained_on_does_not_validate(
    toy: Collection, tmp_path: Path
) -> None:
    """The release knows queries by their text; "tested" has another id in its test set."""
    lines = ("one\t5\t0\t3\t0\t0\t0", "tested\t5\t0\t3\t0\t0\t0")
    import_toy(toy, tmp_path, *lines, "trained\t0\t1\t3\t0\t0\t0", "unjudged\t5\t0\t3\t0\t0\t0")
    assert set(ids(tmp_path / "msshift", "validation").values()) == {frozenset({"1"})}
    # Queries 4 and 5 are trained on by the topics: the other shifts do not validate on them.
    (row,) = load_dataset(tmp_path / "msshift", "topics-C3", split="validation")
    assert row.group == "others"


def test_where_nothing_is_left_there_is_no_validation(toy: Collection, tmp_path: Path) -> None:
    manifest = import_toy(toy, tmp_path, "trained\t0\t1\t3\t0\t0\t0")
    assert list(manifest.configs["topics-C1"]) == ["train", "test"]
    assert manifest.parameters["validation"] == {
        "queries": 0,
        "why": "every joined query is trained on or tested with in some shift",
    }
    card = (tmp_path / "msshift" / "README.md").read_text()
    assert "no validation queries: the release names none, and every joined query is" in card
    assert "trained to the end, without early stopping" in card
    assert 'held_out["validation"]' not in card


def test_a_release_of_test_queries_gets_no_validation_queries_from_the_other(
    toy: Collection, tmp_path: Path
) -> None:
    lines = training_file("one\t0\t1\t3\t0\t0\t0", "two\t5\t0\t3\t0\t0\t0")
    release = write_checkout(tmp_path / "one", lines)
    buckets = write_resttest(tmp_path / "two", dict(zip("12345", "34567", strict=True)))
    manifest = import_official([release, buckets], tmp_path / "msshift", collection=toy)
    assert manifest.parameters["validation"]["queries"] == 1
    (row,) = load_dataset(tmp_path / "msshift", "topics-C1", split="validation")
    assert row.query_id == "2"
    assert list(manifest.configs["topics-C1"]) == ["train", "validation", "test"]
    assert list(manifest.configs["resttest-1"]) == ["test"]


def test_the_command_says_that_there_is_none(msshift: Command, tmp_path: Path) -> None:
    done = msshift("build", "--official", write_checkout(tmp_path / "release"))
    assert done.returncode == 0, done.stderr
    why = "no training queries were joined to a collection"
    assert f"no validation queries: {why}" in done.stderr
    manifest = read_manifest(tmp_path / "msshift")
    assert list(manifest.configs["length-long"]) == ["test"]
    assert manifest.parameters["validation"] == {"queries": 0, "why": why}
    assert 'held_out["train"]' not in (tmp_path / "msshift" / "README.md").read_text()
    done = msshift("build", "--official", tmp_path / "release", "--qrels", "qrels.tsv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--qrels is a file of a collection; name that, too: --collection" in done.stderr
