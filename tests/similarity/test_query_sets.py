"""What is compared, and what the command prints and writes; and overlap of judgements."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from msshift_bench import mini
from msshift_bench.data import open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.errors import CollectionError
from msshift_bench.leakage import find_leakage
from msshift_bench.records import Qrel, Query
from msshift_bench.similarity import (
    count_overlap,
    group_similarity,
    query_similarity,
    read_query_set,
    set_similarity,
)
from tests.conftest import Build, Command
from tests.support.golden import Golden
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


def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, build_once: Build, golden: Golden
) -> None:
    fine = {"q2": "b"}
    refusals: dict[str, Callable[[], object]] = {}
    for number, content in enumerate(("q1\n", "q1\ta\nq1\tb\n", "q1\t \n", "")):
        path = tmp_path / f"queries-{number}.tsv"
        path.write_text(content)
        refusals[repr(content)] = partial(set_similarity, path, fine)
    one, without_texts = {"q1": "a"}, build_once("mini:300", "length", texts=False)
    dataset = build_once("mini:300", "length")
    judged: Any = [Qrel(1, "d", 1)]
    refusals |= {
        "no file": partial(set_similarity, tmp_path / "none.tsv", fine),
        "no query": partial(set_similarity, {}, fine),
        "another text": partial(set_similarity, one, {"q1": "a c", "q2": "b"}),
        "an unknown indicator": partial(set_similarity, one, fine, "weightedjacard"),
        "of sets alone": partial(query_similarity, one, fine, "weighted-jaccard"),
        "no such shift": partial(group_similarity, dataset, "topics"),
        "no texts": partial(group_similarity, without_texts, "length"),
        "no such split": partial(group_similarity, dataset, "length", split="tests"),
        "ids of judgements": partial(
            find_leakage, fine, one, qrels=(judged, [Qrel("q1", "d", 1)])
        ),
    }  # fmt: skip
    for unfit in (["a", "b"], [("q1", "a")], None):
        refusals[repr(unfit)] = partial(set_similarity, unfit, fine)
    import_official([write_checkout(tmp_path / "release")], tmp_path / "msshift")
    to_letters, vectors = re.compile("[a-z]").findall, {"encoder": "terms"}
    queries, numbers = {"1": "a"}, {"2": "?"}
    of_queries = partial(query_similarity, queries, fine)
    refusals |= {
        "no word to test": partial(set_similarity, queries, numbers, tokenizer=to_letters),
        "no word to train on": partial(set_similarity, numbers, queries, tokenizer=to_letters),
        "vectors of zeros": partial(of_queries, "mean-cosine", **vectors),
        "an option of another": partial(of_queries, "overlap", seed=1),
        "overlap without judgements": partial(of_queries, "overlap"),
        "no pooling": partial(of_queries, "mean-cosine", pooling="meen", **vectors),
        "tests alone": partial(group_similarity, tmp_path / "msshift", "length", "unseen-words"),
        "no training passage": partial(count_overlap, {"a": TRAIN[-1:]}, {"t": TEST}),
        "no test passage": partial(count_overlap, {"a": TRAIN}, {"t": [TEST[4]]}),
    }
    golden.check_refusals("not-compared.txt", refusals)


def test_values_in_memory_are_checked_as_files_are(build_once: Build) -> None:
    fine = {"q2": "b"}
    for queries, message in (
        ({1: "a"}, "query 1: ids must be strings"),
        *(({"q1": text}, "query 'q1' has no text") for text in (" ", None, float("nan"))),
        ([Query("q1", "a"), Query("q1", "b")], "query 'q1' has another text, 'a', already"),
    ):
        for sets in ((queries, fine), (fine, queries)):
            for function in (set_similarity, find_leakage):
                with pytest.raises(CollectionError, match=message):
                    function(*sets)
    # Rows of several splits may hold a query twice.
    assert set_similarity([Query("q1", "a"), Query("q1", "a")], {"q2": "a"}) == 1
    ids_only = open_dataset(build_once("mini:300", "length", texts=False))
    rows = [ids_only.rows("length-short", split) for split in ("train", "test")]
    for compare in (find_leakage, partial(query_similarity, indicator="unseen-words")):
        with pytest.raises(CollectionError, match=r"has no text(?s:.*)'msshift import'"):
            compare(*rows)


def test_a_release_without_training_queries_is_compared_with_itself(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "release")], tmp_path / "msshift")
    (short, _) = group_similarity(tmp_path / "msshift", "length", "unseen-words", against="test")
    # "test short" and "test long" share the word "test"; "long" is a stop word
    assert (short.value, short.queries, short.other_queries) == (0.5, 1, 1)


# ---- the command ---------------------------------------------------------------------------------


def test_what_the_command_prints_and_refuses(
    msshift: Command, build_copy: Build, tmp_path: Path, golden: Golden
) -> None:
    build_copy("mini:300", "wh-words", "length")
    rows = list(mini.queries(300))
    for name, part in (("train", rows[:200]), ("test", [*rows[200:], rows[5]])):
        lines = "".join(f"{row.query_id}\t{row.text}\n" for row in part)
        (tmp_path / f"{name}.tsv").write_text(lines)
    for name, qrels in (("a", TRAIN[:2]), ("b", TRAIN[2:]), ("t", TEST)):
        lines = "".join(f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels)
        (tmp_path / name).write_text(lines)
    files = "--train train.tsv --test test.tsv"
    overlap = "--indicator overlap --train known=a --train known=b --test dl=t"
    commands = (
        *("", "--shift length --split test:train --indicator unseen-words", files),
        f"{files} --indicator nearest-query --encoder terms --per-query n.parquet",
        *(overlap, f"{overlap} --format json --output o.json", f"{overlap} --per-query o.parquet"),
        *("--indicator overlap --train a --test dl=t", "--train train.tsv", f"{files} --split all"),
        *(f"{files} --per-query x.parquet", f"{files} --output x.txt", f"{files} --train test.tsv"),
        *(f"{files} --encoder terms", f"{files} --models runs", f"{files} --indicator model-based"),
    )
    golden.check_commands("commands.txt", msshift, [f"similarity {words}" for words in commands])
    last = pq.ParquetFile(tmp_path / "n.parquet").read().to_pylist()[-1]
    assert (last["nearest_text"], last["rank"]) == (rows[5].text, 1)
    assert json.loads((tmp_path / "o.json").read_text())["figures"][0]["value"] == 2


def test_the_command_writes_every_querys_value(msshift: Command, build_copy: Build) -> None:
    data = build_copy("mini:300", "length")
    command = ("similarity", "--indicator", "unseen-words", "--per-query", "u.parquet")
    printed = json.loads(msshift(*command, "--format", "json").stdout)
    values = group_similarity(data, "length", "unseen-words")
    shown = {(row["figure"], row["group"]): row["value"] for row in printed["figures"]}
    assert {("similarity", of.group): of.value for of in values}.items() <= shown.items()
    assert shown["median", "short"] == np.median(values[0].values)
    table = pq.ParquetFile(data.parent / "u.parquet").read()
    settings = json.loads(table.schema.metadata[b"msshift_bench"])["settings"]
    assert settings == {"indicator": "unseen-words", "split": "test", "against": "train"}
    assert table["query_id"].to_pylist() == [name for part in values for name in part.query_ids]
    assert table["value"].to_pylist() == [value for part in values for value in part.values]
    assert table["rank"].to_pylist() == [rank for part in values for rank in part.ranks]


def test_groups_overlap_where_a_query_shares_a_relevant_passage(build_once: Build) -> None:
    data = build_once("mini:300", "length")
    labels = {row.query_id: set(row.relevant_doc_ids)
              for row in open_dataset(data).rows("length", "queries")}  # fmt: skip
    for one in group_similarity(data, "length", "overlap"):
        train = open_dataset(data).rows(f"length-{one.group}", "train")
        trained = {doc_id for row in train for doc_id in labels[row.query_id]}
        expected = [float(bool(labels[q] & trained)) for q in one.query_ids]
        assert one.values.tolist() == expected
        assert one.value == sum(expected) / len(expected)


# ---- relevant passages that test queries share with training queries ----------------------

TRAIN = [Qrel("1", "a", 1), Qrel("1", "b", 1), Qrel("2", "b", 2), Qrel("3", "c", 0)]
TEST = [
    *(Qrel("7", "a", 1), Qrel("7", "b", 3)),
    *(Qrel("8", "b", 1), Qrel("8", "c", 3)),
    Qrel("9", "a", 0),
    Qrel("1", "a", 1),
]


def test_a_query_counts_at_its_relevance_and_number_of_shared_passages() -> None:
    other = [Qrel("2", "b", 1), Qrel("2", "b", 1), Qrel("4", "d", 1)]
    found = count_overlap({"ours": TRAIN, "theirs": other}, {"test": TEST})
    # Query 1 shares its passage with itself alone, and c is relevant to no training query.
    shown = [[[cell.text for cell in row] for row in table.rows] for table in found.tables()]
    assert shown[0][:2] == [
        ["ours", "test", ">= 1", "2 of 4 (50%)", "1 of 4 (25%)"],
        ["ours", "test", ">= 3", "1 of 4 (25%)", "0 of 4 (0%)"],
    ]
    assert shown[1:] == [
        [["ours", "2", "3", "2"], ["theirs", "2", "2", "2"]],
        [["ours", "theirs", "1", "1"]],
    ]
