"""Importing a checkout of the release of 2022: small ones, in its exact format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data.collection import Collection, open_collection
from msshift_bench.dataset_builders.release import (
    OfficialRelease,
    read_official,
    read_test_sets,
)
from msshift_bench.errors import CollectionError, DataError, NotFoundError, UsageError
from msshift_bench.records import Row
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


@pytest.fixture
def collection(tsv_folder: WriteFolder) -> Collection:
    folder = tsv_folder(
        queries='1\tone\n2\ttwice\n3\ttwice\n4\t say "x"\n5\tunjudged\n9\twhat is tested\n',
        qrels="".join(f"{query} 0 d1 1\n" for query in (1, 2, 3, 4, 9)) + "5 0 d1 0\n",
    )
    return open_collection(folder)


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


def odd(rows: int, *lines: int) -> dict[str, object]:
    return {"rows": rows, "first_lines": list(lines)}


@pytest.mark.parametrize(
    ("lines", "report", "rows"),
    [
        (
            [
                "one\t0\t1\t3\t0\t0\tTrue",
                "absent\t0\t1\t3\t0\t0\t1",
                "unjudged\t0\t1\t3\t0\t0\t1",
                "One\t0\t1\t3\t0\t0\t1",
            ],
            {
                "rows": 4,
                "joined": 1,
                "unknown_text": odd(2, 3, 5),
                "without_relevant_passage": odd(1, 4),
                "collection": "toy",
                "text": "raw",
            },
            {"topics": [("1", "one", "C0")], "wh-words": [], "length": [("1", "one", "short")]},
        ),
        # All queries with the text take part.
        (
            ["twice\t4\t1\t3\t0\t0\tFalse"],
            {"several_query_ids": odd(1, 2)},
            {"topics": [("2", "twice", "C4"), ("3", "twice", "C4")], "length": []},
        ),
        # The first of repeated rows counts.
        (
            ["one\t0\t1\t3\t0\t0\t1", "one\t0\t1\t3\t0\t0\t1", "one\t1\t1\t3\t0\t0\t1"],
            {"repeated": odd(2, 3, 4), "contradictory": odd(1, 4)},
            {"topics": [("1", "one", "C0")]},
        ),
        # A test query of one shift may be trained on in another.
        (
            ["what is tested\t2\t1\t0\t1\t0\t1"],
            {"test_queries": {"topics": [], "wh-words": ["9"], "length": []}},
            {"topics": [("9", "what is tested", "C2")], "wh-words": []},
        ),
        # The release's label stands, whatever the rule says.
        (
            ["one\t5\t1\t3\t0\t1\t1", "twice\t5\t0\t3\t0\t0\t0"],
            {"other_length": odd(1, 2), "trained_on_others": odd(1, 2)},
            {"topics": [], "length": [("1", "one", "long")]},
        ),
        # Quoted fields join, too.
        (
            ['" say ""x"""\t0\t1\t3\t0\t0\t1'],
            {"joined": 1},
            {"topics": [("4", ' say "x"', "C0")]},
        ),
        # Line numbers are listed up to a limit.
        (
            [f"{text}\t0\t1\t3\t0\t0\t1" for text in ("one", *(f"absent {n}" for n in range(30)))],
            {"unknown_text": odd(30, *range(3, 23))},
            {},
        ),
    ],
)
def test_training_rows_join_by_their_text(
    checkout: Checkout,
    collection: Collection,
    lines: list[str],
    report: dict[str, object],
    rows: dict[str, list[tuple[str, str, str]]],
) -> None:
    folder = checkout(training=training_file(*lines), wha=("9\twhat is tested\n", {"9": {"d1": 1}}))
    release = read_official(folder, collection=collection)
    joined: Any = release.report["training"]
    assert {name: joined[name] for name in report} == report
    for shift, expected in rows.items():
        trained = rows_of(release, shift, "train")
        assert [row[:3] for row in trained] == expected
        assert {row.relevant_doc_ids for row in trained} <= {("d1",)}


def test_training_queries_need_their_collection(checkout: Checkout, collection: Collection) -> None:
    folder = checkout(training=training_file("absent\t0\t1\t3\t0\t0\t1"))
    with pytest.raises(UsageError, match="give the collection that has their ids"):
        read_official(folder)
    with pytest.raises(DataError, match=r"none of the 1 queries of .* is a query of toy"):
        read_official(folder, collection=collection)
    (folder / "EVAL" / "qrel" / "qrel_0.json").write_bytes(b'{"\xff": {}}')
    with pytest.raises(CollectionError, match=r"byte 3 is not UTF-8"):
        read_test_sets(folder)
