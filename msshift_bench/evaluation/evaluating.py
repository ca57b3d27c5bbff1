"""Evaluation and comparison of run sets.

`evaluate_run_sets` computes Avg In, Out and Rel Loss: of all queries, by label, and without leaked
queries. `compare_run_sets` tests which of several systems is better, and which loses less.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

from msshift_bench.data import DataInfo, Dataset
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.evaluation.checks import differ_in_start, run_warnings
from msshift_bench.evaluation.claims import (
    SIDES,
    WHOLE,
    lead_claims,
    leakage_claims,
    loss_claims,
    matrix_claims,
    pair_claims,
)
from msshift_bench.evaluation.notes import (
    answered,
    comparison_notes,
    data_caveats,
    data_notes,
    delta_notes,
    leakage_notes,
    loss_notes,
    policy_notes,
    seen_notes,
    tie_notes,
    weak_notes,
)
from msshift_bench.evaluation.opening import RunSetsSource, open_run_sets
from msshift_bench.evaluation.results import Note, Result, Section, notes_of
from msshift_bench.evaluation.scores import (
    Scores,
    check_labels,
    check_means,
    check_stored,
    counted_by_all,
    slice_scores,
)
from msshift_bench.evaluation.scoring import score_opened
from msshift_bench.evaluation.settings import (
    LEAKED_SLICES,
    LeakedQueries,
    Settings,
    SettingsSource,
    check_leaked_queries,
)
from msshift_bench.evaluation.tables import (
    ENDS,
    VALUE,
    compared_tables,
    delta_table,
    leakage_tables,
    loss_table,
    matrix_table,
    scale_of,
)
from msshift_bench.output import paper_table
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import DATASET_NAME, ShiftNames, get_shift, grouped
from msshift_bench.stats import STAR, UNCORRECTED, Claim, Figure, Figures, infer, rank_ranges


def by_shift(scores: Sequence[Scores]) -> dict[str, list[Scores]]:
    """Return the name of each shift -> the scores on it; "" for single runs."""
    return grouped((part.shift_name, part) for part in scores)


def evaluate_run_sets(
    runs: RunSetsSource,
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    labels: Mapping[str, str] | None = None,
    without: LeakedQueries | None = None,
    allow: str | Collection[str] = (),
) -> Result:
    """Find run sets and evaluate them on a built data set: Avg In, Out and Rel Loss, by shift.

    Args:
        runs: one or several folders with the run sets of one or several systems; or `OpenedRuns`.
        data: the built data set, see `open_dataset`.
        shifts: the shifts to evaluate; by default all in the folders.
        settings: measures, policies and statistics.
        labels: query_id -> label; the figures are also computed for each label. Queries without a
            label have ``others``.
        without: test queries; the figures are also computed without them.
        allow: errors to allow, some of `ALLOWANCES`.

    Returns:
        Every system's figures by group and on average. ``avg_in``, ``out`` and ``loss`` are on the
        measure's scale, not times 100; ``rel_loss`` is a fraction of Avg In. See `Figure`.

    Raises:
        UnknownNameError: for an unknown shift or allowance.
        UsageError: if a run file is given instead of a folder, a measure has no loss, or no run set
            is of the requested shifts.
        NotFoundError: if a folder or the data set does not exist.
        RunError: if a run file is missing or malformed, was made on other data or by another model
            (all unless allowed), or has no test query of a group.
        DataError: if no test query has a label, or none is left to count.

    Examples:
        >>> result = evaluate_run_sets("runs", "msshift", ["length"])
        >>> for loss in result.figures.where(figure="rel_loss", group="short"):
        ...     print(f"{loss.system} {loss.value:.2f}, 95%: {loss.low:.2f} to {loss.high:.2f}")
        dense 0.62, 95%: 0.42 to 0.82
        sparse 0.53, 95%: 0.23 to 0.83
    """
    check_leaked_queries(without)
    settings = Settings.of(settings)
    check_means(settings.measures)
    opened = open_run_sets(runs, data, shifts, settings.run_format)
    scores, _, warnings = score_opened(opened, settings, allow)
    if labels is not None:
        warnings += _label_warnings(scores, labels, settings)
    return losses_of(
        scores, opened.data, settings, labels=labels, without=without, warnings=warnings
    )


def losses_of(
    scores: Sequence[Scores],
    data: DataInfo,
    settings: Settings,
    *,
    labels: Mapping[str, str] | None = None,
    without: LeakedQueries | None = None,
    warnings: Sequence[str] = (),
) -> Result:
    """Return Avg In, Out and Rel Loss of systems, from their scores.

    Args:
        scores: the scores of systems on shifts.
        data: the data of the test sets.
        settings: measures, policies and statistics.
        labels: query_id -> label; the figures are also computed for each label.
        without: test queries; the figures are also computed without them.
        warnings: warnings about the runs.

    Raises:
        DataError: if no query of a group is left to count, or `without` is for other queries.
    """
    claims: list[Claim] = []
    notes: list[Note] = []
    for of_shift in by_shift(scores).values():
        averaged = averaged_by(of_shift[0], settings)
        of_losses = [claim for part in of_shift for claim in system_claims(part, settings, labels)]
        notes += loss_notes(
            data, settings, of_shift, of_losses, averaged, has_slices=labels is not None
        )
        claims += of_losses
        if without is not None:
            for part, measure in itertools.product(of_shift, settings.measures):
                claims += leakage_claims(part, measure, settings.missing, averaged, without)
    figures = infer(claims, settings)
    notes += weak_notes(figures, settings)
    for (name,), means in figures.where(slice="").each("shift"):
        notes += notes_of(tie_notes(means, settings), about={"shift": name})
    if without is not None:
        notes += notes_of(leakage_notes(figures, without.source), about={"view": "left out"})
    notes += notes_of((), warnings)
    layout = partial(
        _loss_sections,
        settings=settings,
        partial_systems={(part.shift_name, part.system) for part in scores if part.missing_files},
    )
    return answered("losses", figures, data, settings, notes, layout, scores)


def averaged_by(scores: Scores, settings: Settings) -> str:
    """Return how a shift's groups are averaged, a key of `stats.AVERAGES`."""
    assert scores.shift is not None
    return settings.average or scores.shift.average


def system_claims(
    scores: Scores, settings: Settings, labels: Mapping[str, str] | None = None
) -> Iterator[Claim]:
    """Yield the claims of one system: on all queries, then by label.

    Raises:
        DataError: if no query of a group is left to count.
    """
    averaged = averaged_by(scores, settings)
    for measure in settings.measures:
        counted = counted_by_all([scores], settings.missing)
        yield from loss_claims(scores, measure, counted, averaged)
        yield from matrix_claims(scores, measure, counted)
    slices = {} if labels is None else slice_scores(scores, labels, settings.missing)
    for label, part in slices.items():
        for measure in settings.measures:
            yield from loss_claims(part, measure, part.counted(settings.missing), averaged, label)


def _label_warnings(
    scores: Sequence[Scores], labels: Mapping[str, str], settings: Settings
) -> list[str]:
    """Return a warning for each label without figures, because its queries are missing from runs.

    Raises:
        DataError: if no test query has a label.
    """
    check_labels({query for part in scores for query in part.query_ids}, labels)
    of_counted = partial(slice_scores, labels=labels, missing=settings.missing)
    return [
        f"{part.place}: no slice {label}, because a run lacks each of its queries"
        for part in scores
        for label in sorted({*slice_scores(part, labels)}.difference(of_counted(part)))
    ]


def _loss_sections(
    figures: Figures,
    *,
    settings: Settings,
    partial_systems: Collection[tuple[str, str]],
    delta: bool = False,
    matrices: bool = False,
    paper: bool = False,
    intervals: bool = False,
) -> Iterator[Section]:
    """Yield the tables of each shift, then the tables of figures without leaked queries.

    `paper` and `delta` yield only their layout.
    """
    if paper:
        yield _paper_section(figures, settings, intervals=intervals)
        return
    losses = Figures([row for row in figures if row.slice not in LEAKED_SLICES])
    if delta:
        yield from _delta_sections(losses, settings, partial_systems)
        return
    for (name,), of_shift in losses.each("shift"):
        lacking = {system for shift, system in partial_systems if shift == name}
        tables = []
        for measure in settings.measures:
            of_measure = of_shift.where(measure=measure.name)
            tables.append(loss_table(of_measure.where(slice=""), measure, settings, lacking))
            if matrices:
                tables += [
                    matrix_table(part)
                    for _, part in of_measure.each("system")
                    if not part.where(model=FOR_ALL)
                ]
            tables += [
                loss_table(part, measure, settings, lacking)
                for (label,), part in of_measure.each("slice")
                if label
            ]
        yield Section(tables, {"shift": name, "view": "groups"})
    if figures.where(slice=LEAKED_SLICES):
        # One section for all shifts: notes on a single shift are not printed with it.
        yield Section(list(leakage_tables(figures, settings)), {"shift": "", "view": "left out"})


def _paper_section(figures: Figures, settings: Settings, *, intervals: bool) -> Section:
    """Return a table over all shifts for each measure; `intervals` adds a line below values."""
    shown = [VALUE, ENDS] if intervals else [VALUE]
    return Section(
        [
            paper_table(
                figures.where(measure=measure.name),
                f"{measure.mean_name}{scale_of([measure])}",
                shown,
            )
            for measure in settings.measures
        ]
    )


def _delta_sections(
    figures: Figures, settings: Settings, partial_systems: Collection[tuple[str, str]]
) -> Iterator[Section]:
    families = grouped((get_shift(figure.shift).family, figure) for figure in figures)
    for part in map(Figures, families.values()):
        tables = [delta_table(part, settings.measures, partial_systems)]
        notes = list(delta_notes(part, settings))
        for name in part.names("shift"):
            yield Section(tables, {"shift": name, "view": "delta"}, notes)
            tables, notes = [], []


def compare_run_sets(
    runs: RunSetsSource,
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    reference: str | Path | None = None,
    others: Sequence[Scores] = (),
    allow: str | Collection[str] = (),
) -> Result:
    """Find run sets, evaluate them on a built data set, and compare their systems.

    Systems are compared by Avg In, Out and, if defined, Rel Loss, on the same queries.

    Args:
        runs: one or several folders, as in `evaluate_run_sets`.
        data: the built data set, as in `evaluate_run_sets`.
        shifts: the shifts to compare on; by default all in the folders.
        settings: measures, policies and statistics.
        reference: the system to compare the others with: its name, or its folder, which may be
            outside `runs`. By default every pair is compared, and systems are ranked by Rel Loss.
        others: stored scores of further systems on the same test queries, e.g. from
            `msshift_bench.leaderboard.stored_scores`. They are compared on the shifts of the runs.
        allow: errors to allow, some of `ALLOWANCES`; incomplete run sets are not compared.

    Returns:
        Every system's figures, and the differences of every pair.

    Raises:
        UsageError: if no shift has two systems, or stored scores lack a measure or are of other
            policies; and as in `evaluate_run_sets`.
        DataError: if stored scores are of other test queries, or no query is left to count.
        UnknownNameError: if the reference is none of the systems; and as in `evaluate_run_sets`.
        NotFoundError: as in `evaluate_run_sets`.
        RunError: as in `evaluate_run_sets`; also if two systems' runs are of different passages
            (unless allowed).

    Examples:
        >>> result = compare_run_sets(["runs/dense", "runs/sparse"], shifts=["length"])
        >>> lead = result.figures.first(figure="rel_loss", against="sparse", group="mean")
        >>> print(f"{lead.system} - {lead.against}: {lead.value:+.2f}, p = {lead.p:.2f}")
        dense - sparse: -0.15, p = 0.21
    """
    settings = Settings.of(settings)
    check_means(settings.measures)
    opened = open_run_sets(runs, data, shifts, settings.run_format, reference=reference)
    opened = opened.comparing()
    for part in others:
        check_stored(part, settings)
    scores, _, warnings = score_opened(opened, settings, allow)
    at_hand = {part.shift_name: part for part in scores}
    stored = {part.system for part in others}
    others = [
        part.matched_to(at_hand[part.shift_name]) for part in others if part.shift_name in at_hand
    ]
    if lost := stored - {part.system for part in others}:
        raise UsageError(
            f"{', '.join(sorted(lost))} has no scores on {', '.join(at_hand)}; give runs of a "
            "shift with stored scores"
        )
    warnings += itertools.chain.from_iterable(map(run_warnings, others))
    if others:  # in the order of `find_run_sets`, which gives the sign of differences
        scores += others
        scores.sort(key=lambda part: ([*at_hand].index(part.shift_name), part.trained_per_group))
    starts = {
        (first.system, second.system)
        for of_shift in by_shift(scores).values()
        for first, second in itertools.permutations(of_shift, 2)
        if differ_in_start(first, second)
    }
    return differences_of(
        scores, opened.data, settings, reference=opened.reference, warnings=warnings, starts=starts
    )


def differences_of(
    scores: Sequence[Scores],
    data: DataInfo,
    settings: Settings,
    *,
    reference: str | None = None,
    warnings: Sequence[str] = (),
    starts: Collection[tuple[str, str]] = (),
) -> Result:
    """Return a comparison of systems by their scores, on shifts that at least two of them have.

    Other shifts, and systems with missing run files, are left out, with a warning.

    Args:
        scores: the scores of the systems.
        data: the data of the test sets.
        settings: measures, policies and statistics.
        reference: the system to compare the others with; by default every pair is compared.
        warnings: warnings about the runs.
        starts: pairs of systems that differ in pre-training only, in both orders; their differences
            are not tested.

    Raises:
        UnknownNameError: if no complete system has the name of the reference.
        UsageError: if no shift has two systems.
        DataError: if no query is left to count.
    """
    systems = dict.fromkeys(part.system for part in scores if not part.missing_files)
    if reference is not None and reference not in systems:
        raise UnknownNameError("reference", reference, systems)
    averages: dict[str, str] = {}
    rows: list[Figure] = []
    not_compared = []
    for name, of_shift in by_shift(scores).items():
        complete = {part.system: part for part in of_shift if not part.missing_files}
        not_compared += [
            f"{name}: {part.system} is left out, because some of its run files are missing"
            for part in of_shift
            if part.missing_files
        ]
        if reference is not None and reference not in complete:
            not_compared.append(f"{name}: not compared, because {reference} has no runs for it")
        elif len(complete) < 2:
            present = ", ".join(complete) or "part of a system"
            not_compared.append(f"{name}: not compared, because only {present} has runs for it")
        else:
            averages[name] = averaged_by(of_shift[0], settings)
            counted = counted_by_all(list(complete.values()), settings.missing)
            ones = {part.system for part in complete.values() if not part.trained_per_group}
            for measure in settings.measures:
                about = complete, measure, counted, averages[name]
                claims = [*pair_claims(*about, reference, starts)]
                claims += lead_claims(*about, reference, starts) if reference is not None else ()
                # Avg In and Out of one model repeat its score.
                of_measure = Figures(
                    [
                        row
                        for row in infer(claims, settings)
                        if row.figure not in SIDES or not ones >= {row.system, row.against} - {""}
                    ]
                )
                is_ranked = reference is None and settings.correction != UNCORRECTED
                rows += [*of_measure, *(_ranks(of_measure) if is_ranked else ())]
    if not averages:
        raise UsageError(
            "nothing to compare: expected two systems with complete run sets for the same shift; "
            + "; ".join(not_compared)
        )
    figures = Figures(rows)
    lines = comparison_notes(settings, figures, averages.values())
    caveats = [*data_caveats(data, figures.names("shift")), *seen_notes(scores)]
    caveats += dict.fromkeys(f"{part.system}: {part.source}" for part in scores if part.source)
    if starts:
        pairs = sorted({" and ".join(sorted(pair)) for pair in starts})
        caveats.append(
            f"{', '.join(pairs)}: the same baseline from two starts, one pre-training each: no p, "
            "as other pre-trainings would differ, too"
        )
    facts = [*data_notes(data), *policy_notes(settings)]
    notes = notes_of(lines, [*warnings, *not_compared], data=facts, caveats=caveats)
    layout = partial(_compared_sections, settings=settings, reference=reference)
    return answered("differences", figures, data, settings, notes, layout, scores)


def _compared_sections(
    figures: Figures,
    *,
    settings: Settings,
    reference: str | None,
    paper: bool = False,
    intervals: bool = False,
) -> Iterator[Section]:
    if paper:
        yield _paper_section(figures, settings, intervals=intervals)
        return
    yield Section(
        [
            table
            for _, of_shift in figures.each("shift")
            for measure in settings.measures
            for table in compared_tables(
                of_shift.where(measure=measure.name), measure, settings, reference
            )
        ]
    )


def _ranks(figures: Figures) -> Iterator[Figure]:
    """Yield the rank of each system by its average Rel Loss, and its range of ranks.

    A system without several seeds has `None`: nothing is known of another training of it.
    Pairs with a significant average difference give the ranges; see `rank_ranges`.
    """
    wholes = figures.where(figure="rel_loss", group=WHOLE)
    losses = [row for row in wholes if not row.against and row.value is not None]
    losses.sort(key=attrgetter("value", "system"))
    replicated = [row.system for row in losses if (row.seeds or 1) > 1]
    ranges = rank_ranges(
        replicated,
        [
            (row.system, row.against) if row.number < 0 else (row.against, row.system)
            for row in wholes.where(mark=STAR)
            if {row.system, row.against} <= set(replicated)
        ],
    )
    for row in losses:
        best, worst = ranges.get(row.system, (None, None))
        yield Figure("rank", shift=row.shift, system=row.system, measure=row.measure)._replace(
            group=row.group, value=best, low=best, high=worst
        )
