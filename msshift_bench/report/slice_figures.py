"""Losses by slice: question word, length and topic inside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from msshift_bench.evaluation import FEWEST_IN_SLICE, Measure, SystemResult
from msshift_bench.output import LINE, PALE_INK, Look, shorten, show_percent
from msshift_bench.report.loss_figures import losses_of
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure, Value, blank_figure
from msshift_bench.shifts import Shift

__all__ = ["SlicedBy", "draw_slices"]

_COLUMNS = (
    "shift", "system", "measure", "sliced_by", "slice", "rel_loss", "low", "high", "queries",
    "seeds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlicedBy:
    """The systems of a shift on some of its queries, all groups together.

    Attributes:
        title: what the queries are sliced by.
        slices: label -> the systems on the queries with that label.
    """

    title: str
    slices: Mapping[str, Sequence[SystemResult]]


@dataclass(frozen=True, slots=True)
class _SliceLoss:
    system: str
    sliced_by: str
    label: str
    queries: int
    seeds: int
    rel_loss: float
    ends: tuple[float, float] | None

    def row(self, shift: Shift, measure: Measure) -> list[Value]:
        return [
            shift.name,
            self.system,
            measure.name,
            self.sliced_by,
            self.label,
            self.rel_loss,
            *(self.ends or (None, None)),
            self.queries,
            self.seeds,
        ]


def draw_slices(
    shift: Shift, parts: Sequence[SlicedBy], measure: Measure, looks: Mapping[str, Look]
) -> Drawn:
    """Draw what every system loses on the queries of each slice.

    Args:
        shift: the shift whose groups are held out.
        parts: the slices, by what they are sliced by.
        measure: the measure.
        looks: system -> how it is drawn.
    """
    title = f"{shift.title}: losses by slice"
    found = [one for part in parts for one in _slice_losses(part, measure)]
    if not found:
        return LeftOut(
            title,
            f"no slice of {FEWEST_IN_SLICE} test queries or more has a loss",
            "run a system that is trained without each group in turn, e.g. "
            "`msshift baseline run bi-encoder`",
        )
    places = list(dict.fromkeys((one.sliced_by, one.label) for one in found))
    systems = list(dict.fromkeys(one.system for one in found))
    figure = blank_figure(0.6 + len(places) * (0.13 * len(systems) + 0.1) + 0.17 * len(systems))
    ax = figure.subplots()
    for at, (before, after) in enumerate(pairwise(places)):
        same = before[0] == after[0]
        ax.axhline(at + 0.5, color=LINE if same else PALE_INK, lw=0.5 if same else 0.8, zorder=0)
    for one in found:
        look = looks[one.system]
        place = systems.index(one.system) - (len(systems) - 1) / 2
        y = places.index((one.sliced_by, one.label)) + place * 0.75 / len(systems)
        if one.ends is not None:
            ax.plot([100 * end for end in one.ends], [y, y], color=look.colour, lw=1.2)
        fill = "white" if one.seeds == 1 else look.colour
        ax.plot(100 * one.rel_loss, y, look.marker, color=look.colour, ms=4, markerfacecolor=fill)
    for system in systems:
        look = looks[system]
        ax.plot([], [], look.marker, color=look.colour, label=shorten(system, 30))
    ax.axvline(0, color=PALE_INK, lw=0.8, zorder=0)
    low, high = _limits(found)
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_ylim(len(places) - 0.45, -0.55)
    counts = {(one.sliced_by, one.label): one.queries for one in found}
    ax.set_yticks(range(len(places)), [f"{key[1]} (n = {counts[key]:,})" for key in places])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("Rel Loss (%), all held-out groups together")
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False)
    worst = max(found, key=lambda one: one.rel_loss)
    by = ", then ".join(dict.fromkeys(one.sliced_by for one in found))
    return ReportFigure(
        f"slices-{shift.name}",
        title,
        f"Rel Loss in {measure.mean_name} on the test queries of each slice, by {by}; every query "
        "counts alike, with the model that never saw its group as Out. n is the number of test "
        f"queries; slices of fewer than {FEWEST_IN_SLICE} are left out. Lines are intervals, cut "
        "where they reach far; white markers rest on one seed.",
        f"Dots with intervals, a row per slice, by {by}. The greatest loss is "
        f"{show_percent(worst.rel_loss)}, of {worst.system} on {worst.label} ({worst.queries:,} "
        "queries).",
        _COLUMNS,
        [one.row(shift, measure) for one in found],
        figure,
    )


def _slice_losses(part: SlicedBy, measure: Measure) -> Iterator[_SliceLoss]:
    for label, results in part.slices.items():
        for result, loss in losses_of(results, measure):
            queries = sum(one.queries for one in loss.groups.values())
            if loss.rel_loss is not None and queries >= FEWEST_IN_SLICE:
                ends = None if loss.intervals is None else loss.intervals.rel_loss
                yield _SliceLoss(
                    result.system, part.title, label, queries, loss.seeds, loss.rel_loss, ends
                )


def _limits(found: Sequence[_SliceLoss]) -> tuple[float, float]:
    """Return the ends of the axis in per cent, which cuts intervals that reach far."""
    values = [0.0, *(100 * one.rel_loss for one in found)]
    ends = [100 * end for one in found for end in one.ends or ()]
    room = max(max(values) - min(values), 10.0)
    return max(min(ends + values), min(values) - room), min(max(ends + values), max(values) + room)
