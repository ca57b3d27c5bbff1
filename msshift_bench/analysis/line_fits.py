"""A straight line through the losses of groups: its slope, how sure it is, and what it predicts.

One point is one group. However many queries a group has, it is one witness for or against a link,
so that everything here rests on the number of groups minus 2 degrees of freedom. In a mixed model
with a random effect of the group, an indicator that is the same for all queries of a group is
tested on these degrees of freedom, too (Pinheiro and Bates, Mixed-Effects Models in S and S-PLUS,
2000, section 2.4.2); for groups that weigh alike, that test is this one.

What a seed does to all models alike moves the line, not its slope. What it does to one model moves
the group that the model never saw against all others alike, so that it is part of the scatter about
the line. The test therefore counts seeds even where there is one per model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UsageError
from msshift_bench.stats import Interval

__all__ = [
    "FEWEST_GROUPS",
    "FittedLine",
    "LineBand",
    "ParallelLines",
    "fit_line",
    "fit_parallel_lines",
]

FEWEST_GROUPS = 3
"""A line through fewer points fits them exactly, and nothing is left to say how sure it is."""

_NOTHING = 1e-18


class LineBand(NamedTuple):
    """A fitted line at some similarities.

    Attributes:
        similarity: where, ``[points]``, ascending.
        fitted: the line there.
        low: the low end of the confidence interval of the line.
        high: its high end.
        prediction_low: the low end of the interval for the loss of one more group.
        prediction_high: its high end.
    """

    similarity: Floats
    fitted: Floats
    low: Floats
    high: Floats
    prediction_low: Floats
    prediction_high: Floats


@dataclass(frozen=True, slots=True)
class FittedLine:
    """Rel Loss = intercept + slope * similarity, by least squares.

    Attributes:
        groups: the number of points.
        slope: the change of Rel Loss, a fraction, per 1 of similarity.
        intercept: the fitted Rel Loss at a similarity of 0.
        slope_interval: the confidence interval of `slope`.
        confidence: its level, and that of every other interval of the line.
        r_squared: the share of the losses' variance that the line explains, 0 to 1; `None` if the
            losses are all the same.
        p: two-sided p-value of "the slope is 0", by Student's t; `None` if the points lie on the
            line exactly.
        df: its degrees of freedom, `groups` - 2.
        deviation: the standard deviation of points about the line.
        mean: the mean of the points' similarities.
        spread: the sum of squares of their distances from `mean`.
        lowest: the smallest similarity that the line was fitted to.
        highest: the largest.
    """

    groups: int
    slope: float
    intercept: float
    slope_interval: Interval
    confidence: float
    r_squared: float | None
    p: float | None
    df: int
    deviation: float
    mean: float
    spread: float
    lowest: float
    highest: float

    def at(self, similarity: float) -> float:
        """Return the fitted Rel Loss."""
        return self.intercept + self.slope * similarity

    def holds(self, similarity: float) -> bool:
        """Whether the line was fitted to similarities on both sides of this one."""
        return self.lowest <= similarity <= self.highest

    def interval(self, similarity: float) -> Interval:
        """Return the confidence interval of the line: of the mean of many groups that lie there."""
        return self._around(similarity, 0.0)

    def prediction(self, similarity: float) -> Interval:
        """Return the interval that holds the loss of one more group with the chance `confidence`.

        It assumes that the group scatters about the line as those do that the line was fitted to:
        about as many test queries, and models trained alike.
        """
        return self._around(similarity, 1.0)

    def band(self, points: int = 41) -> LineBand:
        """Return the line and both of its intervals, from end to end of what it was fitted to."""
        where = np.linspace(self.lowest, self.highest, points)
        within = np.array([self.interval(x) for x in where])
        beyond = np.array([self.prediction(x) for x in where])
        return LineBand(
            where,
            self.intercept + self.slope * where,
            within[:, 0],
            within[:, 1],
            beyond[:, 0],
            beyond[:, 1],
        )

    def _around(self, similarity: float, own: float) -> Interval:
        variance = own + 1 / self.groups + (similarity - self.mean) ** 2 / self.spread
        half = _quantile(self.confidence, self.df) * self.deviation * math.sqrt(variance)
        return Interval(self.at(similarity) - half, self.at(similarity) + half)


def fit_line(
    similarities: ArrayLike, rel_losses: ArrayLike, *, confidence: float = 0.95
) -> FittedLine:
    """Fit a line by least squares.

    Args:
        similarities: one per group, ``[groups]``.
        rel_losses: the groups' Rel Losses, fractions, ``[groups]``.
        confidence: the level of the intervals, strictly between 0 and 1.

    Raises:
        UsageError: if the two differ in length, or a number is not finite.
        DataError: if there are fewer than `FEWEST_GROUPS` groups, or all are equally similar.
    """
    x = np.asarray(similarities, dtype=np.float64)
    y = np.asarray(rel_losses, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise UsageError(f"one similarity per Rel Loss was expected; got {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UsageError("a line takes finite similarities and Rel Losses; one of them is not")
    n = len(x)
    if n < FEWEST_GROUPS:
        raise DataError(
            f"a link takes at least {FEWEST_GROUPS} groups with a loss, and there are {n}: a line "
            "through two points always fits; take a shift with more groups, or several shifts"
        )
    centred = x - x.mean()
    spread = float(centred @ centred)
    if spread <= (1e-12 * float(np.abs(x).max(initial=0.0))) ** 2:
        raise DataError(
            f"all {n} groups are equally similar ({x[0]:.4g}), so that nothing can depend on it; "
            "take another indicator, or a shift with other groups"
        )
    slope = float(centred @ y) / spread
    intercept = float(y.mean()) - slope * float(x.mean())
    residuals = y - intercept - slope * x
    left, total = float(residuals @ residuals), float(np.square(y - y.mean()).sum())
    rounding = (1e-12 * float(np.abs(y).max(initial=0.0))) ** 2 * n
    left, total = (one if one > rounding else 0.0 for one in (left, total))
    deviation = math.sqrt(left / (n - 2))
    error = deviation / math.sqrt(spread)
    half = _quantile(confidence, n - 2) * error
    return FittedLine(
        groups=n,
        slope=slope,
        intercept=intercept,
        slope_interval=Interval(slope - half, slope + half),
        confidence=confidence,
        r_squared=1 - left / total if total else None,
        p=_two_sided(slope / error, n - 2) if error else None,
        df=n - 2,
        deviation=deviation,
        mean=float(x.mean()),
        spread=spread,
        lowest=float(x.min()),
        highest=float(x.max()),
    )


class ParallelLines(NamedTuple):
    """Lines of one slope through the groups of several shifts, each at a height of its own.

    Attributes:
        slope: the change of Rel Loss, a fraction, per 1 of similarity.
        p: two-sided p-value of "the slope is 0"; `None` if the points lie on the lines exactly.
        df: the groups minus the shifts minus 1.
    """

    slope: float
    p: float | None
    df: int


def fit_parallel_lines(
    similarities: ArrayLike, rel_losses: ArrayLike, shifts: Sequence[str]
) -> ParallelLines | None:
    """Fit one slope within shifts, so that what else differs between shifts does not count.

    Args:
        similarities: one per group, ``[groups]``.
        rel_losses: ``[groups]``.
        shifts: the shift of each group, ``[groups]``.

    Returns:
        The lines; `None` if there are too few groups, or similarity does not vary within a shift.
    """
    x, y = (np.array(values, dtype=np.float64) for values in (similarities, rel_losses))
    names = dict.fromkeys(shifts)
    for name in names:
        own = np.array([shift == name for shift in shifts])
        x[own] -= x[own].mean()
        y[own] -= y[own].mean()
    df = len(x) - len(names) - 1
    spread = float(x @ x)
    if df < 1 or spread <= _NOTHING:
        return None
    slope = float(x @ y) / spread
    error = math.sqrt(float(np.square(y - slope * x).sum()) / df / spread)
    return ParallelLines(slope, _two_sided(slope / error, df) if error > _NOTHING else None, df)


def _quantile(confidence: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(-stdtrit(df, (1 - confidence) / 2))


def _two_sided(t: float, df: int) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(t)))
