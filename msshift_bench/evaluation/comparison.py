"""Comparing evaluated systems: which loses less, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msshift_bench.data import Dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.evaluator import MeasureResult
from msshift_bench.evaluation.loss_tables import data_notes, policy_notes
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.report import Report, evaluate_run_sets
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import (
    Table,
    TableCell,
    plain,
    report_head,
    show_p,
    show_percent,
    show_percent_interval,
)
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift
from msshift_bench.stats import (
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    SIGNIFICANT,
    ComparedSystems,
    Interval,
    compare_systems,
)

__all__ = ["Comparison", "ComparisonReport", "compare_report", "compare_run_sets"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The systems of one shift, compared by what they lose under one measure.

    Attributes:
        shift: the shift.
        measure: the measure.
        systems: every pair, and the ranks that follow from the pairs.
    """

    shift: Shift
    measure: Measure
    systems: ComparedSystems

    def ranking_table(self) -> Table:
        """Return the systems sorted by what they lose, with their ranks."""
        rows = [
            (
                one.system,
                "-" if one.rank is None else one.rank,
                "-" if one.rank is None else f"{one.best_rank}-{one.worst_rank}",
                show_percent(one.value),
                _interval(one.interval, one.counts),
            )
            for one in self.systems.ranking
        ]
        return Table.plain(
            f"{self.shift.title} ({self.shift.name}): average Rel Loss in {self.measure}",
            ("system", "rank", "range", "Rel Loss", "interval"),
            rows,
        )

    def pair_table(self, first: str, second: str) -> Table:
        """Return how much more the first of two systems loses than the second, per group."""
        found = self.systems.pairs[first, second]
        parts = [
            *((g, one, found.adjusted_p.get(g), g) for g, one in found.groups.items()),
            ("whole shift", found.overall, found.adjusted_overall_p, None),
        ]
        rows = []
        for name, one, p_value, group in parts:
            cells = (
                name,
                show_percent(one.value_a),
                show_percent(one.value_b),
                show_percent(one.difference),
                _interval(one.interval, one.counts),
                show_p(p_value),
            )
            apart = found.is_significant(group)
            rows.append(
                tuple(TableCell(text, significant=apart and n == 3) for n, text in enumerate(cells))
            )
        return Table(
            f"{self.shift.name}: Rel Loss of {first} - Rel Loss of {second}; negative where "
            f"{first} loses less",
            ("group", first, second, "difference", "interval", f"p ({self.systems.correction})"),
            tuple(rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return {
            "shift": self.shift.name,
            "measure": self.measure.name,
            "correction": self.systems.correction,
            "ranking": plain(self.systems.ranking),
            "pairs": [
                {"a": first, "b": second, **plain(found)}
                for (first, second), found in self.systems.pairs.items()
            ],
        }


def _interval(interval: Interval | None, counts: str) -> str:
    only = interval is not None and counts == QUERIES_ONLY
    return show_percent_interval(interval) + f" {QUERIES_ONLY}" * only


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonReport:
    """Several systems, compared by what they lose.

    Attributes:
        report: the evaluated systems.
        comparisons: one per shift and measure.
    """

    report: Report
    comparisons: Sequence[Comparison]

    def notes(self) -> list[str]:
        """Return the notes below the tables: data, policies and counts."""
        report, settings = self.report, self.report.settings
        lines = [
            *data_notes(report.data, report.by_shift()),
            *policy_notes(settings),
            f"intervals and p: {QUERIES_AND_SEEDS}, as random effects, the seeds of two systems "
            "independent of each other",
            f"p: {settings.correction}-corrected, all pairs on all groups as one family, all pairs "
            f"on the whole shift as another; * at most {SIGNIFICANT}",
            "rank: 1 + the number of systems known to lose less; range: the ranks that it might "
            "take",
        ]
        single = {
            ranked.system
            for comparison in self.comparisons
            for ranked in comparison.systems.ranking
            if ranked.counts == QUERIES_ONLY
        }
        if single:
            lines.append(
                f"one seed: {', '.join(sorted(single))}: what is said counts {QUERIES_ONLY}, so "
                "there is no star and no rank; train replicates with --seeds"
            )
        return [*lines, *report.remarks]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report."""
        return {
            **report_head(),
            "data": plain(self.report.data),
            "settings": self.report.settings.to_json(),
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "remarks": list(self.report.remarks),
        }


def compare_report(report: Report) -> ComparisonReport:
    """Compare the systems of a report, on every shift for which at least two were trained.

    Args:
        report: the evaluated systems.

    Raises:
        UsageError: if no shift has two systems with a loss.
    """
    settings = report.settings
    comparisons = []
    for shift, results in report.by_shift().items():
        for measure in settings.measures:
            losses: dict[str, MeasureResult] = {
                result.system: result.measures[measure.name]
                for result in results
                if result.measures[measure.name].scores and not result.partial
            }
            if len(losses) < 2:
                continue
            compared = compare_systems(
                {name: result.scores for name, result in losses.items()},
                replace(settings, average=next(iter(losses.values())).average),
                higher_is_better=measure.higher_is_better,
            )
            comparisons.append(Comparison(get_shift(shift), measure, compared))
    if not comparisons:
        raise UsageError(
            "nothing to compare: it takes two systems with complete run sets, trained per held-out "
            "group, for the same shift"
        )
    return ComparisonReport(report, comparisons)


def compare_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow_identical: bool = False,
    force_data: bool = False,
) -> ComparisonReport:
    """Find run sets, evaluate them on a built data set, and compare what their systems lose.

    Args:
        runs: one or several folders, as in `evaluate_run_sets`.
        data: the built data set, as in `evaluate_run_sets`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics.
        allow_identical: accept the same file under two models of a system.
        force_data: score runs even if their sidecars name other data.

    Returns:
        A comparison per shift and measure.

    Raises:
        UsageError: if no shift has two systems with a loss, and as in `evaluate_run_sets`.
        UnknownNameError: as in `evaluate_run_sets`.
        NotFoundError: as in `evaluate_run_sets`.
        RunError: as in `evaluate_run_sets`; also if a run file is missing.
    """
    report = evaluate_run_sets(
        runs, data, shifts, settings, allow_identical=allow_identical, force_data=force_data
    )
    return compare_report(report)
