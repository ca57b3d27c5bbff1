"""How sure the losses are: seeds against queries, and what other orders of ties would give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from msshift_bench.evaluation import Cell, Measure, SystemResult
from msshift_bench.output import LINE, PALE_INK, Look, shorten
from msshift_bench.report.loss_figures import losses_of
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure, Value, blank_figure
from msshift_bench.stats import GroupLoss, ShiftLoss

__all__ = ["draw_ties", "draw_variances"]

_VARIANCE_COLUMNS = (
    "shift", "system", "measure", "group", "sd_from_queries", "sd_from_seeds", "seed_share",
    "queries", "seeds",
)  # fmt: skip
_TIE_COLUMNS = (
    "shift", "system", "measure", "held_out", "group", "score", "worst", "best", "tied", "queries",
)  # fmt: skip


def draw_variances(
    results: Sequence[SystemResult], measure: Measure, looks: Mapping[str, Look]
) -> Drawn:
    """Draw what other queries and other seeds would change of every Rel Loss.

    Args:
        results: the systems of one shift.
        measure: the measure.
        looks: system -> how it is drawn.
    """
    shift = results[0].shift
    title = f"{shift.title}: seeds against queries"
    losses = [(one, loss) for one, loss in losses_of(results, measure) if loss.seeds > 1]
    if not losses:
        return LeftOut(
            title,
            "no Rel Loss rests on two seeds or more, so nothing is known of other trainings",
            "train each model more than once, e.g. `msshift baseline run bi-encoder --seeds 3`",
        )
    groups = list(shift.tested)
    whole = "all queries" if losses[0][1].average == "pooled" else "mean"
    rows: list[list[Value]] = []
    figure = blank_figure(0.75 + (len(groups) + 1) * (0.15 * len(losses) + 0.1))
    ax = figure.subplots()
    for number, (result, loss) in enumerate(losses):
        look = looks[result.system]
        parts: list[tuple[str, GroupLoss | ShiftLoss | None, int]] = [
            *((g, found := loss.groups.get(g), found.queries if found else 0) for g in groups),
            (whole, loss, sum(one.queries for one in loss.groups.values())),
        ]
        for at, (group, one, queries) in enumerate(parts):
            known = None if one is None else one.uncertainty
            if known is None or known.seed_variance is None:
                continue
            y = at + (number - (len(losses) - 1) / 2) * 0.75 / len(losses)
            of_queries = 100 * math.sqrt(known.query_variance)
            of_seeds = 100 * math.sqrt(known.seed_variance)
            ax.plot([of_queries, of_seeds], [y, y], color=LINE, lw=1.0, zorder=1)
            ax.plot(of_queries, y, look.marker, color=look.colour, markerfacecolor="white", ms=5)
            ax.plot(of_seeds, y, look.marker, color=look.colour, ms=5)
            rows.append(
                [
                    shift.name,
                    result.system,
                    measure.name,
                    group,
                    of_queries / 100,
                    of_seeds / 100,
                    known.seed_share,
                    queries,
                    loss.seeds,
                ]
            )
    for result, loss in losses:
        look = looks[result.system]
        name = f"{shorten(result.system, 28)}, {loss.seeds} seeds"
        ax.plot([], [], look.marker, color=look.colour, label=name)
    ax.axhline(len(groups) - 0.5, color=PALE_INK, lw=0.8)
    ax.set_ylim(len(groups) + 0.55, -0.55)
    ax.set_xlim(left=0)
    ax.set_yticks(range(len(groups) + 1), [*groups, whole])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("standard error of Rel Loss (percentage points)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    seeds = sum(1 for row in rows if isinstance(row[6], float) and row[6] > 0.5)
    counts = ", ".join(f"{g} {one.queries:,}" for g, one in losses[0][1].groups.items())
    return ReportFigure(
        f"variance-{shift.name}",
        title,
        "Hollow marks: the standard error of Rel Loss that comes from the choice of test queries; "
        "filled marks: from the seeds of training. Where the filled mark lies to the right, more "
        f"seeds narrow the interval, not more queries. Test queries: {counts}.",
        f"Pairs of marks, a row per group: in {seeds} of {len(rows)} cases the seeds of training "
        "matter more than the choice of queries.",
        _VARIANCE_COLUMNS,
        rows,
        figure,
    )


def draw_ties(
    results: Sequence[SystemResult], measure: Measure, looks: Mapping[str, Look]
) -> Drawn:
    """Draw between which ends the scores would lie under other orders of tied passages.

    Args:
        results: the systems of one shift.
        measure: the measure.
        looks: system -> how it is drawn.
    """
    shift = results[0].shift
    title = f"{shift.title}: what ties could change"
    rows: list[list[Value]] = []
    scale = 100 if measure.percent else 1
    for result in results:
        by_cell: dict[tuple[str, str | None], list[Cell]] = {}
        for cell in result.measures[measure.name].cells:
            if cell.held_out in (None, shift.unseen_by(cell.group)):
                by_cell.setdefault((cell.group, cell.held_out), []).append(cell)
        for (group, held_out), cells in by_cell.items():
            ends = [float(np.mean([getattr(one, end) for one in cells])) for end in _ENDS]
            tied = sum(one.tied for one in cells)
            queries = sum(one.queries for one in cells)
            rows.append(
                [shift.name, result.system, measure.name, held_out, group, *ends, tied, queries]
            )
    if not any(row[8] for row in rows):
        return LeftOut(
            title,
            "no tie touches a relevant passage in the rankings of Out or of an untrained system",
            "nothing is missing",
        )
    groups = list(shift.tested)
    with_ties = {row[1] for row in rows if row[8]}
    rows = [row for row in rows if row[1] in with_ties]
    systems = list(dict.fromkeys(str(row[1]) for row in rows))
    figure = blank_figure(0.7 + len(groups) * (0.15 * len(systems) + 0.1))
    ax = figure.subplots()
    for row in rows:
        look = looks[str(row[1])]
        place = systems.index(str(row[1])) - (len(systems) - 1) / 2
        y = groups.index(str(row[4])) + place * 0.75 / len(systems)
        score, worst, best = (scale * float(end) for end in row[5:8] if end is not None)
        ax.plot([worst - score, best - score], [y, y], "|-", color=look.colour, lw=1.4, ms=6)
        ax.plot(0, y, look.marker, color=look.colour, ms=4)
    for system in systems:
        look = looks[system]
        ax.plot([], [], look.marker, color=look.colour, label=shorten(system, 30))
    ax.set_ylim(len(groups) - 0.45, -0.55)
    ax.set_yticks(range(len(groups)), groups)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(
        f"change of Out, or of an untrained system ({measure.mean_name}"
        f"{' x 100' if measure.percent else ''})"
    )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    tied = sum(int(row[8] or 0) for row in rows)
    widest = max(rows, key=lambda row: abs(float(row[7] or 0) - float(row[6] or 0)))
    return ReportFigure(
        f"ties-{shift.name}",
        title,
        "Marks stand for the scores under the tie policy of this report; lines reach from what "
        "every tie broken against the relevant passage would take from them to what every tie "
        f"broken for it would add. A tie touches it in {tied:,} of "
        f"{sum(int(row[9] or 0) for row in rows):,} rankings of the systems that have any.",
        f"Marks with their bounds, a row per group. The widest are those of {widest[1]} on "
        f"{widest[4]}: {measure.show(float(widest[6] or 0))} to "
        f"{measure.show(float(widest[7] or 0))}.",
        _TIE_COLUMNS,
        rows,
        figure,
    )


_ENDS = ("mean", "worst", "best")
"""The fields of a cell."""
