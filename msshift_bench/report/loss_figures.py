"""Rel Loss on every group: points with intervals, one panel per shift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msshift_bench.evaluation import Measure, SystemResult, draw_losses
from msshift_bench.output import Look, say_level, show_percent, show_percent_interval
from msshift_bench.report.report_figure import (
    Drawn,
    LeftOut,
    ReportFigure,
    Value,
    blank_figure,
    counted_seeds,
)
from msshift_bench.stats import SIGNIFICANT, GroupLoss, ShiftLoss

__all__ = ["draw_rel_loss", "losses_of"]

_TITLE = "Rel Loss by shift"
_COLUMNS = (
    "shift", "system", "measure", "group", "rel_loss", "low", "high", "p", "queries", "seeds",
)  # fmt: skip


def losses_of(
    results: Sequence[SystemResult], measure: Measure
) -> list[tuple[SystemResult, ShiftLoss]]:
    """Return the systems that have a loss, with it."""
    found = [(result, result.measures[measure.name].loss) for result in results]
    return [(result, loss) for result, loss in found if loss is not None]


def draw_rel_loss(
    shifts: Sequence[Sequence[SystemResult]], measure: Measure, looks: Mapping[str, Look]
) -> Drawn:
    """Draw what every system loses on every group and on the whole, with intervals.

    Args:
        shifts: the systems of each shift.
        measure: the measure.
        looks: system -> how it is drawn.
    """
    panels = [losses for results in shifts if (losses := losses_of(results, measure))]
    if not panels:
        return LeftOut(
            _TITLE,
            "no system was trained without each group in turn",
            "run one, e.g. `msshift baseline run bi-encoder`, or lay out runs of your own as "
            "`<system>/<shift>/<held-out group>.run`",
        )
    heights = [_height(losses) for losses in panels]
    figure = blank_figure(sum(heights) + 0.22 * math.ceil(len(looks) / 2))
    parts = figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, losses in zip(parts, panels, strict=True):
        ax = part.subplots()
        draw_losses(ax, losses, looks, legend=losses is panels[0])
        ax.set_ylabel(losses[0][0].shift.title)
        ax.set_xlabel("Rel Loss (%)" if losses is panels[-1] else "")
    rows = [row for losses in panels for result, loss in losses for row in _rows(result, loss)]
    return ReportFigure(
        "rel-loss",
        _TITLE,
        _caption(panels, measure),
        _alternative(panels),
        _COLUMNS,
        [[row[0], row[1], measure.name, *row[2:]] for row in rows],
        figure,
    )


def _height(losses: Sequence[tuple[SystemResult, ShiftLoss]]) -> float:
    return (len(losses[0][0].shift.tested) + 1) * (0.15 * len(losses) + 0.12) + 0.5


def _rows(result: SystemResult, loss: ShiftLoss) -> list[list[Value]]:
    everything = sum(one.queries for one in loss.groups.values())
    whole = "all queries" if loss.average == "pooled" else "mean"
    parts: list[tuple[str, GroupLoss | ShiftLoss, float | None, int]] = [
        *((g, one, loss.adjusted_p.get(g), one.queries) for g, one in loss.groups.items()),
        (whole, loss, loss.p, everything),
    ]
    return [
        [
            result.shift.name,
            result.system,
            group,
            one.rel_loss,
            *((None, None) if one.intervals is None else one.intervals.rel_loss or (None, None)),
            p_value,
            queries,
            loss.seeds,
        ]
        for group, one, p_value, queries in parts
    ]


def _caption(panels: Sequence[Sequence[tuple[SystemResult, ShiftLoss]]], measure: Measure) -> str:
    confidence = {
        loss.intervals.confidence for losses in panels for _, loss in losses if loss.intervals
    }
    sizes = "; ".join(
        f"{losses[0][0].shift.title}: "
        + ", ".join(f"{group} {one.queries:,}" for group, one in losses[0][1].groups.items())
        for losses in panels
    )
    trained = {loss.seeds for losses in panels for _, loss in losses}
    return (
        f"Rel Loss in {measure.mean_name}, in per cent of Avg In; right of 0 the model that never "
        "saw the group is worse. "
        + (
            f"Lines are {say_level(max(confidence))} intervals, cut where they reach far. "
            if confidence
            else ""
        )
        + ("White markers rest on one seed: their intervals count queries only. " * (1 in trained))
        + (
            f"* marks a loss that is significant (p at most {SIGNIFICANT}, "
            f"{panels[0][0][1].correction}-corrected over groups). " * (max(trained) > 1)
        )
        + f"Test queries: {sizes}."
    )


def _alternative(panels: Sequence[Sequence[tuple[SystemResult, ShiftLoss]]]) -> str:
    said = []
    for losses in panels:
        for result, loss in losses:
            known = {g: one.rel_loss for g, one in loss.groups.items() if one.rel_loss is not None}
            if not known:
                continue
            worst = max(known, key=lambda group: known[group])
            interval = None if loss.intervals is None else loss.intervals.rel_loss
            said.append(
                f"{result.system} on {result.shift.title.lower()} loses "
                f"{show_percent(loss.rel_loss)} on average, interval "
                f"{show_percent_interval(interval)} ({counted_seeds(loss.seeds)}), and most on "
                f"{worst}: {show_percent(known[worst])}"
            )
    return f"Dots with intervals, one row per group. {'. '.join(said)}."
