"""Does the loss of queries change with an indicator of queries, inside the groups?

Each group has its own slope, by least squares over its queries, and the groups' slopes are the
sample: Student's t of their mean has the number of groups minus 1 degrees of freedom (the
summary-measures analysis; Frison and Pocock, Statistics in Medicine 11, 1992). That is what a mixed
model with a random slope per group tests, where groups weigh alike. A test over all queries would
count thousands of queries of five groups as independent witnesses.

At equal difficulty: the slope is taken within fifths of a control, such as BM25's score of the
query, so that only queries that are about as difficult are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.stats import Interval

__all__ = ["ALIKE", "STRATA", "SlopeTest", "difficulty_strata", "slope_test"]

ALIKE = 1e-12
"""Differences of losses up to this, in units of Avg In, are rounding."""

STRATA = 5
"""Into how many parts of about equal size a control cuts the queries of a group."""


@dataclass(frozen=True, slots=True)
class SlopeTest:
    """The mean over groups of a slope within each of them, and its test.

    Attributes:
        slopes: group -> change of Rel Loss, a fraction, per 1 of the indicator; without groups
            whose queries are all alike.
        slope: their mean.
        interval: its confidence interval.
        p: two-sided p-value of "the mean slope is 0"; `None` if all slopes are the same.
        df: the number of slopes minus 1.
    """

    slopes: Mapping[str, float]
    slope: float
    interval: Interval
    p: float | None
    df: int


def difficulty_strata(control: Floats) -> Ints:
    """Return the part that each query falls in, ``[queries]``, from 0 to at most `STRATA` - 1.

    Queries of the same difficulty are in the same part, so that parts may differ in size.

    Args:
        control: the difficulty of each query of a group, ``[queries]``.
    """
    edges = np.unique(np.quantile(control, np.arange(1, STRATA) / STRATA))
    return np.searchsorted(edges, control, side="right").astype(np.int64)


def slope_test(
    losses: Mapping[str, Floats],
    indicator: Mapping[str, Floats],
    control: Mapping[str, Floats] | None = None,
    *,
    confidence: float = 0.95,
) -> SlopeTest | None:
    """Test whether losses change with an indicator inside the groups.

    Args:
        losses: group -> each query's loss, mean over seeds, in units of Avg In, ``[queries]``.
        indicator: group -> the indicator's values, ``[queries]``.
        control: group -> each query's difficulty, ``[queries]``; only queries of about the same
            difficulty are then compared.
        confidence: the level of the interval.

    Returns:
        The test; `None` if fewer than 3 groups have a slope.
    """
    from scipy.special import stdtr, stdtrit

    slopes = {}
    for group, loss in losses.items():
        strata = None if control is None else difficulty_strata(control[group])
        x, y = _centred(indicator[group], strata), _centred(loss, strata)
        y[np.abs(y) <= ALIKE] = 0.0
        spread = float(x @ x)
        if spread > 1e-12 * float(np.square(indicator[group]).sum()):
            slopes[group] = float(x @ y) / spread
    count = len(slopes)
    if count < 3:
        return None
    values = np.array(list(slopes.values()))
    slope, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count)
    half = -float(stdtrit(count - 1, (1 - confidence) / 2)) * error
    p = float(2 * stdtr(count - 1, -abs(slope / error))) if error else None
    return SlopeTest(slopes, slope, Interval(slope - half, slope + half), p, count - 1)


def _centred(values: Floats, strata: Ints | None) -> Floats:
    """Return values minus their mean, or minus the mean of their stratum."""
    if strata is None:
        return np.asarray(values - values.mean())
    counts = np.maximum(np.bincount(strata), 1)
    return np.asarray(values - (np.bincount(strata, values) / counts)[strata])
