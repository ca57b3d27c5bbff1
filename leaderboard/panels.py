"""One system's own page: its matrix, its losses with their statistics, and its versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from msshift_bench.evaluation import Cell, RunRecord, parse_measure
from msshift_bench.leaderboard.board_view import SystemView, file_name, shift_title
from msshift_bench.leaderboard.boards import Board
from msshift_bench.leaderboard.results import (
    MEAN,
    Result,
    ShownFigure,
    describe_mean,
    mean_title,
    results_of,
    show_interval,
    show_number,
)
from msshift_bench.leaderboard.submission import Submission
from msshift_bench.output import show_p
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import GroupLoss

__all__ = [
    "HEAT_STEPS",
    "HeatCell",
    "HeatMap",
    "LossRow",
    "Panel",
    "heat_map",
    "panels",
    "superseded",
]

HEAT_STEPS = 4
"""Colours to either side of the neutral one."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One model on one group.

    Attributes:
        value: the mean over seeds.
        text: `value` as the page shows it.
        held_out: whether the model was trained without the group.
        step: from -`HEAT_STEPS` to `HEAT_STEPS`, how far `value` lies from Avg In; less is worse.
        change: that distance as a share of Avg In, as text.
    """

    value: float
    text: str
    held_out: bool
    step: int
    change: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A system's matrix; each column is coloured by the distance from its Avg In.

    Absolute scores would show which groups are hard, not what a model loses.

    Attributes:
        groups: the columns.
        rows: held-out group -> one cell per column.
        reach: the greatest distance, as text; it has the strongest colour.
    """

    groups: tuple[str, ...]
    rows: Mapping[str, tuple[HeatCell, ...]]
    reach: str


@dataclass(frozen=True, slots=True)
class LossRow:
    """What a system loses on one group, or on the shift as a whole.

    Attributes:
        name: the group, or `MEAN`.
        description: one line on the group.
        cells: figure -> number.
        loss: the absolute loss, as a number with its interval; `None` if not known.
        texts: further columns, as text.
    """

    name: str
    description: str
    cells: Mapping[str, ShownFigure]
    loss: ShownFigure | None
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Panel:
    """A system under one shift and one measure.

    Attributes:
        id: the panel's id in the page.
        shift: the shift.
        title: the shift's title.
        measure: the measure.
        mean_name: the name of the measure's mean, and its scale.
        result: all numbers.
        heat: the matrix; `None` if it is not known, or the groups are training sets.
        losses: Rel Loss on each group as the page plots it, the mean last; empty if there is none.
        rows: group by group, the mean last.
        columns: the names of the further columns of `rows`.
        runs: the run files that were read.
        test_queries: group -> number of queries.
    """

    id: str
    shift: str
    title: str
    measure: str
    mean_name: str
    result: Result
    heat: HeatMap | None
    losses: tuple[Mapping[str, Any], ...]
    rows: tuple[LossRow, ...]
    columns: tuple[str, ...]
    runs: tuple[RunRecord, ...] = ()
    test_queries: Mapping[str, int] = field(default_factory=dict)


def panels(system: SystemView, board: Board) -> tuple[Panel, ...]:
    """Return a panel for every shift and measure of a system's results."""
    return tuple(
        _panel(system.entry.submission, shift, result, board.describe_groups(shift))
        for (shift, _), result in system.results.items()
    )


def superseded(system: SystemView) -> list[tuple[Submission, list[tuple[str, str, Result]]]]:
    """Return the superseded versions, newest first, each with (shift's title, mean, result)."""
    return [
        (
            submission,
            [
                (shift_title(shift), parse_measure(measure).mean_name, result)
                for (shift, measure), result in results_of(submission).items()
            ],
        )
        for submission in system.entry.history
    ]


def _panel(submission: Submission, shift: str, result: Result, groups: Mapping[str, str]) -> Panel:
    systems = () if submission.report is None else submission.report.systems
    record = next((system for system in systems if system.shift == shift), None)
    cells = () if record is None else record.measures[result.measure].cells
    rows = [
        _row(name, {**groups, MEAN: describe_mean(shift)}[name], figures, result, cells)
        for name, figures in result.columns.items()
    ]
    return Panel(
        file_name(shift, result.measure),
        shift,
        shift_title(shift),
        result.measure,
        mean_title(result.measure),
        result,
        # Training sets for one test set are no groups of queries.
        heat_map(result) if result.matrix and not SHIFTS[shift].by_size else None,
        tuple(
            {"name": name, **asdict(figures["rel_loss"])}
            for name, figures in result.columns.items()
            if "rel_loss" in figures
        ),
        tuple(rows),
        tuple(rows[0].texts) if rows else (),
        () if record is None else record.runs,
        {} if record is None else record.test_queries,
    )


def _row(
    name: str,
    description: str,
    figures: Mapping[str, ShownFigure],
    result: Result,
    cells: Sequence[Cell],
) -> LossRow:
    if not cells:
        return LossRow(name, description, figures, None, {})
    texts = _counts([cell for cell in cells if name in (MEAN, cell.group)], result, name)
    if result.loss is None:
        return LossRow(name, description, figures, None, texts)
    overall = result.loss.overall
    loss = overall if name == MEAN else result.loss.groups[name]
    interval = None if loss.intervals is None else loss.intervals.loss
    absolute = ShownFigure(
        loss.loss,
        parse_measure(result.measure).show(loss.loss),
        interval=show_interval("loss", result.measure, interval, seeds=result.seeds),
    )
    statistics = {f"p ({overall.correction})": "", "effect d_z": ""}
    if isinstance(loss, GroupLoss):
        p_value = overall.adjusted_p.get(name) if result.seeds > 1 else None
        d_z = "-" if loss.tests.d_z is None else f"{loss.tests.d_z:.2f}"
        statistics = dict(zip(statistics, (show_p(p_value), d_z), strict=True))
    if result.seeds > 1:
        spread = None if loss.spread is None else loss.spread.rel_loss
        statistics["sd of seeds"] = show_number("rel_loss", result.measure, spread)
    return LossRow(name, description, figures, absolute, {**statistics, **texts})


def _counts(cells: Sequence[Cell], result: Result, name: str) -> dict[str, str]:
    """Return the counts over all models, and the range of Out under other orders of ties."""
    held_out = name if result.per_group else None
    own = [cell for cell in cells if cell.held_out == held_out and cell.group == name]
    if name == MEAN:
        queries, span = "", ""
    else:
        queries = f"{cells[0].queries:,}"
        ends = [np.mean([cell.worst for cell in own]), np.mean([cell.best for cell in own])]
        span = (
            " to ".join(parse_measure(result.measure).show(float(end)) for end in ends)
            if own
            else "-"
        )
    return {
        "queries": queries,
        "missing": f"{sum(cell.missing for cell in cells):,}",
        "ties": f"{sum(cell.tied for cell in cells):,}",
        "Out by ties" if result.per_group else "score by ties": span,
    }


def heat_map(result: Result) -> HeatMap:
    """Return the colours of a system's matrix."""
    groups = tuple(group for group in result.columns if group != MEAN)
    changes = {
        (held_out, group): row[group] / inside - 1
        for held_out, row in result.matrix.items()
        for group in groups
        if group in row and (inside := result.columns[group]["avg_in"].value)
    }
    measure = parse_measure(result.measure)
    sign = 1 if measure.higher_is_better else -1
    reach = max((abs(change) for change in changes.values()), default=0.0)

    def cell(held_out: str, group: str) -> HeatCell:
        value = result.matrix[held_out][group]
        change = changes.get((held_out, group))
        step = round(sign * HEAT_STEPS * change / reach) if change is not None and reach else 0
        text = "" if change is None else f"{100 * change:+z.1f}%"
        return HeatCell(value, measure.show(value), held_out == group, step, text)

    rows = {
        held_out: tuple(cell(held_out, group) for group in groups)
        for held_out in groups
        if held_out in result.matrix
    }
    return HeatMap(groups, rows, f"{100 * reach:.1f}%")
