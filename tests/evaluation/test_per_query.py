"""Per-query scores, written as a table and read again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import DataError
from msshift_bench.evaluation import ScoredRun, Scores, read_per_query, scores_table
from msshift_bench.evaluation.per_query import MAX_UNPACKED
from msshift_bench.runs import FOR_ALL, RunReport
from msshift_bench.shifts import get_shift
from tests.support.refusals import check_refusals

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


CHANGES = [
    ("system", 3, "other", "system"), ("held_out", 19, "short", "held_out"),
    ("group", 0, "long", "20 24"), ("group", 0, None, "group query_id score"),
    ("measure", 0, "R@100", "measure"), ("query_id", 0, "q4", "20 24"),
    ("query_id", 3, "q9", "20 24"), ("query_id", 3, None, "length"),
    ("missing", 0, False, "'missing'"), ("score", 2, 0.123, "score"),
]  # fmt: skip
"""Column, row, a wrong value, and words of the error; q3 has another score in long."""


def test_rows_that_are_not_where_they_belong_are_refused(tmp_path: Path) -> None:
    table = scores_table(scores())
    tables = {
        f"{column}: DataError [scores-layout] {words}": changed(column, row, value)
        for column, row, value, words in CHANGES
    } | {
        "no seed: DataError [wrong-runs] length": changed("seed", 0, None),
        "another seed: DataError [wrong-runs] length": changed("seed", 0, 2),
        "DataError [out-of-range] 100": changed("query_id", 3, "q" * 101),
        "UnknownNameError 'lenght'": changed("shift", 0, "lenght"),
        "DataError [scores-layout] 19": table[:-1],
        "DataError [scores-layout] rows": table[:0],
        "DataError [wrong-columns] seed": table.drop_columns("seed"),
        "DataError [wrong-columns] x": table.append_column("x", pa.nulls(len(table))),
        "DataError [wrong-columns] float": table.set_column(
            7, "score", table["score"].cast("float")
        ),
    }
    refusals = {}
    for number, (wrong, of) in enumerate(tables.items()):
        pq.write_table(of, tmp_path / f"{number}.parquet")
        refusals[wrong] = partial(read_per_query, tmp_path / f"{number}.parquet", MEASURES)
    with (tmp_path / "large.parquet").open("wb") as file:
        file.truncate(MAX_UNPACKED + 1)
    refusals["DataError [too-large] 200"] = partial(
        read_per_query, tmp_path / "large.parquet", MEASURES
    )
    refusals["NotFoundError none.parquet"] = partial(
        read_per_query, tmp_path / "none.parquet", MEASURES
    )
    check_refusals(refusals)
    path = tmp_path / "s.parquet"
    pq.write_table(table, path)
    content = path.read_bytes()
    for damaged in (b"", b"PAR1", content[:-9], content[:400] + content[-300:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="Parquet"):
            read_per_query(path, MEASURES)
