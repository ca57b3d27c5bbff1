"""A board whose shift is one of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench import build_dataset, open_collection
from msshift_bench.errors import UnknownNameError
from msshift_bench.evaluation import evaluate_run_sets, read_per_query
from msshift_bench.leaderboard.description import read_boards
from msshift_bench.leaderboard.entries import MEASURES
from msshift_bench.plumbing import write_parquet
from msshift_bench.shifts import known_shifts
from tests.support.fabricated import write_run

BOARD = """
[mine]
title = "Mine"
kind = "toy"
description = "My collection."
warning = "Not MS MARCO."
reference = "bm25"
[mine.shifts]
length = ["00"]
domain = ["11"]
[mine.groups.domain]
people = "who is who"
pricing = "what things cost"
"""


def test_a_board_has_the_groups_of_its_shift() -> None:
    board = read_boards(BOARD)["mine"]
    assert board.groups["domain"] == {"people": "who is who", "pricing": "what things cost"}
    known = known_shifts(board.shifts)
    assert list(known["domain"].configs) == ["domain-people", "domain-pricing"]
    with pytest.raises(UnknownNameError, match="'domain'"):
        read_boards(BOARD.partition("[mine.groups")[0])


def test_scores_of_an_entry_are_read_with_the_shifts_of_boards(tmp_path: Path) -> None:
    labels, queries = tmp_path / "labels.tsv", open_collection("mini:300").queries
    groups = ("people", "pricing")
    labels.write_text("".join(f"{one}\t{groups[n % 2]}\n" for n, one in enumerate(queries)))
    data = tmp_path / "msshift"
    build_dataset("mini:300", ["domain"], data, options={"domain": {"labels": labels}})
    rankings = [(query_id, ["d"]) for query_id in queries]
    write_run(tmp_path / "runs" / "mine" / "domain.run", rankings, "mine")
    result = evaluate_run_sets(tmp_path / "runs", data, settings=" ".join(MEASURES))
    write_parquet(tmp_path / "scores.parquet", result.per_query())
    known = known_shifts(read_boards(BOARD)["mine"].shifts)
    (scores,) = read_per_query(tmp_path / "scores.parquet", MEASURES, known).values()
    assert list(scores.groups) == ["people", "pricing"]
    with pytest.raises(UnknownNameError, match="'domain'"):
        read_per_query(tmp_path / "scores.parquet", MEASURES)
