"""Two rank correlations of the same models: their intervals, and whether they differ.

Which of two measures ranks models more like a third one does? The two correlations are not
independent, since they share the models and the third measure. So two tests compare them:

- Meng, Rosenthal and Rubin, "Comparing correlated correlation coefficients" (Psychological Bulletin
  111, 1992): Fisher's transforms of both, with how the two measures correlate with each other. The
  variance of Spearman's correlation is 1.06 / (n - 3) on that scale (Fieller, Hartley and Pearson,
  "Tests for rank correlation coefficients I", Biometrika 44, 1957).
- A permutation of the two measures within each model: if neither of them aligns better, it does not
  matter which of a model's two ranks is called which. All 2^n ways are counted for up to 12 models,
  10,000 drawn ones for more.

Intervals are percentiles of 10,000 bootstrap samples of the models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from msshift_bench.analysis.rank_correlations import correlate_ranks
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError
from msshift_bench.stats import Interval

__all__ = [
    "FEWEST_MODELS",
    "CorrelationDifference",
    "OutsideAlignment",
    "compare_correlations",
    "fieller_interval",
]

FEWEST_MODELS = 5
"""With four models, even the clearest difference has a p-value of 0.125."""

_SAMPLES = 10_000
_MOST_COUNTED = 12
_FIELLER = MappingProxyType({"spearman": (1.06, 3), "kendall": (0.437, 4)})
"""Kind -> the variance of its Fisher transform times n - k, and k."""

_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class CorrelationDifference:
    """How two measures of the same models correlate with a third, and whether that differs.

    Attributes:
        kind: ``spearman`` or ``kendall``.
        models: how many there are.
        first: the first measure's correlation with the third, -1 to 1; `None` if all models have
            one value.
        first_interval: its interval; `None` if `first` is, or the order is perfect: every sample
            of it is perfect, too.
        second: that of the second measure.
        second_interval: its interval.
        difference: `second` minus `first`.
        interval: its interval.
        p: two-sided p-value of "no difference" by permutation within the models.
        meng_p: that by Meng, Rosenthal and Rubin's test; `None` for Kendall's, or if a correlation
            is perfect.
    """

    kind: str
    models: int
    first: float | None
    first_interval: Interval | None
    second: float | None
    second_interval: Interval | None
    difference: float | None
    interval: Interval | None
    p: float | None
    meng_p: float | None


@dataclass(frozen=True, slots=True)
class OutsideAlignment:
    """How interpolation and extrapolation rank models, compared with one test set elsewhere.

    Attributes:
        outside: the test set.
        correlations: by Spearman and by Kendall; interpolation is the first measure, extrapolation
            the second.
    """

    outside: str
    correlations: tuple[CorrelationDifference, ...]


def compare_correlations(
    kind: str, first: ArrayLike, second: ArrayLike, third: ArrayLike, *, confidence: float = 0.95
) -> CorrelationDifference:
    """Compare how two measures rank models with how a third one does.

    Args:
        kind: one of `RANK_CORRELATIONS`.
        first: the first measure, ``[models]``.
        second: the second, ``[models]``.
        third: the third, ``[models]``.
        confidence: the level of the intervals.

    Raises:
        DataError: if there are fewer than 5 models.
        UnknownNameError: for another kind.
    """
    x, y, z = (np.asarray(values, np.float64) for values in (first, second, third))
    n = len(z)
    if n < FEWEST_MODELS:
        raise DataError(
            f"a comparison of alignments takes {FEWEST_MODELS} models, and here are {n}"
        )
    a, b = (float(correlate_ranks(kind, one, z)) for one in (x, y))
    if math.isnan(a) or math.isnan(b):
        known = [None if math.isnan(value) else value for value in (a, b)]
        return CorrelationDifference(kind, n, known[0], None, known[1], *([None] * 5))
    drawn = np.random.default_rng(n).integers(0, n, (_SAMPLES, n))
    samples = [correlate_ranks(kind, one[drawn], z[drawn]) for one in (x, y)]
    return CorrelationDifference(
        kind,
        n,
        a,
        None if _is_perfect(a) else _percentiles(samples[0], confidence),
        b,
        None if _is_perfect(b) else _percentiles(samples[1], confidence),
        b - a,
        _percentiles(samples[1] - samples[0], confidence),
        _permutation_p(kind, x, y, z, b - a),
        _meng_p(a, b, float(correlate_ranks(kind, x, y)), n) if kind == "spearman" else None,
    )


def fieller_interval(kind: str, models: int, value: float, *, confidence: float = 0.95) -> Interval:
    """Return the interval of a rank correlation of which nothing but the value is known.

    Args:
        kind: one of `RANK_CORRELATIONS`.
        models: how many it counts; Fieller, Hartley and Pearson's variances hold from 10 on.
        value: above -1 and below 1.
        confidence: the level.
    """
    factor, lost = _FIELLER[kind]
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(factor / (models - lost))
    middle = math.atanh(value)
    return Interval(math.tanh(middle - reach), math.tanh(middle + reach))


def _is_perfect(value: float) -> bool:
    return abs(value) > 1 - _CLOSE


def _percentiles(samples: Floats, confidence: float) -> Interval:
    """Return the interval; samples in which all models have one value have no correlation."""
    tail = 50 * (1 - confidence)
    low, high = np.nanpercentile(samples, [tail, 100 - tail])
    return Interval(float(low), float(high))


def _permutation_p(kind: str, x: Floats, y: Floats, z: Floats, observed: float) -> float:
    from scipy.stats import rankdata

    n = len(z)
    ranks = rankdata([x, y], axis=1)
    if n <= _MOST_COUNTED:
        swapped = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    else:
        swapped = np.random.default_rng(n).random((_SAMPLES, n)) < 0.5
        swapped[0] = False  # What was observed is one of the ways.
    one, other = np.where(swapped, *ranks[::-1]), np.where(swapped, *ranks)
    found = correlate_ranks(kind, other, z) - correlate_ranks(kind, one, z)
    return float((np.abs(found[~np.isnan(found)]) >= abs(observed) - _CLOSE).mean())


def _meng_p(a: float, b: float, between: float, n: int) -> float | None:
    if _is_perfect(a) or _is_perfect(b):
        return None
    if between > 1 - _CLOSE:
        return 1.0
    mean_square = (a * a + b * b) / 2
    f = min(1.0, (1 - between) / (2 * (1 - mean_square)))
    h = (1 - f * mean_square) / (1 - mean_square)
    factor, lost = _FIELLER["spearman"]
    variance = 2 * (1 - between) * h * factor / (n - lost)
    return math.erfc(abs(math.atanh(b) - math.atanh(a)) / math.sqrt(2 * variance))
