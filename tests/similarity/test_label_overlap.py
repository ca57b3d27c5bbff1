"""Relevant passages that test queries share with training queries, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.errors import DataError
from msshift_bench.records import Qrel
from msshift_bench.similarity import count_overlap
from tests.conftest import Command

TRAIN = [Qrel("1", "a", 1), Qrel("1", "b", 1), Qrel("2", "b", 2), Qrel("3", "c", 0)]
TEST = [
    *(Qrel("7", "a", 1), Qrel("7", "b", 3)),
    *(Qrel("8", "b", 1), Qrel("8", "c", 3)),
    Qrel("9", "a", 0),
    Qrel("1", "a", 1),
]


def test_a_query_counts_at_its_relevance_and_number_of_shared_passages() -> None:
    # Query 1 shares its passage with itself alone, and c is relevant to no training query.
    counts = count_overlap({"train": TRAIN}, {"test": TEST}).counts
    assert [(row.relevance, row.shared, row.overlapping, row.queries) for row in counts] == [
        (1, 1, 2, 4), (1, 2, 1, 4), (3, 1, 1, 4), (3, 2, 0, 4),
    ]  # fmt: skip


def test_training_sets_are_compared_with_each_other() -> None:
    other = [Qrel("2", "b", 1), Qrel("2", "b", 1), Qrel("4", "d", 1)]
    found = count_overlap({"ours": TRAIN, "theirs": other}, {"test": TEST})
    assert found.common == {("ours", "theirs"): (1, 1)}
    sizes = {name: tuple(counts.values()) for name, counts in found.training.items()}
    assert sizes == {"ours": (2, 3, 2), "theirs": (2, 2, 2)}
    shown = {table.title: table for table in found.tables()}
    (row,) = shown["What two training sets have in common"].rows
    assert [cell.text for cell in row] == ["ours", "theirs", "1", "1"]


def test_sets_without_a_relevant_passage_are_refused() -> None:
    for kind, train, test in (("training", TRAIN[-1:], TEST), ("test", TRAIN, [TEST[4]])):
        with pytest.raises(DataError, match=f"the {kind} set {kind} has no relevant passage"):
            count_overlap({"training": train}, {"test": test})


def test_the_command(msshift: Command, tmp_path: Path) -> None:
    for name, qrels in (("a", TRAIN[:2]), ("b", TRAIN[2:]), ("t", TEST)):
        lines = [f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels]
        (tmp_path / name).write_text("".join(lines))
    overlap = ("similarity", "--indicator", "overlap")
    arguments = (*overlap, "--train", "known=a", "--train", "known=b", "--test", "dl=t")
    done = msshift(*arguments)
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if ">= 1" in line]
    assert row == ["known", "dl", ">=", "1", "2", "of", "4", "(50%)", "1", "of", "4", "(25%)"]
    assert "counts from 2 on" in done.stdout
    values = json.loads(msshift(*arguments, "--format", "json", "--output", "o.json").stdout)
    assert values["training"] == [{"name": "known", "queries": 2, "pairs": 3, "passages": 2}]
    assert json.loads((tmp_path / "o.json").read_text()) == values
    refused = msshift(*overlap, "--train", "a", "--test", "dl=t")
    assert refused.returncode == 2
    assert "--train takes NAME=QRELS for overlap, e.g. dl19=qrels.dl19" in refused.stderr
    no_values = msshift(*arguments, "--output", "o.parquet")
    assert (no_values.returncode, "no values per query" in no_values.stderr) == (2, True)
