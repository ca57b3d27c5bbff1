"""The tables of a comparison: who is how far from whom, in which figure and on which group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from msshift_bench.data import DataInfo
from msshift_bench.evaluation.common_notes import data_notes, policy_notes
from msshift_bench.evaluation.comparison import Comparison
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import (
    FigureRow,
    Table,
    TableCell,
    show_p,
    show_percent,
    show_percent_interval,
)
from msshift_bench.stats import (
    AVERAGES,
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    SIGNIFICANT,
    Difference,
    Interval,
    SystemPair,
)

__all__ = ["comparison_notes", "comparison_rows", "comparison_tables"]

_SHOWN = {"avg_in": "Avg In", "out": "Out", "rel_loss": "Rel Loss", "mean": "mean"}
"""Figure -> its name in tables."""


def comparison_tables(compared: Comparison) -> list[Table]:
    """Return the tables of a comparison.

    Of run sets: the ranks by Rel Loss, or an overview of the averages beside the baseline's; then
    a table for every pair that was tested. Of single runs: one table with a row per pair.
    """
    if compared.shift is None:
        return [_table_of_runs(compared)]
    pairs = dict.fromkeys(pair for one in compared.figures.values() for pair in one.pairs)
    tables = [_pair_table(compared, *pair) for pair in pairs]
    if compared.baseline is not None:
        return [_overview(compared, compared.baseline), *tables]
    return [_ranking(compared), *tables] if "rel_loss" in compared.figures else tables


def _whole(compared: Comparison) -> str:
    return "all queries" if compared.average == "pooled" else "mean"


def _heading(compared: Comparison) -> str:
    measure = compared.measure
    return f"{compared.test_set}, {measure.mean_name}{' x 100' if measure.percent else ''}"


def _ranking(compared: Comparison) -> Table:
    assert compared.shift is not None
    rows = [
        (
            one.system,
            "-" if one.rank is None else one.rank,
            "-" if one.rank is None else f"{one.best_rank}-{one.worst_rank}",
            show_percent(one.value),
            _interval(compared, "rel_loss", one.interval, one.counts),
        )
        for one in compared.figures["rel_loss"].ranking
    ]
    return Table.plain(
        f"{compared.shift.title} ({compared.shift.name}): average Rel Loss in {compared.measure}",
        ("system", "rank", "range", "Rel Loss", "interval"),
        rows,
        label=f"{compared.test_set} {compared.measure} ranks",
    )


def _overview(compared: Comparison, baseline: str) -> Table:
    """Return the averages of every system, with a star where it is told apart from the baseline."""

    def values(system: str) -> Iterator[TableCell]:
        for figure, of_figure in compared.figures.items():
            pair = of_figure.pairs.get((system, baseline))
            value = None if pair is None else pair.overall.value_a
            yield TableCell(
                _value(compared, figure, value),
                significant=pair is not None and pair.is_significant(),
            )

    own = [
        next(iter(one.pairs.values())).overall.value_b if one.pairs else None
        for one in compared.figures.values()
    ]
    shown = map(_value, repeat(compared), compared.figures, own)
    others = [name for name in compared.seeds if name != baseline]
    return Table(
        f"{_heading(compared)}: {_whole(compared)}, * differs from {baseline}",
        ("system", *(_SHOWN[figure] for figure in compared.figures)),
        (
            tuple(map(TableCell, (baseline, *shown))),
            *((TableCell(name), *values(name)) for name in others),
        ),
        frozenset({1}),
        label=f"{compared.test_set} {compared.measure} against {baseline}",
    )


def _pair_table(compared: Comparison, first: str, second: str) -> Table:
    """Return how far apart two systems are: each figure on each group and on the whole."""
    rows: list[tuple[TableCell, ...]] = []
    sections = set()
    correction = next(iter(compared.figures.values())).correction
    for figure, of_figure in compared.figures.items():
        pair = of_figure.pairs.get((first, second))
        if pair is None:
            continue
        sections.add(len(rows))
        for number, (group, found) in enumerate(_parts(pair)):
            cells = _difference(compared, figure, pair, group, found)
            name = group or _whole(compared)
            label = _SHOWN[figure] if number == 0 else ""
            rows.append((TableCell(label), TableCell(name), *cells))
    loses = f"; in Rel Loss negative where {first} loses less"
    with_loss = (first, second) in getattr(compared.figures.get("rel_loss"), "pairs", ())
    return Table(
        f"{_heading(compared)}: {first} - {second}{loses * with_loss}",
        ("figure", "", first, second, "difference", "interval", f"p ({correction})"),
        tuple(rows),
        frozenset(sections),
        names=2,
        label=f"{compared.test_set} {compared.measure} {first} minus {second}",
    )


def _table_of_runs(compared: Comparison) -> Table:
    """Return a row per pair of runs."""
    ((figure, of_figure),) = compared.figures.items()
    rows = [
        (
            TableCell(first),
            TableCell(second),
            *_difference(compared, figure, pair, None, pair.overall),
        )
        for (first, second), pair in of_figure.pairs.items()
    ]
    return Table(
        f"{_heading(compared)}: A - B",
        ("A", "B", "mean of A", "mean of B", "A - B", "interval", f"p ({of_figure.correction})"),
        tuple(rows),
        names=2,
        label=f"{compared.test_set} {compared.measure} runs",
    )


def _parts(pair: SystemPair) -> list[tuple[str | None, Difference]]:
    """Return the differences on the groups, and under `None` that on the whole."""
    return [*pair.groups.items(), (None, pair.overall)]


def _adjusted(pair: SystemPair, group: str | None) -> float | None:
    return pair.adjusted_overall_p if group is None else pair.adjusted_p.get(group)


def _difference(
    compared: Comparison, figure: str, pair: SystemPair, group: str | None, found: Difference
) -> list[TableCell]:
    return [
        TableCell(_value(compared, figure, found.value_a)),
        TableCell(_value(compared, figure, found.value_b)),
        TableCell(
            _value(compared, figure, found.difference), significant=pair.is_significant(group)
        ),
        TableCell(_interval(compared, figure, found.interval, found.counts)),
        TableCell(show_p(_adjusted(pair, group))),
    ]


def _value(compared: Comparison, figure: str, value: float | None) -> str:
    return show_percent(value) if figure == "rel_loss" else compared.measure.show(value)


def _interval(compared: Comparison, figure: str, interval: Interval | None, counts: str) -> str:
    if interval is None:
        return "-"
    shown = show_percent_interval(interval)
    if figure != "rel_loss":
        shown = f"[{compared.measure.show(interval.low)}, {compared.measure.show(interval.high)}]"
    return f"{shown} {QUERIES_ONLY}" if counts == QUERIES_ONLY else shown


def comparison_notes(
    comparisons: Sequence[Comparison], data: DataInfo, settings: Settings
) -> list[str]:
    """Return the notes below the tables: data, policies, and how differences were tested."""
    runs = any(one.shift is None for one in comparisons)
    tested = "all pairs"
    baselines = {one.baseline for one in comparisons if one.baseline is not None}
    if baselines:
        tested = f"the pairs with {', '.join(sorted(baselines))}"
    lines = [*data_notes(data, {one.test_set for one in comparisons}), *policy_notes(settings)]
    if settings.missing == "skip":
        lines.append("compared on the queries that all hold: " + _counts(comparisons))
    if runs:
        lines += [
            f"intervals and p: {QUERIES_ONLY}, of these very runs, so that there is no star",
            f"p: {settings.correction}-corrected over {tested} of a measure",
        ]
        return lines
    lines += [
        f"intervals and p: {QUERIES_AND_SEEDS}, as random effects, the seeds of two systems "
        "independent of each other",
        f"p: {settings.correction}-corrected over {tested}, those on all groups as one family, "
        "those on the whole shift as another, for each figure and measure; * at most "
        f"{SIGNIFICANT}",
        *dict.fromkeys(f"{_whole(one)}: {AVERAGES[one.average]}" for one in comparisons),
    ]
    if any("rel_loss" in one.figures and one.baseline is None for one in comparisons):
        lines.append(
            "rank: 1 + the number of systems known to lose less; range: the ranks that it might "
            "take"
        )
    seeds = {name: count for one in comparisons for name, count in one.seeds.items()}
    single = sorted(name for name, count in seeds.items() if count == 1)
    if single:
        lines.append(
            f"one seed: {', '.join(single)}: what is said counts {QUERIES_ONLY}, so "
            "there is no star and no rank; models of other seeds, in folders "
            "<shift>/seed-<n>, would count"
        )
    untrained = sorted(name for name, count in seeds.items() if count is None)
    if untrained:
        lines.append(
            f"not trained per group: {', '.join(untrained)}: one run for all held-out groups, so "
            "that Avg In is Out and there is no Rel Loss; it is taken as it is, and a difference "
            "from it counts the seeds of the other system"
        )
    return lines


def _counts(comparisons: Sequence[Comparison]) -> str:
    counts = {group: count for one in comparisons for group, count in one.queries.items()}
    return ", ".join(f"{group} {count}" for group, count in counts.items())


def comparison_rows(compared: Comparison) -> Iterator[FigureRow]:
    """Yield the figures of every system, then the difference of every pair that was tested."""
    shift = "" if compared.shift is None else compared.shift.name
    for figure, of_figure in compared.figures.items():
        own: dict[tuple[str, str | None], float | None] = {}
        for (first, second), pair in of_figure.pairs.items():
            for group, found in _rows_of(compared, pair):
                own[first, group] = found.value_a
                own[second, group] = found.value_b
        for (system, group), value in own.items():
            yield FigureRow(
                shift,
                system,
                compared.measure.name,
                _group_name(compared, group),
                figure,
                value,
                queries=_queries(compared, group),
                seeds=compared.seeds[system],
            )
        for (first, second), pair in of_figure.pairs.items():
            for group, found in _rows_of(compared, pair):
                low, high = found.interval or (None, None)
                seeds = [compared.seeds[name] for name in (first, second)]
                yield FigureRow(
                    shift,
                    first,
                    compared.measure.name,
                    _group_name(compared, group),
                    figure,
                    found.difference,
                    low,
                    high,
                    _adjusted(pair, group),
                    _queries(compared, group),
                    min((count for count in seeds if count is not None), default=None),
                    against=second,
                )


def _rows_of(compared: Comparison, pair: SystemPair) -> list[tuple[str | None, Difference]]:
    return _parts(pair) if compared.shift is not None else [(None, pair.overall)]


def _group_name(compared: Comparison, group: str | None) -> str:
    if compared.shift is None:
        return compared.test_set
    return _whole(compared) if group is None else group


def _queries(compared: Comparison, group: str | None) -> int:
    return sum(compared.queries.values()) if group is None else compared.queries[group]
