"""An entry's per-query scores as arrays: what ranks, pairs and the drill-down are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.shifts import Shift
from msshift_bench.stats import GroupScores

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QueryScores", "query_scores"]


@dataclass(frozen=True, slots=True, eq=False)
class QueryScores:
    """One system's scores on one group's test queries, under one measure.

    Attributes:
        query_ids: sorted, as in every table of scores.
        held_out: the models, by the group that each was trained without, in the order of the
            shift; only `None` for a system that was not trained per group.
        scores: ``[seeds, models, queries]``.
        missing: how many of the runs do not hold a query, ``[queries]``.
    """

    query_ids: tuple[str, ...]
    held_out: tuple[str | None, ...]
    scores: Floats
    missing: NDArray[np.int64]

    def losses(self, group: str) -> GroupScores | None:
        """Return what the loss on `group` is computed from; `None` if there is no such loss."""
        if group not in self.held_out or len(self.held_out) < 2:
            return None
        out = self.held_out.index(group)
        return GroupScores(np.delete(self.scores, out, axis=1), self.scores[:, out])

    def answered(self) -> QueryScores:
        """Return the same for the queries that no run is missing."""
        keep = self.missing == 0
        ids = tuple(query for query, kept in zip(self.query_ids, keep, strict=True) if kept)
        return QueryScores(ids, self.held_out, self.scores[:, :, keep], self.missing[keep])


def query_scores(
    table: pa.Table, shift: Shift, measure: str, *, skip_missing: bool = False
) -> Mapping[str, QueryScores]:
    """Return group -> scores on its test queries.

    Args:
        table: the columns of `Report.per_query`; of one system.
        shift: the shift; its groups without a row are left out.
        measure: the measure.
        skip_missing: leave out the queries that a run is missing, as the policy ``skip`` does.

    Raises:
        ValueError: if not all runs were scored on the same queries.
    """
    import pyarrow.compute as pc

    rows = table.filter((pc.field("shift") == shift.name) & (pc.field("measure") == measure))
    found = {}
    for group in shift.groups:
        within = rows.filter(pc.field("group") == group)
        if within.num_rows:
            one = _group(within, shift)
            found[group] = one.answered() if skip_missing else one
    return found


def _group(rows: pa.Table, shift: Shift) -> QueryScores:
    models = set(rows["held_out"].unique().to_pylist())
    held_out = tuple(group for group in (None, *shift.groups) if group in models)
    seeds = len(rows["seed"].unique())
    scores, missing, ids = [], [], ()
    for model in held_out:
        column = rows["held_out"]
        mine = rows.filter(column.is_null() if model is None else _equal(column, model))
        mine = mine.sort_by([("seed", "ascending"), ("query_id", "ascending")])
        scores.append(mine["score"].to_numpy().reshape(seeds, -1))
        missing.append(mine["missing"].to_numpy().reshape(seeds, -1))
        ids = tuple(mine["query_id"][: mine.num_rows // seeds].to_pylist())
    return QueryScores(
        ids,
        held_out,
        np.stack(scores, axis=1),
        np.stack(missing, axis=1).sum(axis=(0, 1), dtype=np.int64),
    )


def _equal(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.equal(column, value)
