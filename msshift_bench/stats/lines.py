"""Lines and rank correlations of the losses of groups: slopes, intervals, predictions.

One point is one group. A group is one observation, however many queries it has: tests have the
number of groups minus 2 degrees of freedom. A mixed model with a random effect of the group has the
same degrees of freedom (Pinheiro and Bates, Mixed-Effects Models in S and S-PLUS, 2000, section
2.4.2). For groups of equal weight, the tests are equal.

A seed's effect on all models moves the line, not its slope. A seed's effect on one model moves that
model's held-out group, and is part of the scatter about the line. The test therefore counts seeds
even with one seed per model.

Inside the groups, each group has a slope over its queries, and the groups' slopes are the sample
(the summary-measures analysis; Frison and Pocock, Statistics in Medicine 11, 1992). A test over all
queries would count thousands of queries of five groups as independent.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import DataError, UsageError, check_name
from msshift_bench.stats.estimates import NOTHING, Part, Uncertainty, half_width

FEWEST_GROUPS = 3
"""A line through fewer points fits exactly and leaves no degrees of freedom."""

RANK_CORRELATIONS = ("spearman", "kendall")
"""The kinds of rank correlation."""

_ROUNDING = 1e-12
"""Differences up to this, relative to the values, are rounding."""
_EXACT = 1e-14
"""A line with at most this share of unexplained variance fits exactly."""
_MOST_ORDERS = 8
"""Largest number of groups for an exact test over all orders: 8! = 40,320."""


class Slope(NamedTuple):
    """A slope with its standard error.

    Attributes:
        value: the change of Rel Loss, a fraction, per unit of the indicator.
        error: its standard error; 0 if nothing scatters.
        df: the degrees of freedom of the error.
    """

    value: float
    error: float
    df: int

    def uncertainty(self) -> Uncertainty:
        """Return the error of the slope, which is distributed as Student's t."""
        return Uncertainty(Part(self.error, self.df), seeds=0)


class Line(NamedTuple):
    """Rel Loss = intercept + slope * similarity, by least squares.

    Attributes:
        similarities: the fitted similarities, one per group.
        slope: its slope.
        intercept: the fitted Rel Loss at a similarity of 0.
        r_squared: the share of the losses' variance that the line explains, 0 to 1; `None` if all
            losses are equal.
    """

    similarities: tuple[float, ...]
    slope: Slope
    intercept: float
    r_squared: float | None

    @property
    def groups(self) -> int:
        """The number of points."""
        return len(self.similarities)

    def at(self, similarity: ArrayLike) -> Floats:
        """Return the fitted Rel Loss at one similarity or several, in their shape."""
        return np.asarray(self.intercept + self.slope.value * np.asarray(similarity))

    def interval(
        self, similarity: ArrayLike, confidence: float = 0.95, *, of_a_group: bool = False
    ) -> tuple[Floats, Floats]:
        """Return the low and high ends of the line's confidence intervals, shaped as `similarity`.

        Args:
            similarity: one similarity or several.
            confidence: the level of the interval, strictly between 0 and 1.
            of_a_group: return the prediction interval instead, for the loss of one more group. It
                assumes the same scatter about the line, a similar number of test queries and the
                same training.
        """
        spread = self.groups * float(np.var(self.similarities))
        distances = np.asarray(similarity) - np.mean(self.similarities)
        variance = of_a_group + 1 / self.groups + distances**2 / spread
        deviation = Part(self.slope.error * math.sqrt(spread), self.slope.df)
        half = half_width(confidence, deviation, NOTHING) * np.sqrt(variance)
        return self.at(similarity) - half, self.at(similarity) + half


def fit_line(similarities: ArrayLike, rel_losses: ArrayLike) -> Line:
    """Return the least-squares line; if all losses are equal, a flat line without error.

    Args:
        similarities: one per group, ``[groups]``.
        rel_losses: the groups' Rel Losses, fractions, ``[groups]``.

    Raises:
        UsageError: if the two differ in shape, or a number is not finite.
        DataError: if there are fewer than `FEWEST_GROUPS` groups, or all are equally similar.
    """
    x, y = _points(similarities, rel_losses)
    if len(x) < FEWEST_GROUPS:
        raise DataError(
            f"a link needs at least {FEWEST_GROUPS} groups with a loss, got {len(x)}: a "
            "line through two points always fits; take a shift with more groups, or several shifts"
        )
    if _is_flat(x):
        raise DataError(
            f"all {len(x)} groups are equally similar ({x[0]:.4g}), so that nothing can depend on "
            "it; take another indicator, or a shift with other groups"
        )
    if _is_flat(y):
        return Line(tuple(x.tolist()), Slope(0.0, 0.0, len(x) - 2), float(y.mean()), None)
    from scipy.stats import linregress

    fitted = linregress(x, y)
    r_squared, error = float(fitted.rvalue) ** 2, float(fitted.stderr)
    if 1 - r_squared <= _EXACT:
        r_squared, error = 1.0, 0.0
    slope = Slope(float(fitted.slope), error, len(x) - 2)
    return Line(tuple(x.tolist()), slope, float(fitted.intercept), r_squared)


def fit_parallel_lines(
    similarities: ArrayLike, rel_losses: ArrayLike, shifts: Sequence[str]
) -> Slope | None:
    """Return one slope for the groups of several shifts; each shift has its own intercept.

    So other differences between the shifts do not count.

    Args:
        similarities: one per group, ``[groups]``.
        rel_losses: ``[groups]``.
        shifts: the shift of each group, ``[groups]``.

    Returns:
        The slope; `None` with fewer than shifts + 2 groups, or if similarity varies in no shift.

    Raises:
        UsageError: as in `fit_line`.
    """
    x, y = _points(similarities, rel_losses)
    names = dict.fromkeys(shifts)
    for name in names:
        groups = np.array([shift == name for shift in shifts])
        x[groups], y[groups] = _centred(x[groups]), _centred(y[groups])
    df = len(x) - len(names) - 1
    if df < 1 or not x.any():
        return None
    line = fit_line(x, y)
    # The line counts one intercept; here each shift has one.
    return Slope(line.slope.value, line.slope.error * math.sqrt((len(x) - 2) / df), df)


def slope_inside_groups(
    losses: Mapping[str, Floats], indicator: Mapping[str, Floats]
) -> Slope | None:
    """Return the slope of queries' losses over an indicator inside the groups.

    Args:
        losses: group -> each query's loss, mean over seeds, in units of Avg In, ``[queries]``.
        indicator: group of `losses` -> the values of the same queries, ``[queries]``.

    Returns:
        The mean of the groups' slopes with its error; `None` if the indicator varies in fewer than
        `FEWEST_GROUPS` groups.
    """
    centred = [(_centred(indicator[group]), _centred(loss)) for group, loss in losses.items()]
    slopes = [float(x @ y) / float(x @ x) for x, y in centred if x.any()]
    if len(slopes) < FEWEST_GROUPS:
        return None
    error = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes))
    return Slope(float(np.mean(slopes)), error, len(slopes) - 1)


def rank_correlation(
    kind: str, similarities: ArrayLike, rel_losses: ArrayLike
) -> tuple[float, float] | tuple[None, None]:
    """Return the rank correlation of groups' similarities and losses.

    Args:
        kind: one of `RANK_CORRELATIONS`.
        similarities: one per group, ``[groups]``.
        rel_losses: ``[groups]``, on any scale.

    Returns:
        The correlation, from -1 to 1, and the two-sided p-value of "no correlation", exact up to 8
        groups; both `None` if all similarities or all losses are equal.

    Raises:
        UnknownNameError: for another kind.
        UsageError: as in `fit_line`.
        DataError: if there are fewer than `FEWEST_GROUPS` groups.
    """
    x, y = _points(similarities, rel_losses)
    if len(x) < FEWEST_GROUPS:
        raise DataError(
            f"a rank correlation needs at least {FEWEST_GROUPS} groups, and there are {len(x)}"
        )
    value = float(correlate_ranks(kind, x, y))
    if math.isnan(value):
        return None, None
    if len(x) > _MOST_ORDERS:
        from scipy.stats import kendalltau, spearmanr

        return value, float({"spearman": spearmanr, "kendall": kendalltau}[kind](x, y).pvalue)
    # An exact test over all orders of the groups, also with ties or few groups.
    strengths = np.abs(correlate_ranks(kind, x[_orders(len(x))], y))
    # Values that are less only by rounding count as equal, as in scipy.stats.permutation_test.
    least = abs(value) * (1 - 100 * np.finfo(np.float64).eps)
    return value, float(np.mean(strengths >= least))


@functools.lru_cache(maxsize=8)
def _orders(size: int) -> Ints:
    """Return all permutations of ``range(size)``, ``[orders, size]``."""
    return np.array(list(itertools.permutations(range(size))))


def correlate_ranks(kind: str, x: Floats, y: Floats) -> Floats:
    """Return rank correlations along the last axis; NaN where all values of `x` or `y` are equal.

    Args:
        kind: one of `RANK_CORRELATIONS`; Kendall's is tau-b.
        x: values, with or without ties.
        y: values, of a shape that broadcasts with `x`.

    Raises:
        UnknownNameError: for another kind.
    """
    check_name("rank correlation", kind, RANK_CORRELATIONS)
    x, y = _scores_of_ranks(kind, x), _scores_of_ranks(kind, y)
    with np.errstate(invalid="ignore"):
        cosines = (x * y).sum(axis=-1) / np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.asarray(np.clip(cosines, -1, 1))


def _scores_of_ranks(kind: str, values: Floats) -> Floats:
    """Return centred ranks, or pairwise orders; the rank correlation is their cosine."""
    if kind == "kendall":
        first, second = np.triu_indices(np.shape(values)[-1], 1)
        return np.asarray(np.sign(values[..., first] - values[..., second]))
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=-1)
    return np.asarray(ranks - ranks.mean(axis=-1, keepdims=True))


def _points(similarities: ArrayLike, rel_losses: ArrayLike) -> tuple[Floats, Floats]:
    x, y = (np.array(values, dtype=np.float64) for values in (similarities, rel_losses))
    if x.ndim != 1 or x.shape != y.shape:
        raise UsageError(f"one similarity per Rel Loss was expected; got {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UsageError("a line takes finite similarities and Rel Losses; one of them is not")
    return x, y


def _is_flat(values: Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _centred(values: Floats) -> Floats:
    """Return values minus their mean; zeros if they differ only by rounding."""
    return np.zeros_like(values) if _is_flat(values) else np.asarray(values - values.mean())
