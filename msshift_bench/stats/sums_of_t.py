"""The distribution of a T + b U, where T and U are independent and Student-t distributed.

An error with two sources whose variances are estimated separately has this distribution, called
Behrens-Fisher (Fisher, Annals of Eugenics 6, 1935; tables in Fisher and Yates 1938). Probabilities
are integrals over the quantiles of the part that is less likely to lie so far out by itself, by
tanh-sinh quadrature (Takahasi and Mori 1974), which resolves heavy tails.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats

__all__ = ["Part", "half_width", "two_sided_p"]


_STEPS = 64
_REACH = 4


class Part(NamedTuple):
    """One Student-t distributed part of a sum.

    Attributes:
        scale: its standard error, at least 0.
        df: its degrees of freedom, above 0.
    """

    scale: float
    df: float


@lru_cache(maxsize=64)
def _quadrature(df: float) -> tuple[Floats, Floats]:
    """Return quantiles of the lower half of a t distribution, and weights that sum to a half."""
    from scipy.special import expit, stdtrit

    steps = np.arange(-_REACH * _STEPS, 1) / _STEPS
    chances = expit(np.pi * np.sinh(steps))
    weights = np.pi * np.cosh(steps) * chances * (1 - chances) / _STEPS
    weights[-1] /= 2
    return stdtrit(df, chances), weights


def _reach(part: Part, tail: float) -> float:
    """Return the distance beyond which a part lies, on one side, with the chance `tail`."""
    from scipy.special import stdtrit

    return float(-part.scale * stdtrit(part.df, tail)) if part.scale else 0.0


def two_sided_p(distance: float, first: Part, second: Part) -> float:
    """Return the chance that the sum of two parts lies at least `distance` from 0.

    Args:
        distance: at least 0.
        first: one part, of a scale above 0 unless the other has one.
        second: the other.

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


def half_width(confidence: float, first: Part, second: Part) -> float:
    """Return the distance from 0 within which the sum lies with the chance `confidence`.

    Args:
        confidence: strictly between 0 and 1.
        first: one part.
        second: the other.
    """
    tail = (1 - confidence) / 2
    reaches = _reach(first, tail), _reach(second, tail)
    low, high = max(reaches), sum(reaches)
    if low == high:
        return low
    while two_sided_p(high, first, second) > 2 * tail:
        low, high = high, 2 * high
    # False position after Illinois (Dowell and Jarratt, BIT 11, 1971): scipy.optimize has better
    # methods, but importing it takes longer than finding all intervals of a report.
    below, above = (two_sided_p(end, first, second) - 2 * tail for end in (low, high))
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
