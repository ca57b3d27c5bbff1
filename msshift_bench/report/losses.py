"""What is lost: Rel Loss by group, Avg In against Out, and every model on every group.

`loss_pictures` draws it for a report, `draw_result` as one picture of a result, for a page 600
pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench.errors import UsageError
from msshift_bench.evaluation import (
    WHOLE,
    Measure,
    Result,
    Scores,
    data_notes,
    parse_measure,
    scale_of,
)
from msshift_bench.output import (
    INK,
    LINE,
    PALE_INK,
    SHADES,
    Look,
    check_plot,
    looks_of,
    note_of,
    picture_style,
    say_level,
    shorten,
    show_percent,
    show_percent_interval,
    write_picture,
)
from msshift_bench.report.drawing import (
    LETTERS,
    MIDDLE,
    NotDrawn,
    Picture,
    blank_axes,
    blank_drawing,
    count_seeds,
    draw_losses,
    draw_points,
    file_name,
    group_rows,
    rule_between,
    say_sizes,
    say_system,
    spread,
)
from msshift_bench.report.inputs import Inputs, why_no_loss
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.stats import Figures, rel_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALL = 7
"""The size of the names of marks, in points."""

_SIDE = 200
"""The least side of a square panel, in points."""

_DARKEST = 0.25
"""The loss, as a share of Avg In, that has the darkest shade, unless a system loses more."""

_CELL = 0.36
"""Inches of a row of a matrix."""


def loss_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw what every system loses, then what it scores, shift by shift."""
    yield _rel_loss(inputs)
    for shift, scores in inputs.shifts:
        yield _in_out(inputs, shift, scores)
    for shift, scores in inputs.shifts:
        untrained = [part.system for part in scores if not part.trained_per_group]
        # Untrained systems are the last rows of every matrix; alone, they make one of their own.
        for system in [part.system for part in scores if part.trained_per_group] or [""]:
            yield _matrix(inputs, shift, system, untrained)


def _rel_loss(inputs: Inputs) -> Picture | NotDrawn:
    """Draw what every system loses on every group and on the whole, a panel per shift."""
    title = "Rel Loss by shift"
    shifts = [(shift, inputs.figures(shift, "rel_loss")) for shift, _ in inputs.shifts]
    panels = [(shift, losses) for shift, losses in shifts if losses]
    if not panels:
        return NotDrawn(title, *why_no_loss(part for _, scores in inputs.shifts for part in scores))
    heights = [
        (len(shift.tested) + 1) * (0.15 * len(losses.names("system")) + 0.12) + 0.5
        for shift, losses in panels
    ]
    drawing = blank_drawing(sum(heights) + 0.22 * math.ceil(len(inputs.looks) / 2))
    parts = drawing.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, (shift, losses) in enumerate(panels):
        ax = parts[place].subplots()
        _draw_losses(ax, shift, losses, inputs.looks, legend=place == 0)
        ax.set(ylabel=shift.title, xlabel="Rel Loss (%)" if place == len(panels) - 1 else "")
    rows = Figures([row for _, losses in panels for row in losses])
    sizes = "; ".join(f"{shift.title}: {say_sizes(losses)}" for shift, losses in panels)
    level, note = say_level(inputs.settings.confidence), note_of(rows)
    caption = [
        f"Rel Loss in {inputs.measure.mean_name}, in per cent of Avg In; right of 0 the model that "
        "never saw the group is worse.",
        f"Lines are {level} intervals, cut where they reach far."
        if any(row.interval for row in rows)
        else "",
        "White markers rest on one seed: their intervals count queries only."
        if 1 in rows.names("seeds")
        else "",
        f"{note}." if note else "",
        f"Test queries: {sizes}.",
    ]
    worst = ". ".join(text for shift, losses in panels for text in _worst_losses(shift, losses))
    alternative = f"Dots with intervals, one row per group. {worst}."
    return Picture("rel-loss", title, " ".join(filter(None, caption)), alternative, rows, drawing)


def _draw_losses(
    ax: Axes, shift: Shift, losses: Figures, looks: Mapping[str, Look], *, legend: bool = True
) -> None:
    """Draw the losses of systems on the groups of a shift, and below a line on average."""
    rows = group_rows(shift, losses)
    draw_losses(ax, losses, looks, rows, legend=legend)
    rule_between(ax, [row in WHOLE for row in rows])


def _worst_losses(shift: Shift, losses: Figures) -> Iterator[str]:
    """Yield what each system loses on average and at most, in words."""
    for (system,), of_system in losses.each("system"):
        mean = of_system.where(group=WHOLE)[0]
        known = [row for row in of_system if row.group not in WHOLE and row.value is not None]
        if known:
            worst = max(known, key=lambda row: row.number)
            yield (
                f"{system} on {shift.title.lower()} loses {show_percent(mean.value)} on average, "
                f"interval {show_percent_interval(mean.interval)} ({count_seeds(mean.seeds)}), and "
                f"most on {worst.group}: {show_percent(worst.value)}"
            )


def _joined(
    names: Sequence[tuple[float, float, str]], point: float
) -> list[tuple[float, float, str]]:
    """Return names of marks at their places, one text for those that would cover each other.

    Args:
        names: the place and the name of each mark.
        point: the length of a typographic point.
    """
    joined: list[tuple[float, float, str]] = []
    for x, y, name in sorted(names):
        for place, (left, up, text) in enumerate(joined):
            width = 0.65 * _SMALL * len(text)
            if abs(y - up) < 1.4 * _SMALL * point and x - left < width * point:
                joined[place] = (left, up, text if name in text.split(", ") else f"{text}, {name}")
                break
        else:
            joined.append((x, y, name))
    return joined


def _in_out(inputs: Inputs, shift: Shift, scores: Sequence[Scores]) -> Picture | NotDrawn:
    """Draw Out of every system and group over its Avg In."""
    title, measure = f"{shift.title}: Avg In against Out", inputs.measure
    rows = Figures(
        [row for row in inputs.figures(shift, "avg_in", "out") if row.group not in WHOLE]
    )
    if not rows:
        return NotDrawn(title, *why_no_loss(scores))
    scale = 100 if measure.percent else 1
    systems = list(rows.each("system"))
    drawing, ax = blank_axes(3.9 + 0.17 * len(systems))
    worse, names = 0, list[tuple[float, float, str]]()
    for (system,), of_system in systems:
        look, is_hollow = inputs.looks[system], of_system[0].seeds == 1
        x, across = spread(of_system.where(figure="avg_in"), scale)
        y, up = spread(of_system.where(figure="out"), scale)
        lines = {"xerr": across, "yerr": up, "elinewidth": 0.8, "ecolor": (look.colour, 0.55)}
        draw_points(ax, look, x, y, is_hollow=is_hollow, ms=5, **lines)
        draw_points(ax, look, [], [], is_hollow=is_hollow, label=say_system(of_system))
        names += zip(x, y, of_system.names("group"), strict=True)
        worse += int((measure.sign * (x - y) > 0).sum())
    values, reach = spread(rows, scale)
    ends = np.concatenate([values, values - reach[0], values + reach[1]])
    room = 0.06 * (np.nanmax(ends) - np.nanmin(ends) or 1.0)
    low, high = max(0.0, np.nanmin(ends) - room), np.nanmax(ends) + room
    ax.plot([low, high], [low, high], color=PALE_INK, lw=0.9, zorder=0)
    for share in (0.1, 0.2):
        left = 1 - measure.sign * share
        ax.plot([low, high], [low * left, high * left], color=LINE, lw=0.8, zorder=0)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    for x_of, y_of, text in _joined(names, (high - low) / _SIDE):
        ax.annotate(text, (x_of, y_of), (4, 3), textcoords="offset points", fontsize=_SMALL)
    unit = f"{measure.mean_name}{scale_of([measure])}"
    ax.set(xlabel=f"Avg In ({unit})", ylabel=f"Out ({unit})")
    ax.legend(loc="upper left", frameon=False, fontsize=8)
    side = "below" if measure.higher_is_better else "above"
    return Picture(
        f"in-out-{shift.name}",
        title,
        "Each mark is a system on a group, with the intervals of both figures and the group's name "
        "at its upper right; close marks share one text. On the dark line nothing is lost; the "
        f"pale lines {side} it are a Rel Loss of 10% and 20%. White marks rest on one seed. "
        f"Test queries: {say_sizes(rows.where(figure='out'))}.",
        f"A scatter of Out over Avg In, with the line where both are equal: {worse} of "
        f"{len(rows) // 2} marks lie {side} it, where the model that never saw the group is worse.",
        rows,
        drawing,
    )


def _matrix(inputs: Inputs, shift: Shift, system: str, untrained: Sequence[str]) -> Picture:
    """Draw the means of the models of a system, if there is one, and of untrained systems."""
    measure = inputs.measure
    rows = len(untrained) + (len(shift.groups) if system else 0)
    drawing, ax = blank_axes(_CELL * rows + 0.45)
    in_words = _draw_matrix(ax, shift, measure, inputs.result.figures, system, untrained)
    what = f"every model of {system}" if system else "systems with one model for all groups"
    return Picture(
        file_name("matrix", shift.name, system) if system else f"matrix-{shift.name}",
        f"{shift.title}: {what} on every group",
        _matrix_caption(inputs, shift, system, untrained),
        f"A grid of {measure.mean_name}, models by groups ({', '.join(shift.tested)}). {in_words}.",
        inputs.figures(shift, "model_score").where(system=(system, *untrained)),
        drawing,
    )


def _draw_matrix(
    ax: Axes,
    shift: Shift,
    measure: Measure,
    figures: Figures,
    system: str,
    untrained: Sequence[str] = (),
) -> str:
    """Draw the means of the models of a system, and of untrained systems; return them in words."""
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
        of_model = means.where(system=name, model=model)
        words.append(f"{title}: ")
        for column, group in enumerate(groups):
            mean, level = of_model.first(group=group), levels.get(group)
            words[row] += ", " * (column > 0) + ("-" if mean is None else measure.show(mean.value))
            if mean is None:
                continue
            lost[row, column] = rel_loss(level, mean.number, measure.sign) if level else 0.0
            weight = "normal"
            if model == shift.unseen_by(group):
                corner, weight = (column - 0.47, row - 0.45), "bold"
                # Above lines between rows, which would cut it.
                ax.add_patch(
                    Rectangle(corner, 0.94, 0.9, fill=False, lw=1.2, edgecolor=INK, zorder=2.5)
                ).set_clip_on(False)
            y, text = row - (0.15 if mean.interval else 0), measure.show(mean.value)
            ax.text(column, y, text, fontsize=8, fontweight=weight, **MIDDLE)
            if mean.high is not None:
                note = f"± {measure.show(mean.high - mean.number)}"
                ax.text(column, row + 0.24, note, fontsize=5.8, **MIDDLE)
    shades = np.round(
        np.clip(lost / np.nanmax(np.append(lost, _DARKEST)), 0, 1) * (len(SHADES) - 1)
    )
    across, down = (np.arange(count + 1) - 0.5 for count in (len(groups), len(models)))
    shown_as, highest = ListedColormap(SHADES), len(SHADES) - 0.5
    ax.pcolormesh(across, down, shades, cmap=shown_as, vmin=-0.5, vmax=highest)
    ax.set_xticks(range(len(groups)), groups)
    ax.set_yticks(range(len(models)), [title for *_, title in models])
    ax.set(xlim=(-0.5, len(groups) - 0.5), ylim=(len(models) - 0.5, -0.5))
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
    if system and untrained:
        ax.axhline(len(shift.groups) - 0.5, color="white", lw=3)
    ax.set_xlabel("test queries of")
    return "; ".join(words)


def _matrix_caption(inputs: Inputs, shift: Shift, system: str, untrained: Sequence[str]) -> str:
    level = say_level(inputs.settings.confidence)
    losses = inputs.figures(shift, "rel_loss").where(system=system)
    (groups,) = (scores[0].groups for drawn, scores in inputs.shifts if drawn == shift)
    sizes = ", ".join(f"{group} {len(queries):,}" for group, queries in groups.items())
    caption = [
        f"{shift.title}, {inputs.measure.mean_name}{scale_of([inputs.measure])} with {level} "
        "intervals.",
        f"Rows are the models trained {shift.training_of('a group')}, columns the group whose test "
        "queries count; framed cells are zero-shot. Darker: further below the group's Avg In."
        if system
        else "",
        f"{count_seeds(losses[0].seeds).capitalize()}." if losses else "",
        f"{', '.join(untrained)}: one model for all groups." if untrained else "",
        f"Test queries: {sizes}.",
    ]
    return " ".join(filter(None, caption))


_WIDTH = 6.25
_PIXELS_PER_INCH = 192
"""Of a PNG: twice the 96 of a page, for screens that show four pixels in the place of one."""

_MOST_PIXELS = 60_000
"""Of a PNG's height; matplotlib draws no more than 65,535."""

_NOTE = 112
"""Letters of a line of the notes."""

_Panel = tuple[str, float, Callable[[Any], object]]
"""Its title, its height in inches, and what draws it."""


def draw_result(result: Result, path: str | Path) -> None:
    """Draw the losses of systems with their intervals, and the matrix of each, shift by shift.

    Args:
        result: what `evaluate_run_sets`, `evaluate` or `compare_run_sets` returned.
        path: the file to write: SVG, PNG or PDF, by its ending. Equal results give equal pictures;
            their bytes may differ in the last digits of the layout.

    Raises:
        UnknownNameError: if its name ends on no format.
        MissingExtraError: if matplotlib is not installed.
        UsageError: if the result holds no scores of run sets on the groups of a shift.

    Examples:
        >>> result = evaluate_run_sets("runs", shifts=["length"])
        >>> draw_result(result, "losses.svg")
        >>> Path("losses.svg").read_text().startswith("<?xml")
        True
    """
    check_plot(path)
    if not result.figures.where(figure="model_score"):
        raise UsageError(
            f"a result of kind {result.kind!r} holds no scores of run sets on the groups of a "
            "shift; draw what evaluate_run_sets returns"
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
    """Yield the losses on a shift by a measure, and the matrix of every system below them."""
    looks = looks_of(part.system for part in result.scores)
    for (name, measured), figures in result.figures.where(slice="").each("shift", "measure"):
        shift, measure = get_shift(name), parse_measure(measured)
        title = f"{shift.title} ({shift.name}), {measure.mean_name}{scale_of([measure])}"
        losses = figures.where(figure="rel_loss")
        count = len(losses.names("system"))
        if losses:
            height = (len(shift.tested) + 1) * (0.15 * count + 0.1) + 0.2 * math.ceil(count / 2)
            panel = partial(_draw_losses, shift=shift, losses=losses, looks=looks)
            yield f"{title}: Rel Loss in %", height + 0.75, panel
        scores = [part for part in result.scores if part.shift_name == name]
        untrained = [part.system for part in scores if not part.trained_per_group]
        matrices = [("", untrained, "one model for all groups")] if untrained else []
        for part in scores:
            partly = " (partial)" if part.missing_files else ""
            if part.trained_per_group:
                matrices.append((part.system, [], f"{shorten(part.system, LETTERS)}{partly}"))
        for system, others, heading in matrices:
            about: dict[str, Any] = {"shift": shift, "measure": measure, "figures": figures}
            draw = partial(_draw_matrix, **about, system=system, untrained=others)
            height = _CELL * (len(others) or len(shift.groups)) + 0.75
            yield f"{title}: {heading}", height, draw


def _notes(result: Result) -> Iterator[str]:
    losses = result.figures.where(figure="rel_loss", slice="")
    if losses:
        level = say_level(result.settings["confidence"])
        yield (
            "Right of 0, the model that never saw the group is worse. Lines: "
            f"{level} intervals, of queries and seeds; with one seed (white markers) of "
            "queries only. The axis cuts what reaches far beyond all losses."
        )
    note = note_of(losses)
    if note:
        yield f"{note}."
    if any(part.trained_per_group for part in result.scores):
        yield (
            "Matrices: rows are models, columns the group whose test queries count; framed: zero-"
            "shot. Darker: further below the group's Avg In."
        )
    yield "; ".join(data_notes(result.data, result.figures.names("shift")))
