"""Rank correlations of a handful of groups, with intervals and tests that hold for a handful.

Fisher's transformation, and every other formula for large samples, breaks down at five points: for
a perfect order it gives an interval of no width. Here the interval holds every correlation under
which the observed one, or one further out, has a chance of at least 2.5% on either side (two
one-sided tests, inverted; Clopper and Pearson, Biometrika 26, 1934). That chance is counted in
10,000 samples of two normal variables that correlate, drawn with a fixed seed. As only ranks
matter, it holds for whatever increasing functions make of such variables (a Gaussian copula).
Spearman's and Kendall's correlations of them follow from Pearson's (Kruskal, JASA 53, 1958).

P-values are exact: the share of all orders of the groups that correlate at least as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UnknownNameError
from msshift_bench.stats import POWER, SIGNIFICANT, Interval

__all__ = [
    "RANK_CORRELATIONS",
    "RankCorrelation",
    "RankReach",
    "correlate_ranks",
    "rank_correlation",
    "rank_reach",
]

_SAMPLES = 10_000
_MOST_ORDERS = 8
"""The most groups whose orders are all counted: 8! = 40,320."""
_CLOSE = 1e-9
_STEPS = 14


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """The rank correlation of similarity and loss over groups.

    Attributes:
        kind: ``spearman`` or ``kendall``.
        value: from -1 to 1; `None` if all similarities or all losses are the same.
        interval: its confidence interval, as above; `None` if `value` is.
        p: two-sided p-value of "no order", exact up to 8 groups; `None` if `value` is.
        groups: the number of points.
    """

    kind: str
    value: float | None
    interval: Interval | None
    p: float | None
    groups: int


@dataclass(frozen=True, slots=True)
class RankReach:
    """What Spearman's correlation of so many groups can show at all.

    Attributes:
        groups: the number of points.
        smallest_p: the p-value of a perfect order.
        needed: the smallest correlation that is significant at 0.05; `None` if not even 1 is.
        detectable: the true correlation whose test is significant in 80 of 100 cases; `None` if
            `needed` is.
    """

    groups: int
    smallest_p: float
    needed: float | None
    detectable: float | None


def _spearman(x: Floats, y: Floats) -> Floats:
    """Correlate ranks along the last axis."""
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    scale = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.asarray((x * y).sum(axis=-1) / scale)


def _kendall(x: Floats, y: Floats) -> Floats:
    """Return tau-b along the last axis."""
    agree, in_x, in_y = (np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1]) for _ in range(3))
    for first in range(x.shape[-1] - 1):
        a = np.sign(x[..., first + 1 :] - x[..., first, None])
        b = np.sign(y[..., first + 1 :] - y[..., first, None])
        agree += (a * b).sum(axis=-1)
        in_x += np.abs(a).sum(axis=-1)
        in_y += np.abs(b).sum(axis=-1)
    return np.asarray(agree / np.sqrt(in_x * in_y))


_STATISTICS: Mapping[str, Callable[[Floats, Floats], Floats]] = MappingProxyType(
    {"spearman": _spearman, "kendall": _kendall}
)
_OF_PEARSON: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "spearman": lambda rho: 6 / math.pi * math.asin(rho / 2),
        "kendall": lambda rho: 2 / math.pi * math.asin(rho),
    }
)

RANK_CORRELATIONS = tuple(_STATISTICS)
"""The kinds of rank correlation."""


def correlate_ranks(kind: str, x: Floats, y: Floats) -> Floats:
    """Return rank correlations along the last axis; NaN where all values are the same.

    Args:
        kind: one of `RANK_CORRELATIONS`.
        x: values, ties among them or not.
        y: of a shape that goes with that of `x`.

    Raises:
        UnknownNameError: for another kind.
    """
    if kind not in _STATISTICS:
        raise UnknownNameError("rank correlation", kind, RANK_CORRELATIONS)
    from scipy.stats import rankdata

    with np.errstate(invalid="ignore"):
        found = _STATISTICS[kind](rankdata(x, axis=-1), rankdata(y, axis=-1))
    return np.clip(found, -1, 1)


def rank_correlation(
    kind: str, similarities: ArrayLike, rel_losses: ArrayLike, *, confidence: float = 0.95
) -> RankCorrelation:
    """Correlate the orders of groups by similarity and by loss.

    Args:
        kind: one of `RANK_CORRELATIONS`.
        similarities: one per group, ``[groups]``.
        rel_losses: ``[groups]``; any scale will do.
        confidence: the level of the interval.

    Raises:
        UnknownNameError: for another kind.
        DataError: if there are fewer than 3 groups.
    """
    if kind not in _STATISTICS:
        raise UnknownNameError("rank correlation", kind, RANK_CORRELATIONS)
    from scipy.stats import kendalltau, rankdata, spearmanr

    x, y = (rankdata(np.asarray(values, np.float64)) for values in (similarities, rel_losses))
    n = len(x)
    if n < 3:
        raise DataError(f"a rank correlation takes at least 3 groups, and there are {n}")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return RankCorrelation(kind, None, None, None, n)
    value = float(np.clip(_STATISTICS[kind](x, y), -1, 1))
    if n <= _MOST_ORDERS:
        orders = _STATISTICS[kind](x, y[_orders(n)])
        p = float((np.abs(orders) >= abs(value) - _CLOSE).mean())
    else:
        p = float((spearmanr if kind == "spearman" else kendalltau)(x, y).pvalue)
    return RankCorrelation(kind, value, _interval(kind, n, value, confidence), p, n)


@lru_cache(maxsize=8)
def _orders(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(list(permutations(range(n))), np.int64)


@lru_cache(maxsize=4)
def _normal(n: int) -> tuple[Floats, Floats]:
    """Return independent samples, ``[n, samples]`` each; the first of them ascend."""
    first, second = np.random.default_rng(n).standard_normal((2, _SAMPLES, n))
    first.sort(axis=-1)
    return np.ascontiguousarray(first.T), np.ascontiguousarray(second.T)


def _sampled(kind: str, n: int, rho: float) -> Floats:
    """Return the rank correlations of samples of normal variables that correlate at `rho`."""
    first, second = _normal(n)
    correlated = rho * first + math.sqrt(1 - rho * rho) * second
    # The first variable ascends and nothing ties, so that comparing values is all that it takes.
    if kind == "kendall":
        agree = np.zeros(_SAMPLES)
        for at in range(n - 1):
            agree += (correlated[at + 1 :] > correlated[at]).sum(axis=0, dtype=np.int16)
        return 4 * agree / (n * n - n) - 1
    ranks = np.zeros(correlated.shape)
    for at in range(n):
        ranks += correlated > correlated[at]
    centred = np.arange(n) - (n - 1) / 2
    return np.asarray(centred @ ranks / (centred @ centred))


@lru_cache(maxsize=256)
def _interval(kind: str, n: int, value: float, confidence: float) -> Interval:
    tail = (1 - confidence) / 2

    def limit(sign: int) -> float:
        """Return the largest correlation, times `sign`, under which the value is no surprise."""
        if sign * value >= 1 - _CLOSE:
            return float(sign)

        def possible(rho: float) -> bool:
            return bool((sign * _sampled(kind, n, rho) <= sign * value + _CLOSE).mean() > tail)

        return _OF_PEARSON[kind](_last(possible, sign))

    return Interval(limit(-1), limit(1))


def _last(possible: Callable[[float], bool], sign: int) -> float:
    """Return the correlation furthest towards `sign` that is possible, by bisection."""
    inside, outside = -sign * 1.0, sign * 1.0
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if possible(middle) else (inside, middle)
    return inside


@lru_cache(maxsize=32)
def rank_reach(groups: int) -> RankReach:
    """Return what Spearman's correlation of so many groups can show, if none of them tie.

    Args:
        groups: 3 or more; the exact test counts all orders of up to 8.

    Raises:
        DataError: for fewer groups.
    """
    if groups < 3:
        raise DataError(f"a rank correlation takes at least 3 groups, and there are {groups}")
    ranks = np.arange(groups, dtype=np.float64)
    if groups <= _MOST_ORDERS:
        null = np.abs(_spearman(ranks, ranks[_orders(groups)]))
    else:
        null = np.abs(_sampled("spearman", groups, 0.0))
    values = np.unique(null.round(9))
    chances = {float(value): float((null >= value - _CLOSE).mean()) for value in values}
    enough = [value for value, chance in chances.items() if chance <= SIGNIFICANT]
    needed = min(enough, default=None)
    detectable = None
    if needed is not None:
        least = needed

        def missed(rho: float) -> bool:
            return bool((_sampled("spearman", groups, rho) >= least - _CLOSE).mean() < POWER)

        detectable = _OF_PEARSON["spearman"](_last(missed, 1))
    return RankReach(groups, 2 / math.factorial(groups), needed, detectable)
