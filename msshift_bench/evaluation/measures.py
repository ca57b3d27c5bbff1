"""Measures: small values that turn a judged run into one number per query."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msshift_bench.arrays import Floats
from msshift_bench.runs import JudgedRun

__all__ = ["Measure"]


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A measure and its properties.

    Attributes:
        name: the per-query measure's name, e.g. ``"RR@10"``.
        compute: takes versions of one run that differ only in how ties are broken, and returns
            what `per_query` does for each.
        mean_name: the name of its mean over queries, e.g. ``"MRR@10"``.
        higher_is_better: whether a larger value is a better ranking.
        percent: whether its values lie between 0 and 1, so that tables print its mean times 100.
        aggregate: how its values become one figure: their mean, or for counts their sum.
        computed_by: the package that computes it.
        partial: whether it may have no value for some queries, which its mean then leaves out.
        reads_nonrelevant: whether it treats a document judged not relevant unlike an unjudged one.
    """

    name: str
    compute: Callable[[Sequence[JudgedRun]], Sequence[Floats]] = field(repr=False, compare=False)
    mean_name: str
    higher_is_better: bool = True
    percent: bool = True
    aggregate: Literal["mean", "sum"] = "mean"
    computed_by: str = "msshift-bench"
    partial: bool = False
    reads_nonrelevant: bool = False

    @property
    def sign(self) -> int:
        """1, or -1 where a lower value is better: what turns a difference into a loss."""
        return 1 if self.higher_is_better else -1

    def per_query(self, run: JudgedRun) -> Floats:
        """Return the measure of every query of the run's test set, shape ``[queries]``.

        A query that the run does not hold, or that has no relevant document, gets the worst
        value; one that a `partial` measure has no value for gets NaN.

        Raises:
            UsageError: if ir_measures computes it, and the tie policy orders nothing, the run
                cannot be read twice, or ir_measures cannot compute it as it is installed.
        """
        return self.compute([run])[0]

    def show(self, value: float | None) -> str:
        """Return an aggregate as tables print it; "-" where there is no value at all.

        Means are multiplied by 100 and have one decimal; search lengths and counts are printed as
        they are.
        """
        if value is None or math.isnan(value):
            return "-"
        if self.aggregate == "sum":
            return f"{value:.0f}"
        return f"{100 * value:z.1f}" if self.percent else f"{value:z.1f}"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Measure({self.name!r})"
