"""Per-query scores, written as a table and read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import DataError, NotFoundError, UnknownNameError
from msshift_bench.evaluation import FOR_ALL, ScoredRun, Scores, read_per_query, scores_table
from msshift_bench.runs import RunReport
from msshift_bench.shifts import get_shift

LENGTH = get_shift("length")
IDS = ("q1", "q2", "q3", "q4")
MEASURES = ("RR@10", "R@100")


def scores(
    ids: tuple[str, ...] = IDS, seeds: tuple[int | None, ...] = (1,), single: bool = False
) -> Scores:
    """Runs on four queries, one of which stands in both groups."""
    rng = np.random.default_rng(5)
    models = [(group, seed) for seed in seeds for group in ("short", "long")]
    runs = {}
    for model in [(FOR_ALL, None)] if single else models:
        values = {"RR@10": rng.random(4), "R@100": np.array([0.5, 0.25, 1.0, 0.0])}
        missing = np.array([model[0] == "short", False, False, False])
        report, untied = RunReport(f"{model[0]}.run"), np.zeros(4, np.bool_)
        runs[model] = ScoredRun(report, missing, untied, values, values, values)
    groups = {"short": np.array([0, 1, 2]), "long": np.array([2, 3])}
    return Scores("made-up", LENGTH, ids, groups, runs)


def read(path: Path, table: pa.Table, **options: object) -> Scores:
    pq.write_table(table, path, **options)
    (part,) = read_per_query(path, MEASURES).values()
    return part


@pytest.mark.parametrize("options", [{}, {"row_group_size": 3}, {"use_dictionary": False}])
@pytest.mark.parametrize(
    "expected", [scores(), scores(seeds=(1, 2, 10)), scores(seeds=(None,)), scores(single=True)]
)
def test_what_is_read_is_what_was_written(
    tmp_path: Path, expected: Scores, options: dict[str, object]
) -> None:
    part = read(tmp_path / "s.parquet", scores_table(expected), **options)
    assert (part.system, part.shift, part.query_ids) == ("made-up", LENGTH, IDS)
    for group, queries in expected.groups.items():
        assert part.groups[group].tolist() == queries.tolist()
    assert list(part.runs) == list(expected.runs)
    for model, run in expected.runs.items():
        assert part.runs[model].missing.tolist() == run.missing.tolist()
        for measure, values in run.scores.items():
            np.testing.assert_array_equal(part.runs[model].scores[measure], values)


def test_queries_in_another_order_are_sorted(tmp_path: Path) -> None:
    part = read(tmp_path / "s.parquet", scores_table(scores(("d", "c", "b", "a"))))
    assert part.query_ids == ("a", "b", "c", "d")
    assert part.groups["short"].tolist() == [1, 2, 3]
    assert part.runs["short", 1].scores["R@100"].tolist()[3] == 0.5


def changed(column: str, row: int, value: object) -> pa.Table:
    table = scores_table(scores())
    columns = table.to_pydict()
    columns[column][row] = value
    return pa.table(columns, table.schema)


TABLE = scores_table(scores())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed("system", 3, "other"), "not where they belong: system"),
        (changed("seed", 0, None), "length needs a run for every seed and group"),
        (changed("seed", 0, 2), "length needs a run for every seed and group"),
        (changed("held_out", 19, "short"), "not where they belong: held_out"),
        (changed("group", 0, "long"), "rows where"),
        (changed("group", 0, None), "not where they belong: group"),
        (changed("measure", 0, "R@100"), "not where they belong: measure"),
        (changed("query_id", 0, "q4"), "rows where 24 are due"),
        (changed("query_id", 3, "q9"), "rows where 24 are due"),
        (changed("query_id", 3, None), "a query has no id"),
        (changed("query_id", 3, "q" * 101), "a query_id has more than 100 characters"),
        (changed("missing", 0, False), "'missing' depends on the measure"),
        (changed("score", 2, 0.123), "not where they belong: score"),  # q3 has another in long
        (TABLE[:-1], "19 rows where 20 are due"),
        (TABLE[:0], "has no rows"),
        (TABLE.drop_columns("seed"), "expected system string, shift string"),
        (TABLE.append_column("x", pa.nulls(len(TABLE))), "expected system string"),
        (TABLE.set_column(7, "score", TABLE["score"].cast("float")), "score float"),
    ],
)  # fmt: skip
def test_rows_that_are_not_where_they_belong(tmp_path: Path, table: pa.Table, message: str) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path / "s.parquet", table)
    assert message in str(refused.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_per_query(tmp_path / "s.parquet", MEASURES)
    pq.write_table(TABLE, tmp_path / "s.parquet")
    content = (tmp_path / "s.parquet").read_bytes()
    for damaged in (b"", b"PAR1", content[:-9], content[:400] + content[-300:]):
        (tmp_path / "s.parquet").write_bytes(damaged)
        with pytest.raises(DataError, match="no whole Parquet file"):
            read_per_query(tmp_path / "s.parquet", MEASURES)
    with pytest.raises(UnknownNameError, match="did you mean 'length'"):
        read(tmp_path / "s.parquet", changed("shift", 0, "lenght").slice(0, 1))
