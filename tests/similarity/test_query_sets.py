"""What is compared: groups of a data set and their splits, files, and values in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.errors import (
    CollectionError,
    DataError,
    MissingError,
    MsShiftError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.leakage import find_leakage
from msshift_bench.records import Qrel, Query
from msshift_bench.similarity import (
    group_similarity,
    query_similarity,
    read_query_set,
    set_similarity,
)
from tests.conftest import Build
from tests.support.official_checkout import write_checkout


def test_a_group_is_compared_with_all_others_in_the_splits_asked_for(build_once: Build) -> None:
    dataset = open_dataset(build_once("mini:300", "wh-words"))
    groups = group_similarity(dataset, "wh-words", split="test", against="train")
    assert [one.group for one in groups] == ["wha", "how", "who"]
    for one in groups:
        config = f"wh-words-{one.group}"
        test, train = dataset.rows(config, "test"), dataset.rows(config, "train")
        assert (one.queries, one.other_queries) == (len(test), len(train))
        assert one.value == set_similarity(train, test)
    whole = group_similarity(dataset, "wh-words", split="all")
    rows = list(dataset.rows("wh-words", "queries"))
    for one in whole:
        own = [row for row in rows if row.group == one.group]
        others = [row for row in rows if row.group not in (one.group, "others")]
        assert (one.queries, one.other_queries) == (len(own), len(others))
        assert one.value == set_similarity(others, own)


def test_a_file_will_do_and_so_will_rows_and_mappings(tmp_path: Path) -> None:
    texts = {"q1": "what is a gondola", "q2": "price of a gondola"}
    path = tmp_path / "queries.tsv"
    path.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in texts.items()))
    queries = read_query_set(path)
    assert dict(queries) == texts
    assert read_query_set(texts) == read_query_set(list(queries)) == read_query_set(str(path))


def test_what_cannot_be_compared_is_refused(tmp_path: Path, build_once: Build) -> None:
    path = tmp_path / "queries.tsv"
    for content, message in (
        ("q1\n", "1 tab-separated fields where 2"),
        ("q1\ta\nq1\tb\n", "queries.tsv:2: query_id 'q1' again"),
        ("q1\t \n", "has no text"),
        ("", "holds no query"),
    ):
        path.write_text(content)
        with pytest.raises(CollectionError, match=message):
            set_similarity(path, {"q2": "b"})
    one, without_texts = {"q1": "a"}, build_once("mini:300", "length", texts=False)
    dataset, fine = build_once("mini:300", "length"), {"q2": "b"}
    refused: tuple[tuple[type[MsShiftError], str, Any, tuple[Any, ...]], ...] = (
        (NotFoundError, "none.tsv", set_similarity, (tmp_path / "none.tsv", fine)),
        (DataError, "no query to compare", set_similarity, ({}, fine)),
        (DataError, "'q1' is 'a' and 'a c'", set_similarity, (one, {"q1": "a c", "q2": "b"})),
        (
            UnknownNameError,
            "mean 'weighted-jaccard'",
            set_similarity,
            (one, fine, "weightedjacard"),
        ),
        (UsageError, "not for single ones", query_similarity, (one, fine, "weighted-jaccard")),
        (UnknownNameError, "valid are length", group_similarity, (dataset, "topics")),
        (MissingError, "'msshift hydrate", group_similarity, (without_texts, "length")),
    )
    for kind, message, function, arguments in refused:
        with pytest.raises(kind, match=message):
            function(*arguments)
    with pytest.raises(UnknownNameError, match="split of groups"):
        group_similarity(dataset, "length", split="tests")


def test_values_in_memory_are_checked_as_files_are(build_once: Build) -> None:
    fine = {"q2": "b"}
    wrong: tuple[tuple[Any, str], ...] = (
        ({1: "a"}, "query 1: ids must be strings"),
        ({"q1": " "}, "query 'q1' has no text"),
        ({"q1": None}, "query 'q1' has no text"),
        ({"q1": float("nan")}, "query 'q1' has no text"),
        ([Query("q1", "a"), Query("q1", "b")], "query 'q1' has another text, 'a', already"),
    )
    for queries, message in wrong:
        for sets in ((queries, fine), (fine, queries)):
            with pytest.raises(CollectionError, match=message):
                set_similarity(*sets)
            with pytest.raises(CollectionError, match=message):
                find_leakage(*sets)
    for unfit in (["a", "b"], [("q1", "a")], None):
        with pytest.raises(UsageError, match="or what has a query_id and a text each: "):
            set_similarity(unfit, fine)  # type: ignore[arg-type]
    # Rows of several splits may hold a query twice.
    assert set_similarity([Query("q1", "a"), Query("q1", "a")], {"q2": "a"}) == 1
    ids_only = open_dataset(build_once("mini:300", "length", texts=False))
    rows = [ids_only.rows("length-short", split) for split in ("train", "test")]
    with pytest.raises(CollectionError, match=r"has no text(?s:.*)'msshift hydrate'"):
        find_leakage(*rows)
    with pytest.raises(CollectionError, match=r"has no text(?s:.*)'msshift hydrate'"):
        query_similarity(*rows, "unseen-words")
    with pytest.raises(CollectionError, match="query 1, document 'd': ids must be strings"):
        judged: Any = [Qrel(1, "d", 1)]
        find_leakage(fine, {"q1": "a"}, qrels=(judged, [Qrel("q1", "d", 1)]))


def test_a_release_without_training_queries_says_what_to_compare_with(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "release")], tmp_path / "msshift")
    with pytest.raises(DataError, match=r"no training queries of length-short; .*test:test"):
        group_similarity(tmp_path / "msshift", "length", "unseen-words")
    (short, _) = group_similarity(tmp_path / "msshift", "length", "unseen-words", against="test")
    # "test short" and "test long" share the word "test"; "long" is a stop word
    assert (short.value, short.queries, short.other_queries) == (0.5, 1, 1)
