r"""The uncertainty of an estimate: other queries, and other seeds of the same training.

A figure of a loss is, to first order, a mean of contributions L[s, q] of seeds s and queries q.
With random effects of both and noise (Searle, Casella and McCulloch 1992, chapter 4),

    L[s, q] = seed effect a[s] + query effect b[q] + noise e[s, q],

the variance of the mean over S seeds and Q queries is the sum of

- what queries add, (MSQ - MSE) / (S Q), but at least 0, and
- what seeds add, noise included, MSS / (S Q) = var(mean of seed s) / S,

where MSQ, MSS and MSE are the mean squares of queries, seeds and noise. The first rests on about
Q - 1 degrees of freedom, the second on S - 1, so the error is distributed as a sum of two scaled t
variables (`stats.sums_of_t`). Intervals and p-values come from that one distribution, so that a
p-value is at most 0.05 exactly if the 95% interval excludes 0. With a single seed nothing is known
about other seeds; intervals and p-values then count queries only, and are labelled so.

``benchmarks/coverage_simulation.py`` measures how often intervals hold the truth and tests reject
true null hypotheses; docs/statistics.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.stats.group_scores import ROUNDING
from msshift_bench.stats.sums_of_t import Part, half_width, two_sided_p

__all__ = [
    "QUERIES_AND_SEEDS",
    "QUERIES_ONLY",
    "Contributions",
    "Interval",
    "PooledSeeds",
    "Uncertainty",
]


QUERIES_ONLY = "queries only"
QUERIES_AND_SEEDS = "queries and seeds"

_MOST_SEEDS = 1000


class Interval(NamedTuple):
    """A confidence interval; both ends belong to it."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The variance of an estimate, by its source.

    Attributes:
        query_variance: what the choice of queries adds, at least 0.
        query_df: the degrees of freedom of `query_variance`.
        seed_variance: what the seeds of training add; `None` for a single seed.
        seed_df: the degrees of freedom of `seed_variance`; `None` for a single seed.
    """

    query_variance: float
    query_df: float
    seed_variance: float | None
    seed_df: float | None

    @property
    def counts(self) -> str:
        """The sources that count: `QUERIES_ONLY` or `QUERIES_AND_SEEDS`."""
        return QUERIES_ONLY if self.seed_variance is None else QUERIES_AND_SEEDS

    @property
    def seed_share(self) -> float | None:
        """The share of the variance that comes from seeds, 0 to 1; `None` if it is not known."""
        if self.seed_variance is None:
            return None
        total = self.query_variance + self.seed_variance
        return self.seed_variance / total if total else None

    def _parts(self, seed_factor: float = 1.0) -> tuple[Part, Part]:
        """Return both sources, with the seeds' variance and degrees multiplied and divided."""
        queries = Part(math.sqrt(self.query_variance), self.query_df)
        if self.seed_variance is None or self.seed_df is None:
            return queries, Part(0.0, 1.0)
        return queries, Part(math.sqrt(self.seed_variance * seed_factor), self.seed_df)

    def interval(self, estimate: float, confidence: float) -> Interval:
        """Return the confidence interval of `estimate`, which lies in its middle."""
        half = half_width(confidence, *self._parts())
        return Interval(estimate - half, estimate + half)

    def p_value(self, estimate: float) -> float | None:
        """Return the two-sided p-value of "the estimate is 0", from 0 to 1.

        `None` if the estimate is not 0 and nothing varies, so that there is no scale to compare it
        with. Estimates of at most `ROUNDING` count as 0.
        """
        parts = self._parts()
        if not any(part.scale for part in parts):
            return 1.0 if abs(estimate) <= ROUNDING else None
        return two_sided_p(abs(estimate), *parts)

    def more_seeds_to_halve(self, seeds: int, confidence: float) -> int | None:
        """Return how many more seeds would make the interval half as wide.

        It assumes that the variance from seeds falls as 1 / seeds, and that from queries stays.

        Args:
            seeds: the number of seeds now, at least 2.
            confidence: the interval's confidence level.

        Returns:
            The smallest such number; `None` if there is none up to 1,000 seeds, because the queries
            alone make more than half of the width, or if there is a single seed.
        """
        if self.seed_variance is None or self.seed_df is None:
            return None
        half = half_width(confidence, *self._parts()) / 2
        per_seed = self.seed_df / (seeds - 1)

        def enough(number: int) -> bool:
            queries, trained = self._parts(seeds / number)
            trained = Part(trained.scale, per_seed * (number - 1))
            return half_width(confidence, queries, trained) <= half

        if not enough(_MOST_SEEDS):
            return None
        low, high = seeds, _MOST_SEEDS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high - seeds


class PooledSeeds(NamedTuple):
    """What seeds add to the variance, assuming that all models vary alike.

    Attributes:
        variance: what seeds add, at least 0.
        df: its degrees of freedom.
    """

    variance: float
    df: float


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """What queries and seeds contribute to an estimate; its uncertainty follows from this.

    Attributes:
        queries: per stratum, the mean over seeds of each query's contribution, ``[queries]``.
            Strata are sampled separately; the estimate is the sum of their means.
        per_seed: the estimate of each seed, ``[seeds]``.
        noise: the variance of the estimate that comes from noise of query and seed together.
        scale: the largest term that a contribution was computed from; differences below `ROUNDING`
            of it are rounding.
        pooled: the variance from seeds, if it is not that of `per_seed`.
    """

    queries: tuple[Floats, ...]
    per_seed: Floats
    noise: float
    scale: float
    pooled: PooledSeeds | None = None

    @classmethod
    def of(
        cls, strata: Sequence[Floats], scale: float, pooled: PooledSeeds | None = None
    ) -> Contributions:
        """Sum contributions up.

        Args:
            strata: contributions ``[seeds, queries]`` of each stratum, at least one query each.
            scale: see the attribute.
            pooled: see the attribute.
        """
        seeds = len(strata[0])
        return cls(
            tuple(stratum.mean(axis=0) for stratum in strata),
            np.sum([stratum.mean(axis=1) for stratum in strata], axis=0),
            math.fsum(_noise(stratum) for stratum in strata) if seeds > 1 else 0.0,
            scale,
            pooled,
        )

    def minus(self, other: Contributions) -> Contributions:
        """Return the contributions to the difference of two estimates on the same queries.

        The seeds of the two are independent. Their estimates are subtracted in the order of the
        seeds, so that the variance of the differences is estimated without assuming that the two
        vary alike (Scheffé, Annals of Mathematical Statistics 14, 1943, equation 15); the t
        distribution is then exact, on one degree less than the smaller number of seeds.
        """
        seeds = _paired(self.per_seed, other.per_seed)
        return Contributions(
            tuple(a - b for a, b in zip(self.queries, other.queries, strict=True)),
            seeds,
            self.noise + other.noise if len(seeds) > 1 else 0.0,
            max(self.scale, other.scale),
            _welch(self.pooled, other.pooled) if self.pooled and other.pooled else None,
        )

    def repeated(self, seeds: int) -> Contributions:
        """Return the contributions of one seed as those of several that do not differ.

        Args:
            seeds: how many, at least 2.
        """
        return Contributions(
            self.queries,
            np.repeat(self.per_seed, seeds),
            0.0,
            self.scale,
            PooledSeeds(0.0, seeds - 1.0),
        )

    def uncertainty(self) -> Uncertainty | None:
        """Return the variance of the estimate; `None` if a stratum has fewer than 2 queries."""
        if min(len(means) for means in self.queries) < 2:
            return None
        rounding = (ROUNDING * self.scale) ** 2

        def beyond_rounding(variance: float) -> float:
            return variance if variance > rounding else 0.0

        of_means = math.fsum(float(means.var(ddof=1)) / len(means) for means in self.queries)
        seeds = len(self.per_seed)
        query_df = float(sum(len(means) - 1 for means in self.queries))
        if seeds < 2:
            return Uncertainty(beyond_rounding(of_means), query_df, None, None)
        found = self.pooled or PooledSeeds(float(self.per_seed.var(ddof=1)) / seeds, seeds - 1.0)
        return Uncertainty(
            beyond_rounding(of_means - self.noise),
            query_df,
            beyond_rounding(found.variance),
            found.df,
        )


def _noise(stratum: Floats) -> float:
    """Return MSE / (seeds * queries): the variance of the stratum's mean that is noise."""
    seeds, queries = stratum.shape
    if queries < 2:
        return 0.0
    residuals = stratum - stratum.mean(axis=0) - stratum.mean(axis=1)[:, None] + stratum.mean()
    freedom = (seeds - 1) * (queries - 1)
    return float(np.square(residuals).sum() / (freedom * seeds * queries))


def _paired(first: Floats, second: Floats) -> Floats:
    if len(first) > len(second):
        return -_paired(second, first)
    fewer, more = len(first), len(second)
    if fewer == more:
        return first - second
    kept = second[:fewer]
    ratio = math.sqrt(fewer / more)
    return np.asarray(first - ratio * (kept - kept.mean()) - second.mean())


def _welch(first: PooledSeeds, second: PooledSeeds) -> PooledSeeds:
    """Add two variances that were estimated separately (Welch, Biometrika 34, 1947)."""
    total = first.variance + second.variance
    if not total:
        return PooledSeeds(0.0, first.df + second.df)
    df = total**2 / (first.variance**2 / first.df + second.variance**2 / second.df)
    return PooledSeeds(total, df)
