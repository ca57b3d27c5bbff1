"""Which of several evaluated systems loses less, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msshift_bench.comparing import (
    LossDifference,
    Ranking,
    ShiftComparison,
    compare_pairs,
    rank_bands,
)
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import MeasureResult
from msshift_bench.jsonable import plain, report_head
from msshift_bench.report import Report
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.tables import SIGNIFICANT, Table, TableCell, show_p

__all__ = ["Comparison", "compare_report", "comparison_json"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The systems of one shift, compared by what they lose under one measure.

    Attributes:
        shift: the shift.
        measure: the measure's name.
        ranking: all systems ranked, with every pair's difference over the shift as a whole.
        pairs: (A, B) -> their differences on each group and on the whole, A given before B.
    """

    shift: Shift
    measure: str
    ranking: Ranking
    pairs: dict[tuple[str, str], ShiftComparison]

    def ranking_table(self) -> Table:
        """Return the systems by what they lose, with the ranks that each might take."""
        rows = [
            (
                one.system,
                one.rank,
                f"{one.best_rank}-{one.worst_rank}",
                f"{100 * one.rel_loss:.1f}%",
                f"[{100 * one.interval.low:.1f}, {100 * one.interval.high:.1f}]",
            )
            for one in self.ranking.systems
        ]
        return Table.plain(
            f"{self.shift.title} ({self.shift.name}): mean Rel Loss in {self.measure}",
            ("system", "rank", "range", "Rel Loss", "interval"),
            rows,
        )

    def pair_table(self, first: str, second: str) -> Table:
        """Return how much more the first of two systems loses than the second, per group."""
        found = self.pairs[first, second]
        parts = [*found.groups.items(), ("whole shift", found.overall)]
        rows = []
        for name, one in parts:
            p_value = found.adjusted_p.get(name) if name in found.groups else one.p_value
            apart = p_value is not None and p_value <= SIGNIFICANT
            cells = (name, *_difference(one), show_p(p_value))
            rows.append(
                tuple(TableCell(text, significant=apart and n == 3) for n, text in enumerate(cells))
            )
        return Table(
            f"{self.shift.name}: Rel Loss of {first} - Rel Loss of {second}; negative where "
            f"{first} loses less",
            ("group", first, second, "difference", "interval", f"p ({found.correction})"),
            tuple(rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return {
            "shift": self.shift.name,
            "measure": self.measure,
            "ranking": plain(self.ranking.systems),
            "pairs": [
                {"a": first, "b": second, **plain(found)}
                for (first, second), found in self.pairs.items()
            ],
        }


def _difference(one: LossDifference) -> tuple[str, str, str, str]:
    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}%"

    interval = (
        "-"
        if one.interval is None
        else f"[{100 * one.interval.low:.1f}, {100 * one.interval.high:.1f}]"
    )
    return percent(one.rel_loss_a), percent(one.rel_loss_b), percent(one.difference), interval


def compare_report(report: Report) -> list[Comparison]:
    """Compare the systems of a report, on every shift that two of them or more were trained for.

    Args:
        report: the evaluated systems.

    Raises:
        UsageError: if no shift has two systems with a loss, or a loss is undefined.
    """
    settings = report.settings
    found = []
    for shift, results in report.by_shift().items():
        for measure in settings.measures:
            losses: dict[str, MeasureResult] = {
                result.system: result.measures[measure]
                for result in results
                if result.measures[measure].scores and not result.partial
            }
            if len(losses) < 2:
                continue
            scores = {name: result.scores for name, result in losses.items()}
            higher_is_better = next(iter(losses.values())).higher_is_better
            ranking = rank_bands(
                scores,
                higher_is_better=higher_is_better,
                resamples=settings.resamples,
                seed=settings.seed,
                confidence=settings.confidence,
                correction=settings.correction,
            )
            pairs = compare_pairs(
                scores,
                higher_is_better=higher_is_better,
                resamples=settings.resamples,
                seed=settings.seed,
                confidence=settings.confidence,
                correction=settings.correction,
            )
            found.append(Comparison(get_shift(shift), measure, ranking, pairs))
    if not found:
        raise UsageError(
            "nothing to compare: it takes two systems with complete run sets, trained per held-out "
            "group, for the same shift"
        )
    return found


def comparison_json(report: Report, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return comparisons as a JSON report."""
    return {
        **report_head(),
        "data": plain(report.data),
        "settings": plain(report.settings),
        "comparisons": [comparison.to_json() for comparison in comparisons],
    }
