"""The settings by which losses are averaged and tested, as one value that is checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats.significance import CORRECTIONS

__all__ = ["AVERAGES", "Inference"]

AVERAGES: Mapping[str, str] = MappingProxyType(
    {
        "macro": "the mean over groups, each counting alike",
        "pooled": "over the queries of all groups together, each query counting alike",
    }
)
"""How the groups of a shift are averaged; `Shift.average` is each shift's default."""


@dataclass(frozen=True, slots=True)
class Inference:
    """How to average losses, and how to make their intervals and p-values.

    Attributes:
        confidence: the confidence level of the intervals.
        correction: how p-values are corrected across a shift's groups, a key of
            `stats.significance.CORRECTIONS`.
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
