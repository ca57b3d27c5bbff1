"""The table of a paper: systems in rows; Avg In, Out and Rel Loss of each shift in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msshift_bench.output.tables import Format, Head, Table, pivot
from msshift_bench.shifts import get_shift
from msshift_bench.stats import FIGURES, Figures

_SIDES = ("avg_in", "out", "rel_loss")
_SAME_TEST = {"lead": "score"}
"""Kind of difference -> kind of value, for systems of one model for all groups."""


def with_marks_of(figures: Figures, reference: str) -> Figures:
    """Return systems' values, each with the mark and family of its difference from `reference`.

    A value without such a difference is unchanged.

    Args:
        figures: the figures of a comparison, on complete shifts.
        reference: the other system.
    """
    apart = {
        (row.shift, row.measure, row.system, _SAME_TEST.get(row.figure, row.figure)): row
        for row in figures.where(against=reference)
    }
    values = []
    for row in figures.where(against=""):
        test = apart.get((row.shift, row.measure, row.system, row.figure), row)
        values.append(row._replace(mark=test.mark, family=test.family))
    return Figures(values)


def paper_table(figures: Figures, title: str, shown: Sequence[Format]) -> Table:
    """Return one table over shifts; one model for all groups has its score as Avg In and as Out.

    A shift on which no system was trained per group has one column. Marks are of Rel Loss, or in a
    comparison of the differences from the reference.

    Args:
        figures: the figures of an evaluation or a comparison, by one measure.
        title: the measure.
        shown: the format of each line of a system.
    """
    figures = figures.where(slice="", model="", test="")
    figures = Figures(row for row in figures if row.group not in get_shift(row.shift).tested)
    references = figures.where(figure=("lead", "lead_in")).names("against")
    values = figures.where(against="", figure=("score", *_SIDES))
    for reference in references:
        values = with_marks_of(figures, reference).where(figure=("score", *_SIDES))
    columns: list[Head] = []
    spans = []
    for (name,), of_shift in values.each("shift"):
        names = _SIDES if of_shift.where(figure="rel_loss") else ("score",)
        spans.append((get_shift(name).title, len(names)))
        for side in names:
            kinds = (side,) if side == "rel_loss" else (side, "score")
            columns.append(Head((FIGURES[side].title,), {"shift": name, "figure": kinds}))
    rows = [
        Head((system if line == 0 else "",), {"system": system}, form)
        for system in values.names("system")
        for line, form in enumerate(shown)
    ]
    table = pivot(values, title, ("system",), rows, columns, label=f"shifts {title}")
    parts = [title, f"average: {', '.join(values.names('group'))}"]
    parts += [f"marks: difference from {name}" for name in references]
    if seeds := {row.system: row.seeds for row in values if row.seeds}:
        parts.append(f"seeds: {', '.join(f'{name} {count}' for name, count in seeds.items())}")
    counts = " or ".join(name for name in values.names("counts") if name)
    parts += [f"intervals and p count {counts}"] if counts else []
    return replace(table, title="; ".join(parts), spans=tuple(spans))
