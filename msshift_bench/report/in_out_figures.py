"""Avg In against Out: what a system reaches where it has seen the group, and where it has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msshift_bench.evaluation import Measure, SystemResult
from msshift_bench.output import LINE, PALE_INK, Look, shorten
from msshift_bench.report.loss_figures import losses_of
from msshift_bench.report.named_points import NamedPoint, name_points
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure, Value, blank_figure

__all__ = ["draw_in_out"]

_COLUMNS = (
    "shift", "system", "measure", "group",
    "avg_in", "avg_in_low", "avg_in_high", "out", "out_low", "out_high", "queries", "seeds",
)  # fmt: skip
_LETTERS = 30


def draw_in_out(
    results: Sequence[SystemResult], measure: Measure, looks: Mapping[str, Look]
) -> Drawn:
    """Draw Out of every system and group over its Avg In.

    Args:
        results: the systems of one shift.
        measure: the measure.
        looks: system -> how it is drawn.
    """
    shift = results[0].shift
    title = f"{shift.title}: Avg In against Out"
    losses = losses_of(results, measure)
    if not losses:
        return LeftOut(
            title,
            "no system was trained without each group in turn",
            "run one, e.g. `msshift baseline run bi-encoder`",
        )
    scale = 100 if measure.percent else 1
    rows: list[list[Value]] = []
    figure = blank_figure(3.9 + 0.17 * len(losses))
    ax = figure.subplots()
    places = []
    for result, loss in losses:
        look = looks[result.system]
        for group, one in loss.groups.items():
            ends = one.intervals
            avg_in, out = scale * one.avg_in, scale * one.out
            if ends is not None:
                for x, y in (
                    ([scale * end for end in ends.avg_in], [out, out]),
                    ([avg_in, avg_in], [scale * end for end in ends.out]),
                ):
                    ax.plot(x, y, color=look.colour, lw=0.8, alpha=0.55)
            ax.plot(
                avg_in,
                out,
                look.marker,
                color=look.colour,
                markersize=5,
                markerfacecolor="white" if loss.seeds == 1 else look.colour,
            )
            places.append(NamedPoint(avg_in, out, group))
            rows.append(
                [
                    shift.name,
                    result.system,
                    measure.name,
                    group,
                    one.avg_in,
                    *((None, None) if ends is None else ends.avg_in),
                    one.out,
                    *((None, None) if ends is None else ends.out),
                    one.queries,
                    loss.seeds,
                ]
            )
        seeds = "one seed" if loss.seeds == 1 else f"{loss.seeds} seeds"
        ax.plot(
            [],
            [],
            look.marker,
            color=look.colour,
            markerfacecolor="white" if loss.seeds == 1 else look.colour,
            label=f"{shorten(result.system, _LETTERS)}, {seeds}",
        )
    low, high = _limits(rows, scale)
    ax.plot([low, high], [low, high], color=PALE_INK, lw=0.9, zorder=0)
    for share in (0.1, 0.2):
        sign = -share if measure.higher_is_better else share
        ax.plot([low, high], [low * (1 + sign), high * (1 + sign)], color=LINE, lw=0.8, zorder=0)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    name_points(ax, places, inches=3.9)
    unit = f"{measure.mean_name}{' x 100' if measure.percent else ''}"
    ax.set_xlabel(f"Avg In ({unit})")
    ax.set_ylabel(f"Out ({unit})")
    ax.set_aspect("equal")
    ax.legend(loc="upper left", frameon=False, fontsize=8)
    counts = ", ".join(f"{g} {one.queries:,}" for g, one in losses[0][1].groups.items())
    side = "below" if measure.higher_is_better else "above"
    worse = sum(_is_worse(row, measure) for row in rows)
    return ReportFigure(
        f"in-out-{shift.name}",
        title,
        f"Each mark is a system on a group, with the intervals of both figures. On the dark line "
        f"nothing is lost; the pale lines {side} it are a Rel Loss of 10% and 20%. White marks "
        f"rest on one seed. Test queries: {counts}.",
        f"A scatter of Out over Avg In, with the line where both are equal: {worse} of "
        f"{len(rows)} marks lie {side} it, where the model that never saw the group is worse.",
        _COLUMNS,
        rows,
        figure,
    )


def _is_worse(row: Sequence[Value], measure: Measure) -> bool:
    avg_in, out = row[4], row[7]
    assert isinstance(avg_in, float)
    assert isinstance(out, float)
    return out < avg_in if measure.higher_is_better else out > avg_in


def _limits(rows: Sequence[Sequence[Value]], scale: float) -> tuple[float, float]:
    ends = [scale * end for row in rows for end in row[4:10] if isinstance(end, float)]
    room = 0.06 * (max(ends) - min(ends) or 1.0)
    return max(0.0, min(ends) - room), max(ends) + room
