"""Corrections for many tests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.errors import UnknownNameError, UsageError

__all__ = [
    "CORRECTIONS",
    "SIGNIFICANT",
    "adjust",
    "benjamini_hochberg",
    "bonferroni",
    "holm",
]

_Test = TypeVar("_Test", bound=Hashable)

SIGNIFICANT = 0.05
"""A loss or a difference is significant if its corrected p-value is at most this."""


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


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Multiply p-values by their number: as valid as `holm`, and never stronger.

    Args:
        p_values: the p-values of one family of tests, each from 0 to 1, in any order.

    Raises:
        UsageError: if a p-value is not a number from 0 to 1.
    """
    return [min(1.0, float(p) * len(p_values)) for p in _checked(p_values)]


def _in_given_order(p: Floats, order: NDArray[np.intp]) -> list[float]:
    """Return adjusted p-values, at most 1, in the order that `order` was made from."""
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(p, 1)
    return [float(value) for value in adjusted]


CORRECTIONS: Mapping[str, Callable[[Sequence[float]], list[float]]] = MappingProxyType(
    {"holm": holm, "benjamini-hochberg": benjamini_hochberg, "bonferroni": bonferroni}
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
    defined = {name: p for name, p in p_values.items() if p is not None}
    return dict(zip(defined, CORRECTIONS[correction](list(defined.values())), strict=True))
