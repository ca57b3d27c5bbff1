r"""Estimates: figures with the contributions of every seed and query.

Avg In and Out are means of scores. Arithmetic on them (a Rel Loss, a mean over groups, a difference
of systems) gives, to first order, a mean of contributions too (the delta method). So one rule gives
every interval and every p-value.

With random effects of seeds s and queries q, and noise (Searle, Casella and McCulloch 1992,
chapter 4), a contribution is

    L[s, q] = seed effect a[s] + query effect b[q] + noise e[s, q],

and the variance of the mean over S seeds and Q queries is the sum of

- the queries' part, (MSQ - MSE) / (S Q), but at least 0, and
- the seeds' part, noise included, MSS / (S Q) = var(mean of seed s) / S,

where MSQ, MSS and MSE are the mean squares of queries, seeds and noise. The first has about Q - 1
degrees of freedom, the second S - 1. So the error is distributed as a sum of two scaled t
variables. If two or three seeds agree by chance, MSE can exceed MSS. The sum for other seeds *and*
queries would then be smaller than the variance for other queries and the same models. Therefore no
interval is narrower, and no p-value smaller, than with fixed models: MSQ / (S Q), Student's t on
about Q - 1 degrees of freedom (the floor). A p-value is at most 0.05 exactly if the 95% interval
excludes 0. With a single seed, intervals and p-values count queries only, and are labelled so.

Such a sum a T + b U of independent variables is called Behrens-Fisher (Fisher, Annals of Eugenics
6, 1935; tables in Fisher and Yates 1938). Its probabilities are integrals over the quantiles of the
part that is less likely to exceed the limit alone. The quadrature is tanh-sinh (Takahasi and Mori
1974), which resolves heavy tails.

``benchmarks/coverage_simulation.py`` measures the coverage of intervals and the error rates of
tests; docs/statistics.md has the table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError

FIXED = ""
"""The training of a ranking without seeds, such as BM25's."""

ROUNDING = 1e-12
"""Differences smaller than this, relative to the largest term, are rounding and count as 0."""

QUERIES_ONLY = "queries only"
QUERIES_AND_SEEDS = "queries and seeds"
GROUPS = "groups"
"""Source counted for the slope of a line through groups: seeds are part of their scatter."""


class Part(NamedTuple):
    """One Student-t distributed part of a sum.

    Attributes:
        scale: its standard error, at least 0.
        df: its degrees of freedom, above 0.
    """

    scale: float
    df: float


NOTHING = Part(0.0, 1.0)
"""A part with no contribution to an error."""

_STEPS = 64
"""Nodes of a quadrature per unit of the transformed scale."""

_REACH = 4
"""Left end of a quadrature, on the transformed scale."""

Source = tuple[str, str]
"""(training, sample of queries); each varies independently of the others."""


@functools.lru_cache(maxsize=64)
def _quadrature(df: float) -> tuple[Floats, Floats]:
    """Return quantiles of the lower half of a t distribution, and weights that sum to a half."""
    from scipy.special import expit, stdtrit

    steps = np.arange(-_REACH * _STEPS, 1) / _STEPS
    chances = expit(np.pi * np.sinh(steps))
    weights = np.pi * np.cosh(steps) * chances * (1 - chances) / _STEPS
    weights[-1] /= 2
    return stdtrit(df, chances), weights


@functools.lru_cache(maxsize=256)
def _quantile(df: float, chance: float) -> float:
    """Return the quantile of a t distribution at the probability `chance`."""
    from scipy.special import stdtrit

    return float(stdtrit(df, chance))


def two_sided_p(distance: float, first: Part, second: Part) -> float:
    """Return the probability that the sum of two parts is at least `distance` from 0.

    Args:
        distance: at least 0.
        first: one part, of a scale above 0 unless the other part has one.
        second: the other part.

    Returns:
        From 0 to 1: above 0.01 to 8 digits, below to 2% of itself.
    """
    from scipy.special import stdtr

    def alone(part: Part) -> float:
        return float(2 * stdtr(part.df, -distance / part.scale)) if part.scale else 0.0

    wide, narrow = (first, second) if alone(first) >= alone(second) else (second, first)
    if not narrow.scale:
        return alone(wide)
    quantiles, weights = _quadrature(narrow.df)
    beyond = stdtr(wide.df, (-distance + narrow.scale * quantiles) / wide.scale)
    beyond += stdtr(wide.df, (-distance - narrow.scale * quantiles) / wide.scale)
    return min(1.0, float(2 * weights @ beyond))


# Two of three calls of a report repeat earlier arguments, for a table and then a picture.
@functools.lru_cache(maxsize=4096)
def half_width(confidence: float, first: Part, second: Part) -> float:
    """Return the distance from 0 that the sum of two parts stays within; 0 if both scales are 0.

    Args:
        confidence: the probability to stay within, strictly between 0 and 1.
        first: one part.
        second: the other part.
    """
    tail = (1 - confidence) / 2
    # One-sided quantile of each part alone.
    reaches = [-part.scale * _quantile(part.df, tail) for part in (first, second) if part.scale]
    low, high = max(reaches, default=0.0), sum(reaches)
    if low == high:
        return low
    above = two_sided_p(high, first, second) - 2 * tail
    while above > 0:
        low, high = high, 2 * high
        above = two_sided_p(high, first, second) - 2 * tail
    below = two_sided_p(low, first, second) - 2 * tail
    # False position after Illinois (Dowell and Jarratt, BIT 11, 1971): scipy.optimize has better
    # methods, but importing it takes longer than finding all intervals of a report.
    moved_low = None
    while below > 0 > above:
        middle = high - above * (high - low) / (above - below)
        if not low < middle < high:
            break
        excess = two_sided_p(middle, first, second) - 2 * tail
        if excess > 0:
            low, below, above = middle, excess, above / 2 if moved_low is True else above
        else:
            high, above, below = middle, excess, below / 2 if moved_low is False else below
        moved_low = excess > 0
    return low if below == 0 else high


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The error of an estimate, by its source.

    Attributes:
        queries: the part from the choice of queries.
        trained: the part from the seeds of training, noise included; scale 0 for a single seed.
        seeds: the number of seeds that count; 1 for fixed models; 0 if groups are the sample, and
            `queries` includes all sources.
        noise: the standard error of the noise of these models, which `queries` does not include.
    """

    queries: Part
    trained: Part = NOTHING
    seeds: int = 1
    noise: float = 0.0

    @property
    def fixed(self) -> Part:
        """The error of the value with fixed models: a lower limit for intervals."""
        return Part(math.hypot(self.queries.scale, self.noise), self.queries.df)

    @property
    def counts(self) -> str:
        """The sources that count: `QUERIES_ONLY`, `QUERIES_AND_SEEDS` or `GROUPS`."""
        return (GROUPS, QUERIES_ONLY, QUERIES_AND_SEEDS)[min(self.seeds, 2)]

    @property
    def seed_share(self) -> float | None:
        """The share of the variance from seeds, 0 to 1; `None` below 2 seeds or without variance.

        The variance is at least the variance with fixed models, so that seeds that agree by chance
        have a small share.
        """
        total = max(self.queries.scale**2 + self.trained.scale**2, self.fixed.scale**2)
        return self.trained.scale**2 / total if self.seeds > 1 and total else None

    def half_width(self, confidence: float) -> float:
        """Return half the width of the interval of an estimate; 0 if nothing varies."""
        return max(
            half_width(confidence, self.fixed, NOTHING),
            half_width(confidence, self.queries, self.trained),
        )

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Return the ends (low, high) of the confidence interval, symmetric about `value`."""
        half = self.half_width(confidence)
        return value - half, value + half

    def p_value(self, value: float) -> float | None:
        """Return the two-sided p-value of "the estimate is 0", from 0 to 1.

        If nothing varies, it is 1 for an estimate within `ROUNDING` of 0, else `None`.
        """
        if not (self.queries.scale or self.trained.scale):
            return 1.0 if abs(value) <= ROUNDING else None
        p = two_sided_p(abs(value), self.queries, self.trained)
        return max(p, two_sided_p(abs(value), self.fixed, NOTHING)) if self.fixed.scale else p


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate:
    """A value with the contributions of seeds and queries.

    Sums, differences, multiples and ratios of estimates are estimates::

        >>> scores = np.array([[1.0, 0.5, 0.0, 0.5], [0.5, 0.5, 0.0, 1.0]])
        >>> inside = Estimate.mean(scores + 0.1, "bi-encoder", "short")
        >>> out = Estimate.mean(scores, "bi-encoder", "short")
        >>> (inside - out) / inside
        <Estimate: 0.1667, bi-encoder on short>

    Attributes:
        value: the value; NaN for the mean over no query.
        parts: source -> contributions, ``[seeds, queries]``.
        scale: the largest term that a contribution was computed from.
    """

    value: float
    parts: Mapping[Source, Floats]
    scale: float

    def __repr__(self) -> str:
        sources = ", ".join(f"{training or 'fixed'} on {sample}" for training, sample in self.parts)
        return f"<Estimate: {self.value:.4f}, {sources}>"

    @classmethod
    def mean(
        cls, scores: Floats, training: str, sample: str, is_kept: NDArray[np.bool_] | None = None
    ) -> Estimate:
        """Return the estimate of the mean of scores; the mean of each seed is exactly rounded.

        To first order, the contribution of a query to a mean over a kept share of queries is mean +
        [query is kept] / share * (score - mean) (linearised ratio; Cochran 1977, "Sampling
        Techniques", section 2.11). Being kept is a property of the query.

        Args:
            scores: ``[seeds, queries]``.
            training: name of the training that the seeds repeat; `FIXED` for a ranking without
                seeds.
            sample: name of the sample of queries.
            is_kept: mask of the queries to average over, ``[queries]``, at least one; by default
                all.

        Raises:
            UsageError: if a score is not finite.
        """
        if not np.isfinite(scores).all():
            raise UsageError("scores must be finite; replace scores of missing queries first")
        largest = float(np.abs(scores).max(initial=0.0))
        if is_kept is not None:
            of_kept = scores[:, is_kept].mean(axis=1, keepdims=True)
            share = float(is_kept.mean())
            scores = of_kept + np.where(is_kept, (scores - of_kept) / share, 0.0)
            largest /= share
        per_seed = [math.fsum(row) / len(row) if len(row) else math.nan for row in scores]
        return cls(float(np.mean(per_seed)), {(training, sample): scores}, largest)

    def __add__(self, term: Estimate) -> Estimate:
        return _combined(self.value + term.value, [(1.0, self), (1.0, term)])

    def __sub__(self, term: Estimate) -> Estimate:
        return _combined(self.value - term.value, [(1.0, self), (-1.0, term)])

    def __rmul__(self, factor: float) -> Estimate:
        return _combined(factor * self.value, [(factor, self)])

    def __truediv__(self, divisor: Estimate) -> Estimate | None:
        """Return the ratio; `None` if the divisor is 0 or NaN."""
        if not divisor.value or math.isnan(divisor.value):
            return None
        ratio = self.value / divisor.value
        return _combined(ratio, [(1 / divisor.value, self), (-ratio / divisor.value, divisor)])

    def with_models_fixed(self) -> Estimate:
        """Return the same value for exactly these models: seeds are averaged and do not vary."""
        samples: dict[Source, Floats] = {}
        for (_, sample), part in self.parts.items():
            source = FIXED, sample
            samples[source] = samples.get(source, 0.0) + part.mean(axis=0, keepdims=True)
        return Estimate(self.value, samples, self.scale)

    def uncertainty(self) -> Uncertainty | None:
        """Return the error of the value; `None` if any sample has fewer than 2 queries."""
        sizes = {sample: part.shape[1] for (_, sample), part in self.parts.items()}
        if min(sizes.values(), default=0) < 2:
            return None
        samples: dict[str, Floats] = {}
        trainings: dict[str, Floats] = {}
        noise = 0.0
        for (training, sample), part in self.parts.items():
            samples[sample] = samples.get(sample, 0.0) + part.mean(axis=0)
            if training != FIXED:
                trainings[training] = trainings.get(training, 0.0) + part.mean(axis=1)
                noise += _noise(part)
        per_seed = functools.reduce(_paired, trainings.values()) if trainings else np.zeros(1)
        seeds = len(per_seed)
        variance = math.fsum(float(part.var(ddof=1)) / len(part) for part in samples.values())
        df = sum(sizes.values()) - len(sizes)
        fixed = self._part(variance, df)
        if seeds == 1:
            return Uncertainty(fixed)
        queries = self._part(variance - noise, df)
        return Uncertainty(
            queries,
            self._part(float(per_seed.var(ddof=1)) / seeds, seeds - 1),
            seeds,
            math.sqrt(max(0.0, fixed.scale**2 - queries.scale**2)),
        )

    def _part(self, variance: float, df: int) -> Part:
        """Return a part of the error, with scale 0 if its variance is only rounding."""
        is_rounding = variance <= (ROUNDING * self.scale) ** 2
        return Part(0.0 if is_rounding else math.sqrt(variance), float(df))


def average(estimates: Iterable[Estimate | None]) -> Estimate | None:
    """Return the mean of estimates; `None` if any is `None`, or without estimates."""
    terms = list(estimates)
    known = [term for term in terms if term is not None]
    if not known or len(known) < len(terms):
        return None
    return _combined(
        math.fsum(term.value for term in known) / len(known),
        [(1 / len(known), term) for term in known],
    )


@overload
def rel_loss(inside: Estimate, out: Estimate, sign: int = ...) -> Estimate | None: ...
@overload
def rel_loss(inside: float, out: float, sign: int = ...) -> float: ...
@overload
def rel_loss(inside: Floats, out: Floats, sign: int = ..., *, of: float) -> Floats: ...
def rel_loss(inside: Any, out: Any, sign: int = 1, *, of: float | None = None) -> Any:
    """Return sign * (inside - out) / inside; for estimates `None` if `inside` is 0 or NaN.

    Args:
        inside: the in-domain score, e.g. Avg In: an estimate, a number, or scores of queries.
        out: the held-out score, e.g. Out, of the same type.
        sign: -1 where lower is better, so that a positive result is always worse.
        of: for scores of queries: the divisor, e.g. their Avg In.

    Raises:
        ZeroDivisionError: for numbers, if `inside` is 0.
    """
    return (float(sign) * (inside - out)) / (inside if of is None else of)


def _combined(value: float, weights: Sequence[tuple[float, Estimate]]) -> Estimate:
    parts: dict[Source, Floats] = {}
    for weight, term in weights:
        for source, part in term.parts.items():
            parts[source] = parts.get(source, 0.0) + weight * part
    return Estimate(value, parts, max(abs(weight) * term.scale for weight, term in weights))


def _noise(part: Floats) -> float:
    """Return MSE / (seeds * queries): the noise part of the variance of a mean."""
    seeds, queries = part.shape
    if seeds < 2 or queries < 2:
        return 0.0
    residuals = part - part.mean(axis=0) - part.mean(axis=1)[:, None] + part.mean()
    return float(np.square(residuals).sum() / (((seeds - 1) * (queries - 1)) * seeds * queries))


def _paired(first: Floats, second: Floats) -> Floats:
    """Return the sums of contributions of two independent trainings, seed by seed.

    The variance of the sums is estimated without assuming equal variances (Scheffé, Annals of
    Mathematical Statistics 14, 1943, equation 15). The t distribution is exact, with one degree of
    freedom less than the smaller number of seeds.
    """
    if len(first) > len(second):
        first, second = second, first
    used = second[: len(first)]
    ratio = math.sqrt(len(first) / len(second))
    return np.asarray(first + ratio * (used - used.mean()) + second.mean())
