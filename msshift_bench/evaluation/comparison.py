"""Systems or runs that were compared under one measure, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.evaluation.measures import Measure
from msshift_bench.output import plain
from msshift_bench.shifts import Shift
from msshift_bench.stats import ComparedSystems

__all__ = ["Comparison"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """Systems or single runs, compared on the same queries under one measure.

    Attributes:
        shift: the shift; `None` for single runs.
        test_set: the shift's name, or what single runs were scored on.
        measure: the measure.
        average: how groups are averaged, a key of `stats.inference.AVERAGES`.
        figures: figure -> the systems compared by it. Of run sets it is ``avg_in``, ``out`` and,
            for those with a loss, ``rel_loss``; of single runs it is ``mean``.
        queries: group -> how many queries count.
        seeds: system -> how many seeds it has; `None` for one that was not trained per group.
        baseline: the system that the others are compared with; `None` where every two are.
    """

    shift: Shift | None
    test_set: str
    measure: Measure
    average: str
    figures: Mapping[str, ComparedSystems]
    queries: Mapping[str, int]
    seeds: Mapping[str, int | None]
    baseline: str | None

    def __repr__(self) -> str:
        return f"<Comparison: {self.test_set}, {self.measure}: {', '.join(self.seeds)}>"

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return {
            "shift": None if self.shift is None else self.shift.name,
            "test_set": self.test_set,
            "measure": self.measure.name,
            "baseline": self.baseline,
            "average": self.average,
            "queries": dict(self.queries),
            "seeds": dict(self.seeds),
            "figures": {
                figure: {
                    "correction": compared.correction,
                    "ranking": plain(compared.ranking),
                    "pairs": [
                        {"a": first, "b": second, **plain(found)}
                        for (first, second), found in compared.pairs.items()
                    ],
                }
                for figure, compared in self.figures.items()
            },
        }
