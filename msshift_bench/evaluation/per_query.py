"""The table of per-query scores, from which every mean is made; only this module knows its layout.

A system's rows are sorted by run, within a run by group, within a group by measure, and within a
measure by query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Never

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.errors import DataError, Finding
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.runs import RunReport
from msshift_bench.shifts import Shift

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SystemRows", "read_per_query", "run_table", "system_table"]


def run_table(
    run: ScoredRun,
    query_ids: Sequence[str],
    groups: Mapping[str, Ints],
    names: Mapping[str, str],
) -> pa.Table:
    """Return a run's scores, one row per group, measure and query.

    The score is null where the measure has no value for the query.

    Args:
        run: the scored run.
        query_ids: the ids of the test set.
        groups: group -> positions of its queries.
        names: the first columns, whose values are the same in all rows.
    """
    import pyarrow as pa

    ids = pa.array(query_ids, pa.string())
    parts = []
    for group, queries in groups.items():
        for measure, scores in run.scores.items():
            columns = {
                **{
                    name: pa.repeat(pa.scalar(value), len(queries)) for name, value in names.items()
                },
                "seed": pa.repeat(pa.scalar(run.seed, pa.int64()), len(queries)),
                "held_out": pa.repeat(pa.scalar(run.held_out, pa.string()), len(queries)),
                "group": pa.repeat(pa.scalar(group), len(queries)),
                "query_id": ids.take(pa.array(queries)),
                "measure": pa.repeat(pa.scalar(measure), len(queries)),
                "score": pa.array(scores[queries], from_pandas=True),  # NaN is null
                "missing": pa.array(run.missing[queries]),
            }
            parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def system_table(scores: SystemScores) -> pa.Table:
    """Return the scores of a system on a shift.

    Columns: system, shift, seed (null where there is only one), held_out (null for a system
    not trained per group), group, query_id, measure, score, missing.
    """
    import pyarrow as pa

    names = {"system": scores.system, "shift": scores.shift.name}
    return pa.concat_tables(
        [run_table(run, scores.query_ids, scores.groups, names) for run in scores.runs]
    )


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows that a table must have for a system on a shift.

    Attributes:
        system: the system's name.
        shift: the shift.
        runs: ``(seed, held-out group)`` of each run, in the order of the rows.
        test_queries: group -> number of its test queries, at least 1.
        measures: the measures, in the order of the rows.
    """

    system: str
    shift: Shift
    runs: Sequence[tuple[int | None, str | None]]
    test_queries: Mapping[str, int]
    measures: Sequence[str]

    def __len__(self) -> int:
        return len(self.runs) * len(self.measures) * sum(self.test_queries.values())

    def blocks(self) -> Iterator[tuple[int, str, str, slice]]:
        """Yield each block of rows, with its run (as a position), group and measure."""
        start = 0
        for run in range(len(self.runs)):
            for group in filter(self.test_queries.__contains__, self.shift.tested):
                for measure in self.measures:
                    stop = start + self.test_queries[group]
                    yield run, group, measure, slice(start, stop)
                    start = stop


def read_per_query(table: pa.Table, systems: Sequence[SystemRows]) -> list[SystemScores]:
    """Return the scores of a table that `system_table` wrote, one system after the other.

    The table lacks what only run files tell, their names and ties: no query is tied.

    Args:
        table: a table with the columns of `system_table`.
        systems: the rows that it must have.

    Returns:
        The scores of each of `systems`, with query ids sorted, also within groups.

    Raises:
        DataError: if rows are missing, too many, or not where they belong.
    """
    ends = list(accumulate(map(len, systems), initial=0))
    if table.num_rows != ends[-1]:
        _refuse(f"{table.num_rows} rows where the report makes for {ends[-1]}")
    parts = zip(systems, ends, strict=False)
    return [_read_system(table.slice(start, len(rows)), rows) for rows, start in parts]


def _read_system(part: pa.Table, rows: SystemRows) -> SystemScores:
    query_column = part["query_id"].to_pylist()
    members = {group: query_column[block] for run, group, _, block in rows.blocks() if run == 0}
    for group, ids in members.items():
        if len(set(ids)) < len(ids) or None in ids:
            _refuse(f"a query of {group} is there twice, or has no id", rows.shift.name)
    query_ids = tuple(sorted({query_id for ids in members.values() for query_id in ids}))
    index = {query_id: position for position, query_id in enumerate(query_ids)}
    groups = {group: np.array([index[one] for one in ids]) for group, ids in members.items()}
    score_column = part["score"].to_numpy()
    missing_column = part["missing"].to_numpy()
    runs = [_empty_run(rows, seed, held_out, len(query_ids)) for seed, held_out in rows.runs]
    for run, group, measure, block in rows.blocks():
        runs[run].scores[measure][groups[group]] = score_column[block]
        runs[run].missing[groups[group]] = missing_column[block]
    scores = SystemScores(rows.system, rows.shift, query_ids, groups, tuple(runs))
    written = system_table(scores)
    misplaced = [name for name in written.column_names if not written[name].equals(part[name])]
    if misplaced == ["missing"]:
        _refuse("'missing' depends on the measure", rows.shift.name)
    if misplaced:
        _refuse(", ".join(misplaced), rows.shift.name)
    return replace(scores, groups={group: np.sort(where) for group, where in groups.items()})


def _empty_run(rows: SystemRows, seed: int | None, held_out: str | None, size: int) -> ScoredRun:
    scores = {measure: np.zeros(size) for measure in rows.measures}
    untied = np.zeros(size, np.bool_)
    return ScoredRun(
        RunReport(""), np.zeros(size, np.bool_), untied, scores, scores, scores, held_out, seed
    )


def _refuse(reason: str, shift: str = "") -> Never:
    whose = f" of {shift}" if shift else ""
    message = f"the per-query scores{whose} are not where they belong: {reason}"
    raise DataError("per-query scores are misplaced:", [Finding("scores-layout", message)])
