"""How figures are inferred: averages, corrections for many tests, and ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UnknownNameError, UsageError

__all__ = ["AVERAGES", "CORRECTIONS", "SIGNIFICANT", "Inference", "adjust", "rank_ranges"]

_Test = TypeVar("_Test", bound=Hashable)

SIGNIFICANT = 0.05
"""A loss or a difference is significant if its corrected p-value is at most this."""

AVERAGES: Mapping[str, str] = MappingProxyType(
    {
        "macro": "the mean over groups, each counting alike",
        "pooled": "over the queries of all groups together, each query counting alike",
    }
)
"""How the groups of a shift are averaged; `Shift.average` is each shift's default."""


def _holm(p: Floats) -> Floats:
    """Adjust ascending p-values so that the chance of any false rejection stays below the level.

    The step-down procedure of Holm (Scandinavian Journal of Statistics 6, 1979): valid under any
    dependence between the tests, and never weaker than Bonferroni's.
    """
    return np.asarray(np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


def _benjamini_hochberg(p: Floats) -> Floats:
    """Adjust ascending p-values so that the expected share of false rejections stays below it.

    The step-up procedure of Benjamini & Hochberg (JRSS B 57, 1995): valid for independent or
    positively dependent tests. It controls a weaker error than Holm's and rejects more.
    """
    stepped = p * len(p) / np.arange(1, len(p) + 1)
    return np.asarray(np.minimum.accumulate(stepped[::-1])[::-1])


def _bonferroni(p: Floats) -> Floats:
    """Multiply p-values by their number: as valid as Holm's procedure, and never stronger."""
    return p * len(p)


CORRECTIONS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {"holm": _holm, "benjamini-hochberg": _benjamini_hochberg, "bonferroni": _bonferroni}
)
"""The corrections for many tests, of ascending p-values, by the name that outputs show; the first
is the default."""


@dataclass(frozen=True, slots=True)
class Inference:
    """How to average losses, and how to make their intervals and p-values.

    Attributes:
        confidence: the confidence level of the intervals.
        correction: how p-values are corrected across a shift's groups, a key of
            `CORRECTIONS`.
        average: how a shift's groups are averaged, a key of `AVERAGES`; if `None` each shift's
            own (`Shift.average`), and ``macro`` where groups are of no shift.

    Raises:
        UsageError: for a confidence not strictly between 0 and 1.
        UnknownNameError: for a correction or an average that does not exist.
    """

    confidence: float = 0.95
    correction: str = "holm"
    average: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence lies strictly between 0 and 1, not {self.confidence}")
        if self.correction not in CORRECTIONS:
            raise UnknownNameError("correction", self.correction, CORRECTIONS)
        if self.average is not None and self.average not in AVERAGES:
            raise UnknownNameError("average", self.average, AVERAGES)


def adjust(p_values: Mapping[_Test, float | None], correction: str) -> dict[_Test, float]:
    """Correct the p-values of one family of tests, without the tests that gave none.

    Args:
        p_values: test -> p-value, or `None` if the test could not be made.
        correction: a key of `CORRECTIONS`.

    Returns:
        Test -> its adjusted p-value, at most 1; reject where it is at most the level.

    Raises:
        UnknownNameError: if there is no such correction.
        UsageError: if a p-value is not a number from 0 to 1.
    """
    if correction not in CORRECTIONS:
        raise UnknownNameError("correction", correction, CORRECTIONS)
    defined = {name: p for name, p in p_values.items() if p is not None}
    p = np.array(list(defined.values()), np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise UsageError(f"p-values are numbers from 0 to 1, not {list(defined.values())}")
    order = np.argsort(p, kind="stable")
    p[order] = np.minimum(CORRECTIONS[correction](p[order]), 1)
    return dict(zip(defined, p.tolist(), strict=True))


def rank_ranges(
    order: Sequence[str], apart: Collection[tuple[str, str]]
) -> dict[str, tuple[int, int]]:
    """Rank systems by the pairs that are told apart.

    A system is known to be better than another if the two are told apart, or if a chain of such
    pairs leads from one to the other. Its range holds the places that it takes in all orders of the
    systems that agree with this; its rank is the first of them, as in Chatbot Arena (Chiang et al.,
    ICML 2024). So of two systems told apart the better has the smaller rank, and if no pair is told
    apart all rank first. Two systems that are *not* told apart may still differ in rank, as "not
    told apart" is not transitive: a third may be told apart from one of them only. Their ranges
    then overlap.

    If the chance that any pair is told apart wrongly is at most 5%, as after Holm's correction over
    all pairs, all true ranks lie in their ranges with a chance of at least 95% (Mogstad, Romano,
    Shaikh and Wilhelm, Review of Economic Studies 2024).

    Args:
        order: all systems, the best first.
        apart: pairs (better, worse) that are told apart, the better before the worse in `order`.

    Returns:
        System -> its best place, 1 + the number of systems known to be better, which is its rank;
        and its worst, the number of systems not known to be worse, itself included.

    Raises:
        ValueError: if a system is named twice, or a pair contradicts the order or names another.
    """
    place = {name: number for number, name in enumerate(order)}
    if len(place) < len(order):
        raise ValueError(f"systems that are ranked have different names; got {list(order)}")
    directly_better: dict[str, list[str]] = {name: [] for name in order}
    for better, worse in apart:
        if not {better, worse} <= place.keys() or place[better] >= place[worse]:
            raise ValueError(f"{better!r} is told apart as better than {worse!r} against the order")
        directly_better[worse].append(better)
    known_better: dict[str, set[str]] = {}
    for name in order:
        direct = directly_better[name]
        known_better[name] = set(direct).union(*(known_better[system] for system in direct))
    worse_systems = dict.fromkeys(order, 0)
    for better_systems in known_better.values():
        for name in better_systems:
            worse_systems[name] += 1
    return {
        name: (1 + len(above), len(order) - worse_systems[name])
        for name, above in known_better.items()
    }
