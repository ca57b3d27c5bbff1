"""Test queries that are given: where they go, what never uses them, and files that are wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from msshift_bench.data import QueryColumns, open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.data.manifest import read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import cut_shift, ids_and_texts, queries_table
from msshift_bench.dataset_builders.groups import group_by_wh_word, word_count
from msshift_bench.dataset_builders.topics import replay_topics, retrain_topics
from msshift_bench.errors import CollectionError, DataError, NotFoundError, UsageError
from msshift_bench.shifts import SHIFTS
from tests.conftest import Command, WriteFolder
from tests.support.cut_rows import table_of_queries

MINI = open_collection("mini:500")
NAMES = ("topics", "wh-words", "length")
GIVEN = frozenset(ids_and_texts(queries_table(MINI)).ids[::7])


def ids(folder: Path, config: str, split: str) -> set[str]:
    return {row.query_id for row in load_dataset(folder, config, split=split)}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("given") / "ids.txt"
    path.write_text("".join(f"{query_id}\n" for query_id in sorted(GIVEN, reverse=True)))
    return path


@pytest.fixture(scope="module")
def built(listed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "msshift"
    build_dataset(MINI, NAMES, folder, test_queries=listed)
    return folder


def test_length_tests_with_them_alone_by_its_rule(built: Path) -> None:
    short, long = (ids(built, f"length-{group}", "test") for group in ("short", "long"))
    assert short | long == GIVEN
    cut = read_manifest(built).shifts["length"]["parameters"]["cut"]
    texts = dict(MINI.queries)
    assert {q for q in GIVEN if word_count(texts[q]) < cut} == short
    assert not short & long


def test_nothing_trains_or_validates_on_them(built: Path) -> None:
    for name in NAMES:
        for config in SHIFTS[name].configs:
            assert not GIVEN & (ids(built, config, "train") | ids(built, config, "validation"))
        counts = read_manifest(built).shifts[name]["rows"]
        assert len({placed["train"] for placed in counts.values()}) == 1
    validation = {
        frozenset(ids(built, config, "validation"))
        for name in NAMES
        for config in SHIFTS[name].configs
    }
    assert len(validation) == 1
    assert all(validation)
    assert verify_dataset(built)[1] == []


def test_other_shifts_lose_no_query_and_sample_on(built: Path, tmp_path: Path) -> None:
    build_dataset(MINI, ["wh-words"], tmp_path / "msshift")
    mine, usual = (ids(folder, "wh-words", "queries") for folder in (built, tmp_path / "msshift"))
    # A query of no group is in a whole shift where it validates.
    others = {
        row.query_id
        for folder in (built, tmp_path / "msshift")
        for row in load_dataset(folder, "wh-words", split="queries")
        if row.group == "others"
    }
    assert mine - others == usual - others
    splits = load_dataset(built, "wh-words", split="queries").table
    placed = dict(zip(splits["query_id"].to_pylist(), splits["split"].to_pylist(), strict=True))
    assert {placed[q] for q in GIVEN & placed.keys()} == {"test", "unused"}


def test_the_manifest_names_them(built: Path, tmp_path: Path) -> None:
    manifest = read_manifest(built)
    assert manifest.parameters["test_queries"]["queries"] == len(GIVEN)
    assert manifest.shifts["length"]["parameters"]["test_queries"] == len(GIVEN)
    assert "test_size" not in manifest.shifts["length"]["parameters"]
    assert manifest.shifts["wh-words"]["parameters"]["test_size"] == 6500
    assert f'"queries": {len(GIVEN)}' in (built / "README.md").read_text()
    build_dataset(MINI, NAMES, tmp_path / "again", test_queries=GIVEN)
    assert read_manifest(tmp_path / "again") == manifest


@pytest.mark.slow
def test_a_replay_tests_with_them_too(built: Path, listed: Path, tmp_path: Path) -> None:
    assert replay_topics(built, MINI, tmp_path / "again")[1] == []
    assert read_manifest(tmp_path / "again") == read_manifest(built)
    build_dataset(MINI, NAMES, tmp_path / "nano", test_queries=listed, nano=True)
    with pytest.raises(
        UsageError, match=r"a small part of the test queries .* cannot be made again"
    ):
        replay_topics(tmp_path / "nano", MINI, tmp_path / "other")


def test_topics_grow_to_their_size_without_them(built: Path) -> None:
    target = read_manifest(built).shifts["topics"]["parameters"]["clustering"]["target"]
    table = load_dataset(built, "topics", split="queries").table.to_pylist()
    for group in SHIFTS["topics"].groups:
        usable = {
            row["query_id"]
            for row in table
            if row["group"] == group and row["split"] != "validation"
        }
        assert len(usable - GIVEN) >= target
    made_again = retrain_topics(built, MINI)
    assert made_again.identical
    assert made_again.regrouped == 0


def test_files_of_queries_and_compressed_ones(built: Path, tmp_path: Path) -> None:
    texts = dict(MINI.queries)
    lines = "".join(f"{query_id}\t{texts[query_id]}\r\n" for query_id in sorted(GIVEN))
    path = tmp_path / "queries.tsv.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    build_dataset(MINI, NAMES, tmp_path / "msshift", test_queries=path)
    assert read_manifest(tmp_path / "msshift") == read_manifest(built)


def test_a_file_that_cannot_be_used(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    collection = open_collection(tsv_folder(qrels="q1 0 d1 1\nq2 0 d2 0\n"))
    path = tmp_path / "ids.txt"
    path.write_text("q1\nq2\nq9\tsome text\nq1\n\nq1 \n")
    with pytest.raises(CollectionError) as caught:
        build_dataset(collection, ["length"], tmp_path / "x", test_queries=path)
    said = str(caught.value)
    assert f"{path}:2: query 'q2' has no relevant passage in toy [unjudged-query]" in said
    assert f"{path}:3: toy has no query 'q9' [unknown-query]" in said
    assert f"{path}:4: query 'q1' again, after line 1 [repeated-id]" in said
    assert f"{path}:5: blank line [blank-line]" in said
    assert f"{path}:6: toy has no query 'q1 ' [unknown-query]" in said
    path.write_text("")
    with pytest.raises(CollectionError, match=r"ids.txt: the file names no query \[no-queries\]"):
        build_dataset(collection, ["length"], tmp_path / "x", test_queries=path)
    with pytest.raises(NotFoundError):
        build_dataset(collection, ["length"], tmp_path / "x", test_queries=tmp_path / "nothing")
    assert not (tmp_path / "x").exists()


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="length, resttest alone, and topics, wh-words are being"):
        build_dataset(MINI, NAMES[:2], tmp_path / "x", test_queries=GIVEN)
    with pytest.raises(UsageError, match="either test queries or the number to sample"):
        build_dataset(MINI, ["length"], tmp_path / "x", test_queries=GIVEN, test_size=3)
    short = next(q.query_id for q in MINI.queries if q.query_id in GIVEN and len(q.text) < 25)
    with pytest.raises(DataError, match="none of the 1 given test queries is in group 'long'"):
        build_dataset(MINI, ["length"], tmp_path / "x", test_queries=frozenset({short}))
    everything = frozenset(ids_and_texts(queries_table(MINI)).ids)
    with pytest.raises(DataError, match=r"length: group '\w+' has nothing left to train on"):
        build_dataset(MINI, ["length"], tmp_path / "x", test_queries=everything)
    assert not (tmp_path / "x").exists()


def test_one_that_no_group_takes_is_named() -> None:
    queries = QueryColumns(
        tuple(f"q{n}" for n in range(9)), ("what", "how", "who") * 2 + ("cost",) * 3
    )
    with pytest.raises(
        DataError, match=r"1 of the 4 given test queries are in no group, e\.g\. 'q7'"
    ):
        cut_shift(
            group_by_wh_word(queries),
            table_of_queries(dict(queries)),
            frozenset(),
            test_size=1,
            tests=frozenset({"q0", "q1", "q2", "q7"}),
            seed=0,
        )


@pytest.mark.slow
def test_the_command_line(msshift: Command, tmp_path: Path, listed: Path) -> None:
    build = ("build", "length", "--collection", "mini:500", "--test-queries")
    done = msshift(*build, listed)
    assert done.returncode == 0, done.stderr
    both = ids(tmp_path / "msshift", "length-short", "test") | ids(
        tmp_path / "msshift", "length-long", "test"
    )
    assert both == GIVEN
    (tmp_path / "ids.txt").write_text("nobody\n")
    done = msshift(*build, "ids.txt")
    assert done.returncode == 1
    assert "ids.txt:1: mini:500 has no query 'nobody' [unknown-query]" in done.stderr
    done = msshift("build", "--official", tmp_path, "--test-queries", listed)
    assert done.returncode == 2
    assert "leave out what decides how it is built: --test-queries" in done.stderr
