"""An entry's results as the page shows them: this module alone turns numbers into text.

The texts are those of the evaluator's own tables (`evaluation.loss_tables`). Each comes with the
raw value, so that the page can sort and export without computing anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from msshift_bench.evaluation import LossRecord, MeasureRecord, parse_measure
from msshift_bench.leaderboard.submission import Submission
from msshift_bench.output import show_percent
from msshift_bench.shifts import SHIFTS, Shift
from msshift_bench.stats import QUERIES_ONLY, GroupLoss, Interval, OverallLoss

__all__ = [
    "FIGURES",
    "MEAN",
    "ShownFigure",
    "Matrix",
    "Result",
    "mark_best",
    "mean_title",
    "over_shifts",
    "results_of",
    "show_interval",
    "show_number",
    "show_parameters",
]

FIGURES: Mapping[str, str] = {"out": "Out", "rel_loss": "Rel Loss", "avg_in": "Avg In"}
"""The figures of a table of systems: name in the report -> heading. Systems are sorted by the
first.

They are not sorted by Rel Loss, since a system that learns nothing loses nothing.
"""

MEAN = "mean"
"""The column of the mean over groups, or over shifts; of the one test set, if a shift has one."""

Matrix = Mapping[str, Mapping[str, float]]
"""Held-out group -> evaluated group -> mean over seeds."""


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """One number.

    Attributes:
        value: the value in the report.
        text: the text on the page.
        low: lower end of its interval; `None` if there is none.
        high: upper end of its interval.
        interval: both ends as the page shows them, with `QUERIES_ONLY` if they count queries only.
        significant: whether it is a significant loss; see `OverallLoss.is_significant`.
        best: whether it is the best of its column.
    """

    value: float
    text: str
    low: float | None = None
    high: float | None = None
    interval: str = ""
    significant: bool = False
    best: bool = False

    def to_json(self) -> list[Any]:
        """Return the cell as an array without the empty values at its end."""
        marks = self.significant + 2 * self.best
        values = [self.value, self.text, self.low, self.high, self.interval, marks]
        while not values[-1]:
            values.pop()
        return values


ShownFigures = Mapping[str, ShownFigure]
"""Figure -> its cell, without figures that are undefined."""


@dataclass(frozen=True, slots=True)
class Result:
    """One entry under one shift and one measure.

    Attributes:
        measure: the measure's name.
        columns: group, then `MEAN` -> figures. A system that was not trained per group has
            its score under both Avg In and Out, and no loss.
        per_group: whether it was trained per group.
        seeds: number of replicates; 0 if it is not known.
        matrix: every model on every group; empty if it is not known.
        loss: the report's own record of the loss; `None` for a paper's results.
    """

    measure: str
    columns: Mapping[str, ShownFigures]
    per_group: bool
    seeds: int
    matrix: Matrix
    loss: LossRecord | None = None


def describe_mean(shift: str) -> str:
    """Return what `MEAN` is of a shift, in words."""
    return "on the one test set" if SHIFTS[shift].by_size else "over groups"


def mean_title(measure: str) -> str:
    """Return the name of a measure's mean, with the scale of its texts."""
    parsed = parse_measure(measure)
    scale = " \N{MULTIPLICATION SIGN} 100" if parsed.percent else ""
    return f"{parsed.mean_name}{scale}"


def show_number(figure: str, measure: str, value: float | None) -> str:
    """Return a figure as tables print it."""
    return show_percent(value) if figure == "rel_loss" else parse_measure(measure).show(value)


def show_parameters(count: int | None) -> str:
    """Return a number of weights in three digits, e.g. ``66M``; "" if it is not stated."""
    if count is None:
        return ""
    rounded = float(f"{count:.3g}")
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if rounded >= unit:
            return f"{rounded / unit:.3g}{name}"
    return str(count)


def show_interval(figure: str, measure: str, interval: Interval | None, *, seeds: int) -> str:
    """Return an interval as tables print it; "" if there is none.

    Args:
        figure: a key of `FIGURES`, or ``loss``.
        measure: the measure.
        interval: its ends.
        seeds: the number of seeds; with one the interval is labelled `QUERIES_ONLY`.
    """
    if interval is None:
        return ""
    ends = (show_number(figure, measure, end) for end in interval)
    shown = "[{}, {}]".format(*(end.removesuffix("%") for end in ends))
    return f"{shown} {QUERIES_ONLY}" if seeds == 1 else shown


def results_of(submission: Submission) -> dict[tuple[str, str], Result]:
    """Return (shift, measure) -> an entry's result."""
    if submission.report is not None:
        # JSON sorts its keys; the settings keep the order, in which tables lead with the first.
        return {
            (system.shift, measure): _scored(
                SHIFTS[system.shift], measure, system.measures[measure]
            )
            for system in submission.report.systems
            for measure in submission.report.settings.measures
        }
    reported = submission.reported or {}
    return {
        (shift, reported["measure"]): _reported(SHIFTS[shift], submission, reported)
        for shift in submission.shifts
    }


def _means(record: MeasureRecord) -> dict[str | None, dict[str, float]]:
    """Return held-out group -> evaluated group -> mean over seeds, as the evaluator computes it."""
    per_seed: dict[str | None, dict[str, list[float]]] = {}
    for cell in record.cells:
        per_seed.setdefault(cell.held_out, {}).setdefault(cell.group, []).append(cell.mean)
    return {
        held_out: {group: float(np.mean(values)) for group, values in groups.items()}
        for held_out, groups in per_seed.items()
    }


def _scored(shift: Shift, measure: str, record: MeasureRecord) -> Result:
    matrix = _means(record)
    if record.loss is None:
        scores = matrix.get(None, {})
        queries = {cell.group: cell.queries for cell in record.cells}
        weights = queries if shift.average == "pooled" else {}
        return _untrained(shift, measure, scores, seeds=1 if scores else 0, weights=weights)
    groups, overall = record.loss.groups, record.loss.overall
    columns = {
        group: _shown_loss(measure, groups[group], overall, overall.is_significant(group))
        for group in shift.groups
        if group in groups
    }
    columns[MEAN] = _shown_loss(measure, overall, overall)
    per_model = {held_out: row for held_out, row in matrix.items() if held_out is not None}
    return Result(measure, columns, True, overall.seeds, per_model, record.loss)


def _shown_loss(
    measure: str, loss: GroupLoss | OverallLoss, overall: OverallLoss, significant: bool = False
) -> ShownFigures:
    figures = {}
    for figure, shown in _shown(measure, {name: getattr(loss, name) for name in FIGURES}).items():
        interval: Interval | None = getattr(loss.intervals, figure) if loss.intervals else None
        figures[figure] = replace(
            shown,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            interval=show_interval(figure, measure, interval, seeds=overall.seeds),
            significant=significant and figure == "rel_loss",
        )
    return figures


def _shown(measure: str, values: Mapping[str, float | None]) -> ShownFigures:
    return {
        figure: ShownFigure(value, show_number(figure, measure, value))
        for figure in FIGURES
        if (value := values[figure]) is not None and not math.isnan(value)
    }


def _untrained(
    shift: Shift,
    measure: str,
    scores: Mapping[str, float],
    seeds: int,
    weights: Mapping[str, int] = MappingProxyType({}),
) -> Result:
    """Return a system's scores, and their average: each group counts alike, or by its weight."""
    values = {group: scores[group] for group in shift.tested if group in scores}
    if len(values) == len(shift.tested):
        each = [weights.get(group, 1) for group in values]
        mean = float(np.average(list(values.values()), weights=each))
        # The one test set of training sets has no column beside the mean.
        values = {MEAN: mean} if shift.by_size else {**values, MEAN: mean}
    columns = {
        column: dict.fromkeys(
            ("out", "avg_in"), ShownFigure(value, parse_measure(measure).show(value))
        )
        for column, value in values.items()
    }
    return Result(measure, columns, False, seeds, {})


def _reported(shift: Shift, submission: Submission, reported: Mapping[str, Any]) -> Result:
    measure = reported["measure"]
    seeds = len(submission.training.seeds)
    groups = reported["shifts"].get(shift.name)
    if groups is None:
        return _untrained(shift, measure, reported["untrained"][shift.name], seeds)
    columns = {group: _shown(measure, groups[group]) for group in shift.groups if group in groups}
    if len(columns) == len(shift.groups):
        columns[MEAN] = _average(measure, list(columns.values()))
    matrix = reported["matrix"].get(shift.name, {})
    return Result(measure, columns, True, seeds, matrix)


def _average(measure: str, columns: Sequence[ShownFigures]) -> ShownFigures:
    """Average each figure that all columns have."""
    averages = {}
    for figure in FIGURES:
        values = [column[figure].value for column in columns if figure in column]
        if len(values) == len(columns):
            mean = math.fsum(values) / len(values)
            averages[figure] = ShownFigure(mean, show_number(figure, measure, mean))
    return averages


def over_shifts(
    results: Mapping[tuple[str, str], Result], shifts: Iterable[str], measure: str
) -> Result | None:
    """Return the means of each shift, and their mean over shifts, as one result.

    Args:
        results: the results of one entry.
        shifts: the shifts that must all be there.
        measure: the measure.

    Returns:
        A result whose columns are shifts; `None` if one of them, or its mean, is missing.
    """
    parts = {shift: results.get((shift, measure)) for shift in shifts}
    complete = {shift: part for shift, part in parts.items() if part and MEAN in part.columns}
    if not complete or len(complete) < len(parts):
        return None
    columns = {shift: part.columns[MEAN] for shift, part in complete.items()}
    columns[MEAN] = _average(measure, list(columns.values()))
    per_group = all(part.per_group for part in complete.values())
    seeds = min(part.seeds for part in complete.values())
    return Result(measure, columns, per_group, seeds, {})


def mark_best(results: Mapping[str, Result], *, higher_is_better: bool) -> dict[str, Result]:
    """Mark the best cell of every column and figure, among systems that were trained per group.

    Args:
        results: system -> its result, all of one shift and measure.
        higher_is_better: false for ASL and the like; the lowest Rel Loss is always best.
    """
    trained = {name: result for name, result in results.items() if result.per_group}
    if len(trained) < 2:
        return dict(results)
    best: dict[tuple[str, str], float] = {}
    for result in trained.values():
        for column, figures in result.columns.items():
            for figure, cell in figures.items():
                better = max if higher_is_better and figure != "rel_loss" else min
                key = column, figure
                best[key] = better(best.get(key, cell.value), cell.value)

    def marked(result: Result) -> Result:
        columns = {
            column: {
                figure: replace(cell, best=cell.value == best[column, figure])
                for figure, cell in figures.items()
            }
            for column, figures in result.columns.items()
        }
        return replace(result, columns=columns)

    return {n: marked(result) if n in trained else result for n, result in results.items()}
