"""The matrix of a system: every model on every group, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from msshift_bench.evaluation import GridCell, Measure, Settings, SystemResult, draw_grid
from msshift_bench.output import say_level, shorten
from msshift_bench.report.report_figure import (
    ReportFigure,
    Value,
    blank_figure,
    counted_seeds,
    figure_name,
)

__all__ = ["draw_matrices"]

_COLUMNS = (
    "shift", "system", "measure", "held_out", "group", "mean", "low", "high", "queries", "missing",
)  # fmt: skip
_DARKEST = 0.25
"""The loss, as a share of Avg In, that has the darkest shade, unless a system loses more."""


def draw_matrices(
    results: Sequence[SystemResult], measure: Measure, settings: Settings
) -> list[ReportFigure]:
    """Draw the matrix of every system of a shift that was trained per group.

    Each has the systems that were not trained as its last rows; if no other is there, these make a
    matrix of their own.

    Args:
        results: the systems of one shift.
        measure: the measure.
        settings: the settings that they were evaluated with.
    """
    trained = [result for result in results if result.scores.trained_per_group]
    untrained = [result for result in results if not result.scores.trained_per_group]
    if not trained:
        return [_draw(None, untrained, measure, settings)]
    return [_draw(result, untrained, measure, settings) for result in trained]


def _draw(
    result: SystemResult | None,
    untrained: Sequence[SystemResult],
    measure: Measure,
    settings: Settings,
) -> ReportFigure:
    shift = (result or untrained[0]).shift
    groups = list(shift.tested)
    rows: list[list[Value]] = []
    grid: dict[str, list[GridCell | None]] = {}
    parts = (
        [] if result is None else [(result, shift.training_of(one), one) for one in shift.groups]
    )
    everything = [*parts, *((one, shorten(one.system, 16), None) for one in untrained)]
    levels = _levels(result, measure)
    losses = {
        (one.system, held_out, group): (level - mean) / level
        if measure.higher_is_better
        else (mean - level) / level
        for one, _, held_out in everything
        for group in groups
        if (mean := one.measures[measure.name].mean(group, held_out)) is not None
        and (level := levels.get(group))
    }
    darkest = max(_DARKEST, *losses.values()) if losses else 1.0
    for one, name, held_out in everything:
        found = one.measures[measure.name]
        counted = one.scores.counted(settings.missing)
        intervals = one.scores.mean_intervals(measure.name, counted, settings.confidence)
        # Of several seeds, the run that lacks most.
        cells = {
            cell.group: cell
            for cell in sorted(found.cells, key=lambda cell: cell.missing)
            if cell.held_out == held_out
        }
        grid[name] = []
        for group in groups:
            mean = found.mean(group, held_out)
            if mean is None:
                grid[name].append(None)
                continue
            interval = intervals.get((held_out, group))
            note = "" if interval is None else f"± {measure.show(interval.high - mean)}"
            shade = losses.get((one.system, held_out, group), 0.0) / darkest
            framed = held_out == shift.unseen_by(group)
            grid[name].append(GridCell(measure.show(mean), shade, note, framed))
            rows.append(
                [
                    shift.name,
                    one.system,
                    measure.name,
                    held_out,
                    group,
                    mean,
                    *(interval or (None, None)),
                    cells[group].queries,
                    cells[group].missing,
                ]
            )
    figure = blank_figure(0.36 * len(grid) + 0.45)
    ax = figure.subplots()
    draw_grid(ax, groups, grid)
    if parts and untrained:
        ax.axhline(len(parts) - 0.5, color="white", lw=3)
    ax.set_xlabel("test queries of")
    system = "systems that were not trained" if result is None else result.system
    return ReportFigure(
        f"matrix-{shift.name}"
        if result is None
        else figure_name("matrix", shift.name, result.system),
        f"{shift.title}: {'' if result is None else 'every model of '}{system} on every group",
        _caption(result, untrained, measure, settings, shift.title),
        _alternative(result, untrained, measure, groups),
        _COLUMNS,
        rows,
        figure,
    )


def _levels(result: SystemResult | None, measure: Measure) -> dict[str, float]:
    """Return group -> Avg In."""
    loss = None if result is None else result.measures[measure.name].loss
    return {} if loss is None else {group: one.avg_in for group, one in loss.groups.items()}


def _caption(
    result: SystemResult | None,
    untrained: Sequence[SystemResult],
    measure: Measure,
    settings: Settings,
    title: str,
) -> str:
    scale = " x 100" if measure.percent else ""
    first = result or untrained[0]
    sizes = ", ".join(f"{group} {len(ids):,}" for group, ids in first.scores.groups.items())
    said = f"{title}, {measure.mean_name}{scale} with {say_level(settings.confidence)} intervals. "
    if result is not None:
        loss = result.measures[measure.name].loss
        said += (
            f"Rows are the models trained {result.shift.training_of('a group')}, columns the group "
            "whose test queries count; framed cells are zero-shot. Darker: further below the "
            "group's Avg In. "
            + (f"{counted_seeds(loss.seeds).capitalize()}. " if loss is not None else "")
        )
    if untrained:
        names = ", ".join(one.system for one in untrained)
        said += f"{names}: not trained, one run for all groups. "
    return f"{said}Test queries: {sizes}."


def _alternative(
    result: SystemResult | None,
    untrained: Sequence[SystemResult],
    measure: Measure,
    groups: Sequence[str],
) -> str:
    said = []
    if result is not None:
        found = result.measures[measure.name]
        for group in groups:
            unseen = result.shift.unseen_by(group)
            out = measure.show(found.mean(group, unseen))
            inside = measure.show(_levels(result, measure).get(group))
            without, within = "without it", "with it"
            if result.shift.by_size:
                without, within = result.shift.training_of(unseen), "otherwise"
            said.append(f"on {group}, {out} {without} and {inside} {within}")
    for one in untrained:
        means = [measure.show(one.measures[measure.name].mean(group)) for group in groups]
        said.append(f"{one.system}, not trained: {', '.join(means)}")
    return f"A grid of {measure.mean_name}, models by groups: {'; '.join(said)}."
