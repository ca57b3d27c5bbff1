"""What every test query loses, as arrays: what the links of queries are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError
from msshift_bench.stats import GroupScores

__all__ = ["QueryLosses"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QueryLosses:
    """One system's losses on every test query of a shift, in one measure.

    Attributes:
        shift: the shift's name.
        system: the system.
        measure: the measure's name.
        sign: -1 where lower is better, so that a positive loss is always worse.
        scores: group -> the scores of its test queries.
    """

    shift: str
    system: str
    measure: str
    sign: int
    scores: Mapping[str, GroupScores]

    def __repr__(self) -> str:
        return f"<QueryLosses: {self.system} on {self.shift}, {self.measure}>"

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return next(iter(self.scores.values())).seeds

    def relative(self) -> dict[str, Floats]:
        """Return group -> each query's loss in units of the group's Avg In, ``[seeds, queries]``.

        Its mean is the group's Rel Loss.

        Raises:
            DataError: if Avg In of a group is 0.
        """
        found = {}
        for group, scores in self.scores.items():
            inside = scores.inside.mean(axis=1)
            avg_in = float(inside.mean())
            if not avg_in:
                raise DataError(
                    f"{self.system} scores 0 in {self.measure} on {group}, so that there is no Rel "
                    "Loss to explain; take another measure, or leave the system out"
                )
            found[group] = self.sign * (inside - scores.out) / avg_in
        return found

    def chosen(self, chosen: Mapping[str, NDArray[np.bool_]]) -> GroupScores:
        """Return the scores of some queries of all groups, as those of one group.

        Args:
            chosen: group -> mask of its queries, ``[queries]``.
        """
        return GroupScores(
            np.concatenate(
                [s.inside.mean(axis=1)[:, None, chosen[g]] for g, s in self.scores.items()], axis=2
            ),
            np.concatenate([s.out[:, chosen[g]] for g, s in self.scores.items()], axis=1),
        )
