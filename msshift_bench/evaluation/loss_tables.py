"""The report's tables, in the layout of the paper's Tables 2 and 3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from msshift_bench.evaluation.common_notes import data_notes, policy_notes
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.output import (
    Table,
    TableCell,
    say_level,
    show_p,
    show_percent,
    show_percent_interval,
)
from msshift_bench.stats import (
    AVERAGES,
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    SEED_VARIANCES,
    SIGNIFICANT,
)

if TYPE_CHECKING:
    from msshift_bench.evaluation.evaluator import MeasureResult, SystemResult
    from msshift_bench.evaluation.run_set_report import Report
    from msshift_bench.shifts import Shift
    from msshift_bench.stats import GroupLoss, ShiftLoss

__all__ = [
    "FEWEST_IN_SLICE",
    "loss_table",
    "matrix_table",
    "notes",
    "run_counts",
]

_BRIEF = 3
"""Rows of a system in a brief table: Avg In, Out, Rel Loss."""

FEWEST_IN_SLICE = 20
"""Queries below which a slice has no percentage."""


def _heading(shift: Shift, measure: Measure, label: str) -> str:
    scale = " x 100" if measure.percent else ""
    only = f", only {label}" if label else ""
    return f"{shift.title} ({shift.name}), {measure.mean_name}{scale}{only}"


def loss_table(
    results: Sequence[SystemResult], measure: Measure, label: str = "", *, brief: bool = False
) -> Table:
    """Return every system's Avg In, Out and Rel Loss on each group of a shift, and on average.

    Systems that were not trained per group have one row, their score on each group. A slice has a
    row with its number of queries, and neither Rel Loss nor what belongs to it where there are
    fewer than 20.

    Args:
        results: the results of one shift.
        measure: one of the measures that they hold.
        label: the label of the queries that the results are restricted to; "" if to none.
        brief: leave out intervals, spreads and p-values, as the paper's tables do.
    """
    described = results[0].shift
    groups = described.tested
    best = _best(results, groups, measure)
    rows: list[tuple[TableCell, ...]] = []
    sections = set()
    if label:
        counts = [_counted(result.measures[measure.name], groups) for result in results]
        rows.append(_row("queries", "", [_range(column) for column in zip(*counts, strict=True)]))
    for result in results:
        sections.add(len(rows))
        of_measure = result.measures[measure.name]
        if all(run.held_out is None for run in result.scores.runs):
            means = [*map(of_measure.mean, groups), of_measure.mean_of_groups()]
            rows.append(_row(result.system, "", [measure.show(mean) for mean in means]))
        elif of_measure.loss is None:
            rows.append(_row(result.system, "too few runs", [""] * (len(groups) + 1)))
        else:
            few = _with_few(of_measure, groups) if label else frozenset()
            figures = _loss_rows(result, of_measure.loss, groups, measure, best, few)
            rows += figures[:_BRIEF] if brief else figures
    averages = {result.measures[measure.name].average for result in results}
    header = ("system", "", *groups, "all queries" if averages == {"pooled"} else "mean")
    return Table(
        _heading(described, measure, label),
        header,
        tuple(rows),
        frozenset(sections),
        names=2,
        label=f"{described.name} {measure} {label}",
    )


def _counted(found: MeasureResult, groups: Sequence[str]) -> list[int]:
    """Return how many queries of each group count, and of all groups together."""
    counts = {cell.group: cell.queries for cell in found.cells}
    return [*(counts.get(group, 0) for group in groups), sum(counts.values())]


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _with_few(found: MeasureResult, groups: Sequence[str]) -> frozenset[str]:
    """Return the columns whose figures rest on fewer queries than a percentage needs."""
    *of_groups, of_all = _counted(found, groups)
    few = {
        group for group, count in zip(groups, of_groups, strict=True) if 0 < count < FEWEST_IN_SLICE
    }
    too_few = of_all < FEWEST_IN_SLICE if found.average == "pooled" else bool(few)
    return frozenset({*few, "mean"} if too_few else few)


def _row(system: str, figure: str, values: Sequence[str]) -> tuple[TableCell, ...]:
    return tuple(map(TableCell, (system, figure, *values)))


def _loss_rows(
    result: SystemResult,
    loss: ShiftLoss,
    groups: Sequence[str],
    measure: Measure,
    best: dict[tuple[str, str], str],
    few: Container[str],
) -> list[tuple[TableCell, ...]]:
    name = f"{result.system} (partial)" if result.partial else result.system
    columns: list[tuple[str, GroupLoss | ShiftLoss | None]] = [
        *((group, loss.groups.get(group)) for group in groups),
        ("mean", loss),
    ]

    def score(figure: str) -> list[TableCell]:
        return [
            TableCell(
                measure.show(None if one is None else getattr(one, figure)),
                best=best.get((figure, column)) == result.system,
            )
            for column, one in columns
        ]

    def interval(one: GroupLoss | ShiftLoss | None) -> str:
        found = one.intervals.rel_loss if one is not None and one.intervals is not None else None
        return show_percent_interval(found)

    enough = [(column, None if column in few else one) for column, one in columns]
    rel_loss = [
        TableCell(
            show_percent(None if one is None else one.rel_loss),
            best=one is not None and best.get(("rel_loss", column)) == result.system,
            significant=one is not None and loss.is_significant(column),
        )
        for column, one in enough
    ]
    p_values = [show_p(None if group in few else loss.adjusted_p.get(group)) for group in groups]
    # An interval or a p-value that counts queries only is labelled so.
    only = f", {QUERIES_ONLY}" if loss.seeds == 1 else ""
    rows = [
        (TableCell(name), TableCell("Avg In"), *score("avg_in")),
        (TableCell(), TableCell("Out"), *score("out")),
        (TableCell(), TableCell("Rel Loss"), *rel_loss),
    ]
    if loss.intervals is not None:
        percent = f"{say_level(loss.intervals.confidence)} interval{only}"
        rows.append(_row("", percent, [interval(one) for _, one in enough]))
    if loss.spread is not None:
        spreads = [one.spread if one is not None else None for _, one in enough]
        values = [
            show_percent(spread.rel_loss if spread is not None else None) for spread in spreads
        ]
        rows.append(_row("", f"sd of {loss.seeds} seeds", values))
        shares = [None if one is None else _seed_share(one) for _, one in enough]
        rows.append(_row("", "variance from seeds", [_share(share) for share in shares]))
    rows.append(_row("", f"p ({loss.correction}){only}", [*p_values, ""]))
    return rows


def _seed_share(loss: GroupLoss | ShiftLoss) -> float | None:
    return None if loss.uncertainty is None else loss.uncertainty.seed_share


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:z.0f}%"


def _best(
    results: Sequence[SystemResult], groups: Sequence[str], measure: Measure
) -> dict[tuple[str, str], str]:
    """Return (figure, column) -> the system that is best there, if several are compared."""
    losses = {
        result.system: result.measures[measure.name].loss
        for result in results
        if result.measures[measure.name].loss is not None
    }
    if len(losses) < 2:
        return {}
    sign = 1 if measure.higher_is_better else -1
    best = {}
    for figure in ("avg_in", "out", "rel_loss"):
        for column in (*groups, "mean"):
            values = {}
            for system, loss in losses.items():
                assert loss is not None
                one = loss if column == "mean" else loss.groups.get(column)
                value = None if one is None else getattr(one, figure)
                if value is not None:
                    values[system] = -value if figure == "rel_loss" else sign * value
            if values:
                best[figure, column] = max(values, key=lambda system: values[system])
    return best


def matrix_table(result: SystemResult, measure: Measure) -> Table:
    """Return a system's matrix: a row per held-out group, a column per evaluated group."""
    shift = result.shift
    of_measure: MeasureResult = result.measures[measure.name]
    rows = []
    for held_out in shift.groups:
        values = [of_measure.mean(group, held_out) for group in shift.tested]
        rows.append(
            (
                TableCell(shift.training_of(held_out)),
                *(
                    TableCell(measure.show(value), held_out=shift.unseen_by(group) == held_out)
                    for group, value in zip(shift.tested, values, strict=True)
                ),
            )
        )
    return Table(
        f"{result.system}: rows trained {shift.training_of('a group')}, "
        "columns evaluated on a group",
        ("", *shift.tested),
        tuple(rows),
    )


def notes(report: Report, results: Sequence[SystemResult], *, by_group: bool = True) -> list[str]:
    """Return the notes below the tables: data, policies, counts and statistics.

    Args:
        report: the report.
        results: the results of one shift.
        by_group: whether the tables have columns for the groups, with p-values.
    """
    settings = report.settings
    queries = results[0].scores.groups
    lines = [
        *data_notes(report.data, [results[0].shift.name]),
        "test queries: " + ", ".join(f"{g} {len(ids)}" for g, ids in queries.items()),
        *policy_notes(settings),
        *(f"{result.system}: {_counts(result)}" for result in results),
    ]
    of_first = [(one.system, one.measures[settings.measures[0].name].loss) for one in results]
    losses = [(system, loss) for system, loss in of_first if loss is not None]
    if losses:
        average = AVERAGES[losses[0][1].average]
        lines.append(f"last column: {average}" if by_group else f"averages: {average}")
        if by_group:
            lines.append(
                f"p: {settings.correction}-corrected across groups; * at most {SIGNIFICANT}, with "
                "two seeds or more"
            )
        if any(loss.seeds > 1 for _, loss in losses):
            lines.append(
                f"intervals and p: {QUERIES_AND_SEEDS}, as random effects; variance of seeds "
                f"({settings.seed_variance}): {SEED_VARIANCES[settings.seed_variance]}"
            )
        lines += [f"{system}: {_certainty(loss)}" for system, loss in losses]
    if report.slices:
        lines.append(f"slices: no Rel Loss of fewer than {FEWEST_IN_SLICE} queries")
    return [*lines, *report.remarks]


def _certainty(loss: ShiftLoss) -> str:
    """Return the sources of the average's interval, and what would make it narrower."""
    if loss.seeds == 1:
        return (
            f"one seed: intervals and p count {QUERIES_ONLY} and say nothing of another training; "
            "no star, no rank"
        )
    warning = "; two seeds make an interval that is mostly uninformative" * (loss.seeds == 2)
    share = _seed_share(loss)
    if loss.uncertainty is None or loss.intervals is None or share is None:
        return f"{loss.seeds} seeds{warning}"
    more = loss.uncertainty.more_seeds_to_halve(loss.seeds, loss.intervals.confidence)
    halved = (
        "no number of seeds would halve its interval"
        if more is None
        else f"{more} more seed{'s' * (more > 1)} would halve its interval"
    )
    return (
        f"{_share(share)} of the variance of its average Rel Loss comes from the choice of "
        f"{loss.seeds} seeds, {_share(1 - share)} from that of queries; {halved}{warning}"
    )


def run_counts(runs: Sequence[ScoredRun]) -> str:
    """Return facts about runs: digests, missing and other queries, ties, warnings by code."""
    missing = sum(int(run.missing.sum()) for run in runs)
    tied = sum(int(run.tied.sum()) for run in runs)
    codes: Counter[str] = Counter()
    for run in runs:
        codes.update(run.report.warning_counts)
    named = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
    others = sum(run.report.extra_queries for run in runs)
    digests = " ".join(run.report.digest[:8] for run in runs)
    return (
        f"sha256 {digests}; {missing} missing queries, {tied} with a tie at a relevant passage, "
        f"{codes.total()} warnings"
        + (f" ({named})" if codes else "")
        + (f"; {others} other queries, which do not count here" if others else "")
    )


def _counts(result: SystemResult) -> str:
    runs = result.scores.runs
    facts = [f"{len(runs)} run file{'s' * (len(runs) > 1)}"]
    if result.scores.trained_per_group:
        seeds = len({run.seed for run in runs})
        facts.append(f"{seeds} seed{'s' * (seeds > 1)}")
    else:
        facts.append("not trained per group")
    if result.scores.missing_files:
        lacking = [
            group + ("" if seed is None else f" (seed {seed})")
            for seed, group in result.scores.missing_files
        ]
        trained = result.shift.training_of(", ".join(lacking))
        facts.append(f"no run of the model trained {trained}")
    return f"{', '.join(facts)}; {run_counts(runs)}"
