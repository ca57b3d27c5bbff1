"""Importing a checkout of the release of 2022: small ones, in its exact format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.dataset_builders.groups import matching_groups
from msshift_bench.dataset_builders.release import (
    OfficialRelease,
    read_official,
    read_test_sets,
)
from msshift_bench.errors import CollectionError, DataError, NotFoundError, UsageError
from msshift_bench.records import OTHERS, Row
from tests.conftest import WriteFolder
from tests.support.cut_rows import cut_rows
from tests.support.official_checkout import training_file, write_checkout

Checkout = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a function that writes a checkout with one query in each test set."""

    def write(training: str | None = None, **groups: tuple[str, Mapping[str, Any] | str]) -> Path:
        return write_checkout(tmp_path / "ms-marco-shift", training, **groups)

    return write


def rows_of(release: OfficialRelease, shift: str, split: str) -> list[Row]:
    return next(cut_rows(cut, split) for cut in release.shifts if cut.shift.name == shift)


def test_test_sets_are_taken_as_they_are(checkout: Checkout) -> None:
    folder = checkout(
        C0=("20\tb \n3\ta\n", {"3": {"d2": 1, "d10": 1, "d9": 0}, "20": {"d1": 1}, "7": {"d1": 1}}),
        wha=("5\twhat or how\n6\twhat\n", {"5": {"d1": 1}, "6": {"d1": 1}}),
        how=("5\twhat or how\n", {"5": {"d1": 1}}),
    )
    release = read_official(folder)
    assert rows_of(release, "topics", "test")[:2] == [
        Row("20", "b ", "C0", ("d1",), (1,)),
        Row("3", "a", "C0", ("d10", "d2"), (1, 1)),
    ]
    assert [set(cut.table["split"].to_pylist()) for cut in release.shifts] == [{"test"}] * 3
    assert {cut.grouping.rule for cut in release.shifts} == {"official-2022"}
    assert release.texts
    # A query of two groups is in the rows of both.
    words = release.shifts[1]
    assert [row.group for row in cut_rows(words, "test") if row.query_id == "5"] == ["how", "wha"]
    assert words.counts()["wha"]["test"] == 2
    report = dict(release.report)
    assert report["orphans"] == {"C0": ["7"]}
    assert report["test_sets"]["topics-C0"] == {"queries": 2, "qrels_queries": 3}  # type: ignore[index]
    assert report["training"] is None
    files = report["files"]
    assert isinstance(files, dict)
    assert len(files) == 20
    assert list(files) == sorted(files)
    json.dumps(report)


def test_a_folder_that_is_no_checkout(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"lacks 20 of 20 files .*naver/ms-marco-shift"):
        read_official(tmp_path)
    folder = checkout()
    (folder / "EVAL" / "qrel" / "qrel_3.json").unlink()
    with pytest.raises(NotFoundError, match=r"lacks 1 of 20 files \(EVAL/qrel/qrel_3.json\)"):
        read_official(folder)


@pytest.mark.parametrize(
    ("queries", "qrel", "message"),
    [
        ("1\ta\n2\tb\tc\n", {"1": {"d": 1}}, r"queries_0.tsv:2: 3 tab-separated fields"),
        ("1\ta\n1\tb\n", {"1": {"d": 1}}, r"queries_0.tsv:2: query_id '1' again"),
        ("1\ta\n", '{"1": {"d": 1}\n,}', r"qrel_0.json:2: not JSON"),
        ("1\ta\n", "[]", r"qrel_0.json:1: not an object"),
        ("1\ta\n", "[" * 100_000, r"qrel_0.json: not JSON: nested too deep"),
        ("1\ta\n", '{"1": {"d": 1}, "1": {"d": 1}}', r"qrel_0.json: query_id '1' again"),
        ("1\ta\n", '{"1": {"d": 1, "d": 1}}', r"passage 'd': judged again"),
        ("1\ta\n", {"1": ["d"]}, r"query '1' has no object"),
        ("1\ta\n", {"1": {"d": "1"}}, r"passage 'd': relevance '1' is not a whole number"),
        ("1\ta\n", {"1": {"d": True}}, r"relevance True is not a whole number"),
        ("1\ta\n", '{"1": {"d": ' + "9" * 5000 + "}}", r"not JSON: a number has thousands"),
        ("1\ta\n", {"1": {"d": 10**30}}, r"relevance 10{30} is not a whole number of at most 2147"),
        ("1\t \n", {"1": {"d": 1}}, r"query '1' has no text \[empty-text\]"),
        ("1\ta\n", {}, r"query '1' has no relevant passage \[unjudged-query\]"),
        ("1\ta\n", {"1": {"d": 0}}, r"query '1' has no relevant passage"),
    ],
)
def test_malformed_test_sets(
    checkout: Checkout, queries: str, qrel: Mapping[str, Any] | str, message: str
) -> None:
    with pytest.raises(CollectionError, match=message):
        read_official(checkout(C0=(queries, qrel)))


def test_bytes_that_are_not_utf8(checkout: Checkout) -> None:
    folder = checkout()
    (folder / "EVAL" / "qrel" / "qrel_0.json").write_bytes(b'{"\xff": {}}')
    with pytest.raises(CollectionError, match=r"byte 3 is not UTF-8"):
        read_test_sets(folder)


def mini_training(collection: Collection) -> str:
    """Return a training file of every query that has a relevant passage, as upstream labels it."""
    relevant = collection.qrels.relevant()
    words = {"wha": 0, "how": 1, "who": 2}
    lines = []
    for number, (query_id, text) in enumerate(collection.queries):
        if query_id in relevant:
            topic = number % 6
            word = min((words[g] for g in matching_groups(text, "substring")), default=3)
            length = int(len(text.split(" ")) > 5)
            lines.append(f"{text}\t{topic}\t{int(topic < 5)}\t{word}\t{int(word < 3)}\t{length}\t1")
    return training_file(*lines)


def test_training_queries_join_a_collection(checkout: Checkout) -> None:
    collection = open_collection("mini:500")
    relevant = collection.qrels.relevant()
    folder = checkout(training=mini_training(collection))
    release = read_official(folder, collection=collection)
    report = release.report["training"]
    assert isinstance(report, dict)
    assert report["rows"] == report["joined"] == len(relevant)
    assert {
        report[what]["rows"]
        for what in report
        if isinstance(report[what], dict) and "rows" in report[what]
    } == {0}
    texts = dict(collection.queries)
    length = rows_of(release, "length", "train")
    assert [row.query_id for row in length] == sorted(relevant)
    for row in length:
        assert row.text == texts[row.query_id]
        assert row.relevant_doc_ids == relevant[row.query_id]
        assert row.group == ("short" if len(row.text.split(" ")) <= 5 else "long")
    topics = rows_of(release, "topics", "train")
    numbers = {query_id: n for n, (query_id, _) in enumerate(collection.queries)}
    assert {row.query_id for row in topics} == {q for q in relevant if numbers[q] % 6 < 5}
    assert all(row.group == f"C{numbers[row.query_id] % 6}" for row in topics)
    assert all(
        OTHERS not in {row.group for row in cut_rows(cut, "train")} for cut in release.shifts
    )
    assert {cut.table["split"][0].as_py() for cut in release.shifts} <= {"train", "test"}


@pytest.fixture
def collection(tsv_folder: WriteFolder) -> Collection:
    folder = tsv_folder(
        queries='1\tone\n2\ttwice\n3\ttwice\n4\t say "x"\n5\tunjudged\n9\twhat is tested\n',
        qrels="".join(f"{query} 0 d1 1\n" for query in (1, 2, 3, 4, 9)) + "5 0 d1 0\n",
    )
    return open_collection(folder)


def join(checkout: Checkout, collection: Collection, *lines: str) -> tuple[Any, OfficialRelease]:
    folder = checkout(training=training_file(*lines), wha=("9\twhat is tested\n", {"9": {"d1": 1}}))
    release = read_official(folder, collection=collection)
    return release.report["training"], release


def test_what_does_not_join_is_reported(checkout: Checkout, collection: Collection) -> None:
    report, release = join(
        checkout,
        collection,
        "one\t0\t1\t3\t0\t0\tTrue",
        "absent\t0\t1\t3\t0\t0\t1",
        "unjudged\t0\t1\t3\t0\t0\t1",
        "One\t0\t1\t3\t0\t0\t1",
    )
    assert report["rows"] == 4
    assert report["joined"] == 1
    assert report["unknown_text"] == {"rows": 2, "first_lines": [3, 5]}
    assert report["without_relevant_passage"] == {"rows": 1, "first_lines": [4]}
    assert report["collection"] == "toy"
    assert report["text"] == "raw"
    for shift, group in (("topics", "C0"), ("length", "short")):
        assert rows_of(release, shift, "train") == [Row("1", "one", group, ("d1",), (1,))]
    assert rows_of(release, "wh-words", "train") == []


def test_all_queries_with_the_text_take_part(checkout: Checkout, collection: Collection) -> None:
    report, release = join(checkout, collection, "twice\t4\t1\t3\t0\t0\tFalse")
    assert report["several_query_ids"] == {"rows": 1, "first_lines": [2]}
    assert [row[:3] for row in rows_of(release, "topics", "train")] == [
        ("2", "twice", "C4"),
        ("3", "twice", "C4"),
    ]
    assert rows_of(release, "length", "train") == []


def test_the_first_of_repeated_rows_counts(checkout: Checkout, collection: Collection) -> None:
    lines = ("one\t0\t1\t3\t0\t0\t1", "one\t0\t1\t3\t0\t0\t1", "one\t1\t1\t3\t0\t0\t1")
    report, release = join(checkout, collection, *lines)
    assert report["repeated"] == {"rows": 2, "first_lines": [3, 4]}
    assert report["contradictory"] == {"rows": 1, "first_lines": [4]}
    assert [row.group for row in rows_of(release, "topics", "train")] == ["C0"]


def test_test_queries_are_not_trained_on(checkout: Checkout, collection: Collection) -> None:
    report, release = join(checkout, collection, "what is tested\t2\t1\t0\t1\t0\t1")
    assert report["test_queries"] == {"topics": [], "wh-words": ["9"], "length": []}
    assert rows_of(release, "wh-words", "train") == []
    # It is a test query of one shift, and may be trained on in another.
    assert [row.query_id for row in rows_of(release, "topics", "train")] == ["9"]


def test_other_contradictions_are_counted(checkout: Checkout, collection: Collection) -> None:
    report, release = join(checkout, collection, "one\t5\t1\t3\t0\t1\t1", "twice\t5\t0\t3\t0\t0\t1")
    assert report["other_length"] == {"rows": 1, "first_lines": [2]}
    assert report["trained_on_others"] == {"rows": 1, "first_lines": [2]}
    assert rows_of(release, "topics", "train") == []
    # The release's label stands, whatever the rule says.
    assert rows_of(release, "length", "train")[0].group == "long"


def test_quoted_fields_join_too(checkout: Checkout, collection: Collection) -> None:
    report, release = join(checkout, collection, '" say ""x"""\t0\t1\t3\t0\t0\t1')
    assert report["joined"] == 1
    assert rows_of(release, "topics", "train")[0].text == ' say "x"'


def test_line_numbers_are_listed_up_to_a_limit(checkout: Checkout, collection: Collection) -> None:
    lines = [f"absent {number}\t0\t1\t3\t0\t0\t1" for number in range(30)]
    report, _ = join(checkout, collection, "one\t0\t1\t3\t0\t0\t1", *lines)
    assert report["unknown_text"] == {"rows": 30, "first_lines": list(range(3, 23))}


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ("", r"queries_clustering.tsv:1: this is not the header line"),
        ("one\t0\t1\t3\t0\t0\t1\n", r":1: this is not the header line"),
        (training_file("one\t0\t1"), r":2: 3 tab-separated fields where 7 were expected"),
        (training_file("\t0\t1\t3\t0\t0\t1"), r":2: the query is empty"),
        (training_file("one\t6\t1\t3\t0\t0\t1"), r":2: topic_cluster is '6'.*\[unknown-cluster\]"),
        (training_file("one\t0\t1\t4\t0\t0\t1"), r":2: whword_cluster is '4'"),
        (training_file("one\t0\t1\t3\t0\t2\t1"), r":2: length_cluster is '2', .* none of 0, 1 "),
        (training_file("one\t0\t1\t3\t0\t0\tyes"), r":2: length_train is 'yes'.*\[unknown-flag\]"),
        (training_file("one\t0.0\t1\t3\t0\t0\t1"), r":2: topic_cluster is '0.0'"),
        (training_file("", "one\t0\t1\t3\t0\t0\t1"), r":2: blank line"),
    ],
)
def test_malformed_training_files(
    checkout: Checkout, collection: Collection, training: str, message: str
) -> None:
    with pytest.raises(CollectionError, match=message):
        read_official(checkout(training=training), collection=collection)


def test_training_queries_need_their_collection(checkout: Checkout, collection: Collection) -> None:
    folder = checkout(training=training_file("absent\t0\t1\t3\t0\t0\t1"))
    with pytest.raises(UsageError, match="give the collection that has their ids"):
        read_official(folder)
    with pytest.raises(DataError, match=r"none of the 1 queries of .* is a query of toy"):
        read_official(folder, collection=collection)
