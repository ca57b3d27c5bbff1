"""Resampling queries and seeds: bootstrap means and the sign-flip test, reproducible to the bit.

Two decisions make every draw the same on any machine, for any number of threads and any block
size:

- **Streams.** Draws come from `numpy.random.PCG64`, seeded with the user's seed and a keyed digest
  of what is resampled (a group, a system's seeds). A group is therefore resampled alike whether it
  is evaluated alone or within its shift, two systems on one group meet the same resamples (they
  are paired), and different groups are resampled independently. Only whole 32- or 64-bit words are
  drawn, so how the draws are cut into blocks leaves no trace.
- **Exact sums.** Scores are rounded to a grid so fine (about 1e-12 of the largest, for 6,000
  queries) and so coarse that every weighted sum of them is an integer below 2**53. Floating-point
  addition is then exact, and the order in which BLAS adds, which varies with its threads, does not
  matter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msshift_bench.errors import UsageError

__all__ = [
    "BLOCK",
    "ROUNDING",
    "Draws",
    "GroupScores",
    "Interval",
    "draw_losses",
    "generator",
    "percentile_interval",
    "resample_means",
    "resample_seeds",
    "to_grid",
    "two_sided_bootstrap_p",
]

Floats = NDArray[np.float64]

BLOCK = 32
"""Resamples drawn at once: at 6,250 queries, 1.6 MB of indices, which the cache still holds."""


ROUNDING = 1e-12
"""Differences smaller than this, relative to the largest score, are rounding and count as 0."""


class Interval(NamedTuple):
    """A confidence interval; both ends belong to it."""

    low: float
    high: float


def generator(seed: int, *keys: str) -> np.random.Generator:
    """Return the random stream of `seed` for what `keys` name.

    Args:
        seed: the user's seed, at least 0.
        keys: what is resampled, e.g. ``("queries", "C2")``; other keys give another stream.

    Raises:
        UsageError: if `seed` is negative.
    """
    if seed < 0:
        raise UsageError(f"a seed is at least 0, not {seed}")
    digest = hashlib.blake2b("\0".join(keys).encode(), digest_size=8).digest()
    entropy = np.random.SeedSequence([seed, int.from_bytes(digest, "little")])
    return np.random.Generator(np.random.PCG64(entropy))


def to_grid(values: Floats) -> tuple[Floats, int]:
    """Round to integers whose weighted sums are exact; return them and the power of two used.

    Weights are non-negative integers that sum to at most ``len(values)``.

    Args:
        values: shape ``[n]``, finite.

    Returns:
        ``integers, exponent`` with ``values`` close to ``integers * 2.0**exponent``.
    """
    bits = 52 - math.ceil(math.log2(max(len(values), 1)))
    exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1] - bits
    return np.rint(np.ldexp(values, -exponent)), exponent


def resample_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Resample queries with replacement and return each column's mean in each resample.

    All columns are weighted by the same resampled queries. A resample is the vector of how often
    each query was drawn, so any number of columns costs one matrix product.

    Args:
        values: shape ``[n, columns]``, per-query scores, n at least 1.
        resamples: how many times n queries are drawn.
        rng: the stream that is drawn from.

    Returns:
        shape ``[resamples, columns]``.
    """
    n, columns = values.shape
    grids = [to_grid(column) for column in values.T]
    integers = np.stack([grid for grid, _ in grids], axis=1)
    exponents = np.array([exponent for _, exponent in grids])
    sums = np.empty((resamples, columns))
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        drawn = rng.integers(0, n, size=(rows, n))
        drawn += np.arange(0, rows * n, n)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        sums[start : start + rows] = counts.astype(np.float64) @ integers
    means: Floats = np.ldexp(sums, exponents) / n
    return means


def resample_seeds(seeds: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Resample the seeds of a system with replacement.

    Returns:
        shape ``[resamples, seeds]``, indices of seeds; all 0 for a single seed.
    """
    return rng.integers(0, seeds, size=(resamples, seeds))


def percentile_interval(draws: Floats, confidence: float) -> Interval:
    """Return the bootstrap percentile interval of `draws` (Efron & Tibshirani 1993, chapter 13).

    Args:
        draws: shape ``[resamples]``, the statistic in each resample; at least one, none NaN.
        confidence: e.g. 0.95, strictly between 0 and 1.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


def two_sided_bootstrap_p(draws: Floats) -> float:
    """Return the two-sided p-value of "the statistic is 0" that inverts the percentile interval.

    Twice the smaller tail of `draws` beyond 0, counting the observed sample as one more draw so
    that p is never 0 (Efron & Tibshirani 1993, section 15.4; Davison & Hinkley 1997, section 4.2).
    Up to that draw, p is below 0.05 exactly where the 95% percentile interval excludes 0.

    Args:
        draws: shape ``[resamples]``; at least one, none NaN.

    Returns:
        A value in (0, 1].
    """
    beyond = min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0))
    return min(1.0, 2 * (1 + int(beyond)) / (len(draws) + 1))


@dataclass(frozen=True, slots=True, eq=False, init=False)
class GroupScores:
    """The per-query scores of one system on one group's test queries.

    Attributes:
        inside: the in-domain models' scores, given as ``[models, queries]`` or, with replicates,
            ``[seeds, models, queries]``; kept with all three axes.
        out: the held-out model's scores on the same queries in the same order, given as
            ``[queries]`` or ``[seeds, queries]``; kept with both axes.

    Raises:
        UsageError: if the shapes disagree, there is no model or seed, or a score is not finite.
    """

    inside: Floats
    out: Floats

    def __init__(self, inside: ArrayLike, out: ArrayLike) -> None:
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

    @property
    def seeds(self) -> int:
        """How many replicates there are."""
        return int(self.inside.shape[0])

    @property
    def models(self) -> int:
        """How many in-domain models there are."""
        return int(self.inside.shape[1])

    @property
    def queries(self) -> int:
        """How many test queries there are."""
        return int(self.inside.shape[2])

    @property
    def columns(self) -> Floats:
        """All that a resample needs, ``[queries, 2 * seeds]``: mean over models, then held-out."""
        return np.concatenate([self.inside.mean(axis=1), self.out]).T

    def per_seed(self) -> tuple[Floats, Floats]:
        """Return Avg In and Out of each seed, exactly rounded; NaN without queries."""
        n = self.queries
        means = [math.fsum(column) / n if n else math.nan for column in self.columns.T]
        return np.array(means[: self.seeds]), np.array(means[self.seeds :])

    def differences(self) -> Floats:
        """Return each query's mean over models and seeds of in-domain minus held-out score."""
        paired = (self.inside - self.out[:, None]).mean(axis=(0, 1))
        largest = max(np.max(np.abs(self.inside), initial=0), np.max(np.abs(self.out), initial=0))
        return np.where(np.abs(paired) <= ROUNDING * largest, 0.0, paired)


class Draws(NamedTuple):
    """Avg In and Out in each resample, both of shape ``[resamples]``."""

    avg_in: Floats
    out: Floats


def draw_losses(
    systems: Mapping[str, GroupScores], *, group: str, resamples: int, seed: int
) -> dict[str, Draws]:
    """Resample the queries of one group, the same for all systems, and each system's seeds.

    Queries and seeds are crossed: each resample draws queries with replacement and, independently,
    seeds with replacement, and averages over both (the pigeonhole bootstrap, Owen 2007). A seed is
    drawn as a whole, its in-domain and held-out models together, and alike for all groups, since
    the same models answer them. Two things to know of such intervals: what models of different
    seeds disagree on query by query counts up to three times (Owen 2007), which makes them wide;
    and with few seeds the spread of whole seeds is underestimated by the usual factor
    (seeds - 1) / seeds, which makes them narrow. A single seed is never resampled.

    Args:
        systems: name -> scores on the same queries in the same order; at least 2 queries.
        group: the group's name: groups are resampled independently of each other.
        resamples: how many resamples are drawn.
        seed: of the resampling.

    Returns:
        name -> Avg In and Out in each resample; resample i is the same queries for all systems.

    Raises:
        UsageError: if the systems were given different numbers of queries.
    """
    if len({scores.queries for scores in systems.values()}) > 1:
        counts = {name: scores.queries for name, scores in systems.items()}
        raise UsageError(f"systems are compared on the same queries; got {counts}")
    columns = np.concatenate([scores.columns for scores in systems.values()], axis=1)
    means = resample_means(columns, resamples, generator(seed, "queries", group))
    draws, start = {}, 0
    for name, scores in systems.items():
        avg_in, out = np.split(means[:, start : start + 2 * scores.seeds], 2, axis=1)
        start += 2 * scores.seeds
        picks = resample_seeds(scores.seeds, resamples, generator(seed, "seeds", name))
        draws[name] = Draws(
            np.take_along_axis(avg_in, picks, axis=1).mean(axis=1),
            np.take_along_axis(out, picks, axis=1).mean(axis=1),
        )
    return draws
