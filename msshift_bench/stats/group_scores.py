"""The per-query scores of one system on one group, from which every loss is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError

__all__ = ["ROUNDING", "GroupScores"]


ROUNDING = 1e-12
"""Differences smaller than this, relative to the largest score, are rounding and count as 0."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class GroupScores:
    """The per-query scores of one system on one group's test queries.

    Attributes:
        inside: the in-domain models' scores, given as ``[models, queries]`` or, with replicates,
            ``[seeds, models, queries]``; kept with all three axes.
        out: the held-out model's scores on the same queries in the same order, given as
            ``[queries]`` or ``[seeds, queries]``; kept with both axes.
        trained: whether models were trained without one group each; see `untrained`.

    Raises:
        UsageError: if the shapes disagree, there is no model or seed, or a score is not finite.
    """

    inside: Floats
    out: Floats
    trained: bool

    def __init__(self, inside: ArrayLike, out: ArrayLike, *, trained: bool = True) -> None:
        within = np.asarray(inside, dtype=np.float64)
        without = np.asarray(out, dtype=np.float64)
        if within.ndim == 2 and without.ndim == 1:
            within, without = within[None], without[None]
        if within.ndim != 3 or without.shape != (within.shape[0], within.shape[2]):
            raise UsageError(
                "scores are [models, queries] and [queries], or [seeds, models, queries] and "
                f"[seeds, queries]; got {np.shape(inside)} and {np.shape(out)}"
            )
        if not within.shape[0] or not within.shape[1]:
            raise UsageError("a loss needs at least one in-domain model and one seed")
        if not (np.isfinite(within).all() and np.isfinite(without).all()):
            raise UsageError("scores must be finite; decide first what a missing query counts")
        object.__setattr__(self, "inside", within)
        object.__setattr__(self, "out", without)
        object.__setattr__(self, "trained", trained)

    @classmethod
    def untrained(cls, scores: ArrayLike) -> GroupScores:
        """Return the scores of a run that is the same whichever group is held out.

        Its Avg In and Out are the same figure, and it has no loss. It is one ranking as it is, not
        one training of several, so that nothing about it varies over seeds.

        Args:
            scores: the scores of the group's test queries, ``[queries]``.
        """
        found = np.asarray(scores, dtype=np.float64)
        return cls(found[None], found, trained=False)

    def __repr__(self) -> str:
        size = f"{self.seeds} seeds, {self.models} models, {self.queries:,} queries"
        return f"<GroupScores: {size}{'' if self.trained else ', untrained'}>"

    @property
    def seeds(self) -> int:
        """The number of replicates."""
        return int(self.inside.shape[0])

    @property
    def models(self) -> int:
        """The number of in-domain models."""
        return int(self.inside.shape[1])

    @property
    def queries(self) -> int:
        """The number of test queries."""
        return int(self.inside.shape[2])

    @property
    def largest(self) -> float:
        """The largest absolute score; differences below `ROUNDING` times it are rounding."""
        ends = (np.abs(scores).max(initial=0.0) for scores in (self.inside, self.out))
        return float(max(ends))

    def per_seed(self) -> tuple[Floats, Floats]:
        """Return Avg In and Out of each seed, exactly rounded; NaN without queries."""
        n = self.queries

        def means(scores: Floats) -> Floats:
            return np.array([math.fsum(row) / n if n else math.nan for row in scores])

        return means(self.inside.mean(axis=1)), means(self.out)

    def differences(self) -> Floats:
        """Return each query's mean over models and seeds of in-domain minus held-out score."""
        paired = (self.inside - self.out[:, None]).mean(axis=(0, 1))
        return np.where(np.abs(paired) <= ROUNDING * self.largest, 0.0, paired)
