"""The data: how many queries every group gives, and which groups share test queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from msshift_bench.data import Dataset
from msshift_bench.evaluation import GridCell, draw_grid
from msshift_bench.output import INK, PALE_INK, SHADES
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure, Value, blank_figure
from msshift_bench.shifts import SHIFTS

__all__ = ["GroupSizes", "count_groups", "draw_composition", "draw_overlap"]

_SPLITS = ("train", "validation", "test", "unused")
_FILLS = {
    "train": (SHADES[8], ""),
    "validation": (SHADES[1], "...."),
    "test": ("#d55e00", ""),
    "unused": ("white", "////"),
}
"""Split -> its colour and hatching; in greyscale they differ, too."""


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """The queries of a group.

    Attributes:
        shift: the shift's name.
        group: the group.
        described: what it holds, in a few words.
        splits: split -> number of queries.
        test: the ids of its test queries.
    """

    shift: str
    group: str
    described: str
    splits: Mapping[str, int]
    test: frozenset[str]


def count_groups(dataset: Dataset, shifts: Sequence[str]) -> list[GroupSizes]:
    """Return the sizes of the groups of some shifts of a data set."""
    found = []
    for name in shifts:
        table = dataset.rows(name, "queries").table
        counts: dict[tuple[str, str], int] = {}
        groups, splits = table["group"].to_pylist(), table["split"].to_pylist()
        for key in zip(groups, splits, strict=True):
            counts[key] = counts.get(key, 0) + 1
        described = dataset.manifest.describe_groups(name)
        shift = SHIFTS[name]
        tests = dataset.test_sets(shift)
        for group in shift.groups:
            rows = tests[shift.test_set_of(group)]
            sizes = {split: counts.get((group, split), 0) for split in _SPLITS}
            test = frozenset(rows.table["query_id"].to_pylist())
            sizes["test"] = len(test)
            found.append(GroupSizes(name, group, described[group], sizes, test))
    return found


def draw_composition(sizes: Sequence[GroupSizes]) -> ReportFigure:
    """Draw how the queries of every group are divided."""
    shifts = list(dict.fromkeys(one.shift for one in sizes))
    figure = blank_figure(0.75 + 0.24 * len(sizes) + 0.1 * len(shifts))
    ax = figure.subplots()
    for row, one in enumerate(sizes):
        start = 0
        for split in _SPLITS:
            fill, hatch = _FILLS[split]
            width = one.splits[split]
            ax.barh(
                row, width, 0.66, start, color=fill, hatch=hatch, edgecolor=PALE_INK, linewidth=0.6
            )
            start += width
    for row, (one, after) in enumerate(pairwise(sizes)):
        if one.shift != after.shift:
            ax.axhline(row + 0.5, color=PALE_INK, lw=0.8)
    for split in _SPLITS:
        fill, hatch = _FILLS[split]
        ax.bar(0, 0, color=fill, hatch=hatch, edgecolor=PALE_INK, linewidth=0.6, label=split)
    ax.set_xlim(left=0)
    ax.set_yticks(range(len(sizes)), [one.group for one in sizes])
    ax.set_ylim(len(sizes) - 0.45, -0.55)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("queries")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    rows: list[list[Value]] = [
        [one.shift, one.group, one.described, split, one.splits[split]]
        for one in sizes
        for split in _SPLITS
    ]
    said = "; ".join(
        f"{SHIFTS[name].title}: "
        + ", ".join(f"{one.group} ({one.described})" for one in sizes if one.shift == name)
        for name in shifts
    )
    counts = ", ".join(
        f"{one.group} {one.splits['train']:,} to train on and {one.splits['test']:,} to test with"
        for one in sizes
    )
    totals = ", ".join(
        f"{SHIFTS[name].title.lower()} "
        f"{sum(sum(one.splits.values()) for one in sizes if one.shift == name):,}"
        for name in shifts
    )
    return ReportFigure(
        "composition",
        "Composition of the groups",
        f"The queries of each group by what they are for; unused ones keep the training sets equal "
        f"in size. {said}. Queries in all: {totals}.",
        f"Stacked bars, one per group: {counts}.",
        ("shift", "group", "described", "split", "queries"),
        rows,
        figure,
    )


def draw_overlap(sizes: Sequence[GroupSizes]) -> Drawn:
    """Draw how many test queries every two groups share, of the same shift or of another."""
    title = "Test queries that groups share"
    if not any(one.test & other.test for one, other in combinations(sizes, 2)):
        return LeftOut(
            title,
            "no two groups share a test query",
            "run sets for several shifts, which cut the same queries in different ways",
        )
    names = [one.group for one in sizes]
    rows: list[list[Value]] = []
    grid: dict[str, list[GridCell | None]] = {}
    for one in sizes:
        cells: list[GridCell | None] = []
        for other in sizes:
            shared = len(one.test & other.test)
            share = shared / len(one.test) if one.test else 0.0
            same = one is other
            cells.append(GridCell(f"{shared:,}", 0.0 if same else share, framed=same))
            rows.append([one.shift, one.group, other.shift, other.group, shared, share])
        grid[f"{one.group}"] = cells
    figure = blank_figure(0.3 * len(sizes) + 0.5)
    ax = figure.subplots()
    draw_grid(ax, names, grid)
    for text in ax.texts:
        text.set_fontsize(7)
    for at, (one, after) in enumerate(pairwise(sizes)):
        if one.shift != after.shift:
            ax.axhline(at + 0.5, color=INK, lw=0.8)
            ax.axvline(at + 0.5, color=INK, lw=0.8)
    within = [
        (one.group, other.group, len(one.test & other.test))
        for number, one in enumerate(sizes)
        for other in sizes[number + 1 :]
        if one.shift == other.shift and one.test & other.test
    ]
    shared_within = (
        ", ".join(f"{one} and {other} {count}" for one, other, count in within)
        if within
        else "none"
    )
    return ReportFigure(
        "overlap",
        title,
        "The number of test queries that the row's group shares with the column's; darker: a "
        "greater share of the row's. On the diagonal, framed, are the test queries of the group "
        "itself. Shifts cut the same queries in different ways, so groups of different shifts "
        f"share many. n = {len(frozenset().union(*(one.test for one in sizes))):,} test queries in "
        f"all; shared within a shift: {shared_within}.",
        f"A grid of {len(sizes)} groups by {len(sizes)}. Test queries shared within a shift: "
        f"{shared_within}.",
        ("shift", "group", "other_shift", "other_group", "shared", "share_of_group"),
        rows,
        figure,
    )
