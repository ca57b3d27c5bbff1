"""Charts of Rel Loss, Avg In and Out, scores of every model on every group, and leads.

Each chart of the report is one function. `draw_result` draws the losses and the matrices of a
result as one picture, 600 pixels wide on a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench.errors import UsageError
from msshift_bench.evaluation import (
    WITH_ENDS,
    Measure,
    Result,
    data_caveats,
    data_notes,
    parse_measure,
    scale_of,
)
from msshift_bench.output import (
    INK,
    PALE_INK,
    SHADES,
    check_plot,
    level_text,
    note_of,
    picture_style,
    shorten,
    styles_of,
    write_picture,
)
from msshift_bench.report.drawing import (
    LETTERS,
    MIDDLE,
    ROW,
    TITLE,
    Chart,
    Picture,
    blank_axes,
    draw_groups,
    limits_of,
    rows_of,
    sentences,
    sizes_of,
)
from msshift_bench.report.inputs import Inputs, Missing, reason_without_loss
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.stats import FIGURES, Figures, rel_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DARKEST = 0.4
"""Loss, as a fraction of Avg In, at which cells reach the darkest shade."""

_CELL = 0.36
"""Height of a row of a matrix in inches."""

_COLUMN_LETTERS = 60
"""Number of letters that fit into all columns of a matrix together."""


def draw_losses(inputs: Inputs) -> Chart | Missing:
    """Return a chart of every system's Rel Loss by group and on average, or a reason for none."""
    return _draw_by_group(
        inputs,
        "rel-loss",
        "How large is the loss on each group?",
        "Rel Loss (%)",
        f"Rel Loss = (Avg In - Out) / Avg In, in {inputs.measure.mean_name}. Right of 0, the model "
        "trained without the group is worse than the models trained with it.",
        ("rel_loss",),
    )


def draw_in_out(inputs: Inputs) -> Chart | Missing:
    """Return a chart of every system's Avg In and Out on every group, or a reason for none."""
    return _draw_by_group(
        inputs,
        "in-out",
        "How do models score with the group in training, and without it?",
        f"{inputs.measure.mean_name}{scale_of([inputs.measure])}",
        "Ticks: Avg In, the mean over the models trained with the group. Markers: Out, the score "
        "of the model trained without it, on the same test queries.",
        ("out",),
        ("avg_in",),
        zero=False,
    )


def draw_leads(inputs: Inputs) -> Chart | Missing:
    """Return a chart of every system's lead over the reference by group, or a reason for none."""
    if inputs.reference is None:
        untrained = [part.system for part in inputs.result.scores if not part.trained_per_group]
        remedy = (
            f"use `--reference {[*untrained, 'bm25'][0]}`, with runs of this and another system"
        )
        return "no reference was given", remedy
    return _draw_by_group(
        inputs,
        "lead",
        f"How large is the lead over {inputs.reference} on each group?",
        f"lead in {inputs.measure.mean_name}{scale_of([inputs.measure])}",
        f"Right of 0, the system is better than {inputs.reference}. Ticks: the models trained with "
        "the group. Markers: the model trained without it.",
        ("lead", "lead_out"),
        ("lead_in",),
    )


def _draw_by_group(
    inputs: Inputs,
    name: str,
    title: str,
    axis: str,
    about: str,
    points: tuple[str, ...],
    ticks: tuple[str, ...] = (),
    *,
    zero: bool = True,
) -> Chart | Missing:
    """Return a chart with a picture per shift and a row for every group, or a reason for none.

    Args:
        inputs: the figures.
        name: the beginning of the pictures' names.
        title: the chart's title.
        axis: the label of the axis.
        about: sentences that explain the chart.
        points: the names of figures that are drawn as markers with intervals.
        ticks: the names of figures that are drawn as ticks.
        zero: whether the axis contains 0.
    """
    rows, in_ticks = inputs.figures.where(figure=points), inputs.figures.where(figure=ticks)
    if not rows:
        return reason_without_loss(inputs.result.scores)
    is_share = FIGURES[points[0]].unit == "share"
    scale = 100 if is_share or inputs.measure.percent else 1
    plain = [row.with_value(row.value, None) for row in in_ticks]
    limits = limits_of([*rows, *plain], scale, zero=zero)
    pictures = []
    for (shift_name,), figures in rows.each("shift"):
        shift, with_ticks = get_shift(shift_name), in_ticks.where(shift=shift_name)
        groups, systems = rows_of(shift, figures), len(figures.names("system"))
        height = len(groups) * max(0.32, ROW * systems + 0.06) + 0.17 * systems + 0.85
        drawing, ax = blank_axes(height)
        draw_groups(
            ax,
            groups,
            figures,
            inputs.looks,
            limits=limits,
            groups=inputs.groups(shift),
            ticks=with_ticks,
            scale=scale,
            title=shift.title,
        )
        ax.set_xlabel(axis)
        drawn = Figures([*with_ticks, *figures])
        words = ". ".join(
            f"{system}, {FIGURES[figure].title}: "
            + ", ".join(f"{row.group} {WITH_ENDS.text(row)}" for row in of_system)
            for (system, figure), of_system in drawn.each("system", "figure")
        )
        words = f"{shift.title}, a row for each group. {words}."
        pictures.append(Picture(f"{name}-{shift.name}", words, drawn, drawing))
    return Chart(title, sentences(about, *_intervals(inputs, rows), sizes_of(rows)), pictures)


def _intervals(inputs: Inputs, figures: Figures) -> Iterator[str]:
    """Yield sentences that explain the figures' intervals, markers and marks of significance."""
    if any(row.interval for row in figures):
        level = level_text(inputs.settings.confidence)
        yield f"Lines are {level} intervals; very long lines are cut."
    if 1 in figures.names("seeds"):
        yield "White markers have one seed: their intervals include the variance of queries only."
    if note := note_of(figures):
        yield f"{note}."


def draw_matrices(inputs: Inputs) -> Chart:
    """Return a chart of every model's score on every group; the page hides all but one system."""
    measure, pictures = inputs.measure, []
    scored = inputs.figures.where(figure="model_score")
    for shift, scores in inputs.shifts:
        untrained = [part.system for part in scores if not part.trained_per_group]
        # Untrained systems are the last rows of every matrix, or have a matrix for themselves.
        trained = [part.system for part in scores if part.trained_per_group] or [""]
        for number, system in enumerate(trained):
            drawing, ax = blank_axes(
                _CELL * (len(untrained) + (len(shift.groups) if system else 0)) + 1.0
            )
            about = shift, measure, inputs.figures, inputs.groups(shift)
            words = _draw_matrix(ax, *about, system, untrained)
            ax.set_title(": ".join(filter(None, (shift.title, shorten(system, LETTERS)))), **TITLE)
            name = "-".join(filter(None, ("matrix", shift.name, system))).replace("/", "-")
            words = f"{shift.title}, models by groups ({', '.join(shift.tested)}). {words}."
            rows = scored.where(shift=shift.name, system=(system, *untrained))
            pictures.append(Picture(name, words, rows, drawing, is_folded=number > 0))
    caption = (
        f"{measure.mean_name}{scale_of([measure])} with {level_text(inputs.settings.confidence)} "
        "intervals. Rows are models, columns the groups of test queries; framed cells are "
        f"zero-shot. Darker cells have a larger loss relative to the group's Avg In, up to "
        f"{100 * _DARKEST:.0f}% or more."
    )
    title = "How does each model score on each group?"
    return Chart(title, sentences(caption, sizes_of(scored)), pictures)


def _draw_matrix(
    ax: Axes,
    shift: Shift,
    measure: Measure,
    figures: Figures,
    described: Mapping[str, str],
    system: str,
    untrained: Sequence[str] = (),
) -> str:
    """Draw the scores of a system's models and of untrained systems; return them in words.

    If `system` is "", only untrained systems are drawn.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    of_systems = figures.where(
        shift=shift.name, measure=measure.name, system=(system, *untrained), slice=""
    )
    means, groups = of_systems.where(figure="model_score"), list(shift.tested)
    levels = {row.group: row.number for row in of_systems.where(figure="avg_in")}
    models = [
        *((system, model, shift.training_of(model)) for model in shift.groups if system),
        *((name, FOR_ALL, shorten(name, 16)) for name in untrained),
    ]
    lost, words = np.full((len(models), len(groups)), math.nan), []
    for row, (name, model, title) in enumerate(models):
        of_model = [means.first(system=name, model=model, group=group) for group in groups]
        shown = ("-" if mean is None else measure.show(mean.value) for mean in of_model)
        words.append(f"{title}: {', '.join(shown)}")
        for column, (group, mean) in enumerate(zip(groups, of_model, strict=True)):
            if mean is None:
                continue
            level = levels.get(group)
            lost[row, column] = rel_loss(level, mean.number, measure.sign) if level else 0.0
            weight = "normal"
            if model == shift.out_model(group):
                corner, weight = (column - 0.47, row - 0.45), "bold"
                # The frame is drawn above lines between rows, which would cross it.
                ax.add_patch(
                    Rectangle(corner, 0.94, 0.9, fill=False, lw=1.2, edgecolor=INK, zorder=2.5)
                ).set_clip_on(False)
            y, text = row - (0.15 if mean.interval else 0), measure.show(mean.value)
            ax.text(column, y, text, fontsize=8, fontweight=weight, **MIDDLE)
            if mean.high is not None:
                note = f"± {measure.show(mean.high - mean.number)}"
                ax.text(column, row + 0.24, note, fontsize=6.4, **MIDDLE)
    shades = np.round(np.clip(lost / _DARKEST, 0, 1) * (len(SHADES) - 1))
    across, down = (np.arange(count + 1) - 0.5 for count in (len(groups), len(models)))
    shown_as, highest = ListedColormap(SHADES), len(SHADES) - 0.5
    ax.pcolormesh(across, down, shades, cmap=shown_as, vmin=-0.5, vmax=highest)
    named = (
        f"{group}: {described.get(group, group)}".removesuffix(f": {group}") for group in groups
    )
    width = _COLUMN_LETTERS // len(groups)
    names = [fill(name, width, max_lines=3, placeholder=" …") for name in named]
    ax.set_xticks(range(len(groups)), names, fontsize=7)
    ax.set_yticks(range(len(models)), [title for *_, title in models], fontsize=8)
    ax.set(xlim=(-0.5, len(groups) - 0.5), ylim=(len(models) - 0.5, -0.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if system and untrained:
        ax.axhline(len(shift.groups) - 0.5, color="white", lw=3)
    ax.set_xlabel("test queries of")
    return "; ".join(words)


_WIDTH = 6.25
_PIXELS_PER_INCH = 192
"""Resolution of a PNG: twice the 96 of a page, for screens with high resolution."""

_MOST_PIXELS = 60_000
"""Maximum height of a PNG in pixels; the limit of matplotlib is 65,535."""

_NOTE = 112
"""Maximum length of a line of the notes."""

_Panel = tuple[str, float, Callable[[Any], object]]
"""Title, height in inches, and function that draws on the axes."""


def draw_result(result: Result, path: str | Path) -> None:
    """Draw the losses of systems with their intervals, and the matrix of each, shift by shift.

    Args:
        result: a result of `evaluate_run_sets`, `evaluate` or `compare_run_sets`.
        path: the file to write; its extension determines the format: SVG, PNG or PDF. Equal results
            give equal pictures, but the last digits of coordinates in files may differ.

    Raises:
        UnknownNameError: if the extension is not a format.
        MissingExtraError: if matplotlib is not installed.
        UsageError: if the result contains no scores of run sets on the groups of a shift.

    Examples:
        >>> result = evaluate_run_sets("runs", shifts=["length"])
        >>> draw_result(result, "losses.svg")
        >>> Path("losses.svg").read_text().startswith("<?xml")
        True
    """
    check_plot(path)
    if not result.figures.where(figure="model_score"):
        raise UsageError(
            f"a result of kind {result.kind!r} contains no scores of run sets on the groups of a "
            "shift; draw a result of evaluate_run_sets"
        )
    from matplotlib.figure import Figure as Drawing

    panels = list(_panels(result))
    notes = [line for note in _notes(result) for line in wrap(note, _NOTE)]
    heights = [*(height for _, height, _ in panels), 0.16 * len(notes) + 0.1]
    with picture_style():
        drawing = Drawing(figsize=(_WIDTH, sum(heights)), layout="constrained")
        parts = drawing.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (title, _, draw) in zip(parts, panels, strict=False):
            part.suptitle(title, fontsize=10, fontweight="bold")
            draw(part.subplots())
        parts[-1].text(0.015, 0.98, "\n".join(notes), va="top", fontsize=7.5, color=PALE_INK)
        density = min(_PIXELS_PER_INCH, _MOST_PIXELS / drawing.get_figheight())
        write_picture(drawing, path, "Rel Loss and matrices", density=density)


def _panels(result: Result) -> Iterator[_Panel]:
    """Yield panels for each shift and measure.

    First the losses, if there are any; then one matrix of all systems not trained per group, and
    one for each system trained per group.
    """
    looks = styles_of(part.system for part in result.scores)
    for (name, measured), figures in result.figures.where(slice="").each("shift", "measure"):
        shift, measure = get_shift(name), parse_measure(measured)
        title = f"{shift.title} ({shift.name}), {measure.mean_name}{scale_of([measure])}"
        groups = result.data.groups.get(name, {})
        if losses := figures.where(figure="rel_loss"):
            count = len(losses.names("system"))
            height = (len(shift.tested) + 1) * max(0.3, 0.15 * count + 0.1) + 0.2 * count + 0.75
            options: dict[str, Any] = {
                "looks": looks,
                "groups": groups,
                "rows": rows_of(shift, losses),
            }
            panel = partial(
                draw_groups, figures=losses, limits=limits_of(losses, zero=True), **options
            )
            yield f"{title}: Rel Loss in %", height, panel
        scores = [part for part in result.scores if part.shift_name == name]
        untrained = [part.system for part in scores if not part.trained_per_group]
        matrices = [("", untrained, "one model for all groups")] if untrained else []
        for part in scores:
            partly = " (partial)" if part.missing_files else ""
            if part.trained_per_group:
                matrices.append((part.system, [], f"{shorten(part.system, LETTERS)}{partly}"))
        for system, others, heading in matrices:
            options = {"shift": shift, "measure": measure, "figures": figures, "described": groups}
            draw = partial(_draw_matrix, **options, system=system, untrained=others)
            yield f"{title}: {heading}", _CELL * (len(others) or len(shift.groups)) + 1, draw


def _notes(result: Result) -> Iterator[str]:
    losses = result.figures.where(figure="rel_loss", slice="")
    if losses:
        level = level_text(result.settings["confidence"])
        yield (
            "Right of 0, the model trained without the group is worse. Lines: "
            f"{level} intervals, of queries and seeds; with one seed (white markers) of "
            "queries only. Very long lines are cut."
        )
    if note := note_of(losses):
        yield f"{note}."
    if any(part.trained_per_group for part in result.scores):
        yield (
            "Matrices: rows are models, columns the groups of test queries; framed: zero-shot. "
            "Darker: a larger loss relative to the group's Avg In."
        )
    shifts = result.figures.names("shift")
    yield "; ".join([*data_notes(result.data), *data_caveats(result.data, shifts)])
