"""Per-query scores, written as a table and read again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.errors import DataError
from msshift_bench.evaluation.per_query import SystemRows, read_per_query, system_table
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.runs import RunReport
from msshift_bench.shifts import get_shift

LENGTH = get_shift("length")
IDS = ("q1", "q2", "q3", "q4")
ROWS = SystemRows(
    "made-up", LENGTH, [(1, "short"), (1, "long")], {"short": 3, "long": 2}, ["RR@10", "R@100"]
)


def scores(ids: tuple[str, ...] = IDS) -> SystemScores:
    """Two runs on four queries, one of which stands in both groups."""
    rng = np.random.default_rng(5)
    runs = tuple(
        ScoredRun(
            RunReport(f"{held_out}.run"),
            np.array([held_out == "short", False, False, False]),
            np.zeros(4, np.bool_),
            found := {"RR@10": rng.random(4), "R@100": np.array([0.5, np.nan, 1.0, 0.0])},
            found,
            found,
            held_out,
            1,
        )
        for held_out in ("short", "long")
    )
    groups = {"short": np.array([0, 1, 2]), "long": np.array([2, 3])}
    return SystemScores("made-up", LENGTH, ids, groups, runs)


def test_what_is_read_is_what_was_written() -> None:
    (read,) = read_per_query(system_table(scores()), [ROWS])
    assert (read.system, read.shift, read.query_ids) == ("made-up", LENGTH, IDS)
    for group, queries in scores().groups.items():
        assert read.groups[group].tolist() == queries.tolist()
    for run, expected in zip(read.runs, scores().runs, strict=True):
        assert (run.seed, run.held_out) == (expected.seed, expected.held_out)
        assert run.missing.tolist() == expected.missing.tolist()
        for measure, values in expected.scores.items():
            np.testing.assert_array_equal(run.scores[measure], values)


def test_queries_in_another_order_are_sorted() -> None:
    (read,) = read_per_query(system_table(scores(("d", "c", "b", "a"))), [ROWS])
    assert read.query_ids == ("a", "b", "c", "d")
    assert read.groups["short"].tolist() == [1, 2, 3]
    assert read.runs[0].scores["R@100"].tolist()[3] == 0.5


def test_one_system_after_the_other() -> None:
    table = system_table(scores())
    both = read_per_query(pa.concat_tables([table, table]), [ROWS, ROWS])
    assert [one.system for one in both] == ["made-up", "made-up"]


def changed(column: str, row: int, value: object) -> pa.Table:
    table = system_table(scores())
    columns = table.to_pydict()
    columns[column][row] = value
    return pa.table(columns, table.schema)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed("system", 3, "other"), "of length are not where they belong: system"),
        (changed("seed", 0, None), "where they belong: seed"),
        (changed("held_out", 19, "short"), "where they belong: held_out"),
        (changed("group", 0, "long"), "where they belong: group"),
        (changed("measure", 0, "R@100"), "where they belong: measure"),
        (changed("query_id", 0, "q4"), "where they belong: query_id"),
        (changed("query_id", 3, "q2"), "a query of short is there twice, or has no id"),
        (changed("query_id", 3, None), "a query of short is there twice, or has no id"),
        (changed("missing", 0, False), "'missing' depends on the measure"),
        (changed("score", 0, float("nan")), "where they belong: score"),
        (changed("score", 2, 0.123), "where they belong: score"),  # q3 has another one in long
        (system_table(scores())[:-1], "19 rows where the report makes for 20"),
    ],
)
def test_rows_that_are_not_where_they_belong(table: pa.Table, message: str) -> None:
    with pytest.raises(DataError, match=r"\[scores-layout\]") as refused:
        read_per_query(table, [ROWS])
    assert message in str(refused.value)
