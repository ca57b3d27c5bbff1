"""The paper's paired t-test with its effect size, and corrections for many tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats.estimates import ROUNDING

__all__ = [
    "CORRECTIONS",
    "SIGNIFICANT",
    "PairedTests",
    "adjust",
    "benjamini_hochberg",
    "holm",
    "paired_tests",
]

_Test = TypeVar("_Test", bound=Hashable)

SIGNIFICANT = 0.05
"""A loss or a difference is significant if its corrected p-value is at most this."""


@dataclass(frozen=True, slots=True)
class PairedTests:
    """The paper's test of in-domain against held-out scores, paired by query.

    With replicates a query's scores are averaged over seeds first. So the test counts other queries
    for the same trained models; `GroupLoss.p` counts other seeds, too.

    Attributes:
        t: the paired t statistic, positive where the held-out model is worse; `None` below 2
            queries, or if all differences are equal.
        t_p: its two-sided p-value (that of ``scipy.stats.ttest_rel``); `None` where `t` is.
        d_z: the effect size, Cohen's d_z: mean paired difference / its standard deviation over
            queries (Cohen 1988, section 2.3.5; Sakai, SIGIR Forum 2014, asks for one beside every
            p-value). It is standardised by the spread of *differences*, so it is not to be read
            on the scale of Cohen's d for independent samples. `None` where `t` is.
    """

    t: float | None
    t_p: float | None
    d_z: float | None


def paired_tests(differences: Floats) -> PairedTests:
    """Test whether the mean of per-query differences is 0.

    Args:
        differences: shape ``[queries]``, in-domain minus held-out, positive where worse.
    """
    n = len(differences)
    largest = float(np.max(np.abs(differences), initial=0))
    if n < 2 or float(np.ptp(differences)) <= ROUNDING * largest:
        return PairedTests(None, None, None)
    # scipy.special holds the t distribution and loads four times faster than scipy.stats.
    from scipy.special import stdtr

    d_z = float(differences.mean() / differences.std(ddof=1))
    t = d_z * math.sqrt(n)
    return PairedTests(t, float(2 * stdtr(n - 1, -abs(t))), d_z)


def _checked(p_values: Sequence[float]) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UsageError(f"p-values are a sequence of numbers from 0 to 1, not {p_values!r}")
    return p


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false rejection stays below the level.

    The step-down procedure of Holm (Scandinavian Journal of Statistics 6, 1979): valid under any
    dependence between the tests, and never weaker than Bonferroni's.

    Args:
        p_values: the p-values of one family of tests, each from 0 to 1, in any order.

    Returns:
        The adjusted p-values in the same order; reject where one is at most the level.

    Raises:
        UsageError: if a p-value is not a number from 0 to 1.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(len(p), 0, -1)
    return _in_given_order(np.maximum.accumulate(stepped), order)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the expected share of false rejections stays below the level.

    The step-up procedure of Benjamini & Hochberg (JRSS B 57, 1995): valid for independent or
    positively dependent tests. It controls a weaker error than `holm` and rejects more.

    Args:
        p_values: the p-values of one family of tests, each from 0 to 1, in any order.

    Returns:
        The adjusted p-values in the same order; reject where one is at most the level.

    Raises:
        UsageError: if a p-value is not a number from 0 to 1.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")[::-1]
    stepped = p[order] * len(p) / np.arange(len(p), 0, -1)
    return _in_given_order(np.minimum.accumulate(stepped), order)


def _in_given_order(p: Floats, order: NDArray[np.intp]) -> list[float]:
    """Return adjusted p-values, at most 1, in the order that `order` was made from."""
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(p, 1)
    return [float(value) for value in adjusted]


CORRECTIONS: Mapping[str, Callable[[Sequence[float]], list[float]]] = MappingProxyType(
    {"holm": holm, "benjamini-hochberg": benjamini_hochberg}
)
"""The corrections for many tests, by the name that outputs show; the first is the default."""


def adjust(p_values: Mapping[_Test, float | None], correction: str) -> dict[_Test, float]:
    """Correct the p-values of one family of tests, without the tests that gave none.

    Args:
        p_values: test -> p-value, or `None` if the test could not be made.
        correction: a key of `CORRECTIONS`.

    Raises:
        UnknownNameError: if there is no such correction.
    """
    if correction not in CORRECTIONS:
        raise UnknownNameError("correction", correction, CORRECTIONS)
    made = {name: p for name, p in p_values.items() if p is not None}
    return dict(zip(made, CORRECTIONS[correction](list(made.values())), strict=True))
