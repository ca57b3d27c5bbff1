"""Inter., Extra. and Delta: the figures of a shift in the layout of Tables 6 and 7 of Zhan et al.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 5: Delta = Extra. / Inter. - 1. Interpolation is what MS-Shift calls
Avg In and extrapolation what it calls Out, so that Delta is minus Rel Loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msshift_bench.evaluation.measures import Measure
from msshift_bench.output import Table, TableCell
from msshift_bench.shifts import SIZED
from msshift_bench.stats import QUERIES_ONLY

if TYPE_CHECKING:
    from msshift_bench.evaluation.evaluator import SystemResult

__all__ = ["delta_notes", "delta_table", "show_delta"]


def delta_table(results: Sequence[SystemResult], measures: Sequence[Measure]) -> Table:
    """Return Inter., Extra. and Delta of every system, averaged over the groups of a shift.

    A row is a system, and each measure has three columns; Delta is followed by its interval. One
    ranking that serves all groups has a Delta of exactly 0, and no interval. A shift that comes in
    sizes has all of them in one table, the smallest first, as in Table 6.

    Args:
        results: the results of one shift, or of several sizes of one, by size.
        measures: the measures to show, which the results hold.
    """
    shift = results[0].shift
    header = ["#Q", "system"] if shift.size else ["system"]
    for measure in measures:
        header += [f"{measure.mean_name} Inter.", "Extra.", "Delta"]
    rows: list[tuple[TableCell, ...]] = []
    sections = set()
    size = ""
    for result in results:
        name = f"{result.system} (partial)" if result.partial else result.system
        cells = [name]
        if shift.size:
            if result.shift.size != size:
                sections.add(len(rows))
            cells = [result.shift.size if result.shift.size != size else "", name]
            size = result.shift.size
        for measure in measures:
            cells += _figures(result, measure)
        rows.append(tuple(map(TableCell, cells)))
    unscaled = [measure.name for measure in measures if not measure.percent]
    scale = ", means x 100" if len(unscaled) < len(measures) else ""
    scale += f" (not {', '.join(unscaled)})" if scale and unscaled else ""
    title = SIZED[shift.family].title if shift.size else shift.title
    return Table(
        f"{title} ({shift.family}){scale}",
        tuple(header),
        tuple(rows),
        frozenset(sections),
        names=2 if shift.size else 1,
        label=f"{shift.family} delta",
    )


def _figures(result: SystemResult, measure: Measure) -> list[str]:
    found = result.measures[measure.name]
    if not result.scores.trained_per_group:
        mean = measure.show(found.mean_of_groups())
        return [mean, mean, show_delta(0.0)]
    if found.loss is None:
        return ["too few runs", "-", "-"]
    intervals = found.loss.intervals
    return [
        measure.show(found.loss.avg_in),
        measure.show(found.loss.out),
        show_delta(found.loss.rel_loss, None if intervals is None else intervals.rel_loss),
    ]


def show_delta(rel_loss: float | None, interval: tuple[float, float] | None = None) -> str:
    """Return the Delta of a Rel Loss, with its sign, as tables print it.

    Args:
        rel_loss: a fraction; `None` if it is undefined.
        interval: its interval, low and high, which is turned with it.
    """
    if rel_loss is None:
        return "-"
    shown = f"{_percent(rel_loss)}%"
    if interval is None:
        return shown
    low, high = interval
    return f"{shown} [{_percent(high)}, {_percent(low)}]"


def _percent(rel_loss: float) -> str:
    # adding 0 makes -0.0 a plain 0
    turned = round(-100 * rel_loss, 1) + 0.0
    return f"{turned:+.1f}" if turned else "0.0"


def delta_notes(results: Sequence[SystemResult]) -> list[str]:
    """Return what the columns mean, for the notes below the tables.

    Args:
        results: the results of one shift, or of several sizes of one.
    """
    seeds = {
        found.loss.seeds
        for result in results
        for found in result.measures.values()
        if found.loss is not None
    }
    measures = [found for result in results for found in result.measures.values()]
    lines = [
        "Inter. is Avg In, Extra. is Out; Delta = Extra. / Inter. - 1 is minus Rel Loss, in "
        f"brackets its interval{f' ({QUERIES_ONLY})' if seeds == {1} else ''}"
    ]
    if any(found.average == "macro" for found in measures):
        lines.append("Delta: minus the mean of the groups' Rel Losses")
    if lower := sorted({m.measure.name for m in measures if not m.measure.higher_is_better}):
        lines.append(f"of {', '.join(lower)} lower is better: the sign of its Delta is turned")
    return lines
