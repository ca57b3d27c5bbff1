"""Run sets: what systems score and lose, and which of them differ.

`evaluate_run_sets` computes Avg In, Out and Rel Loss, as a whole, by label, and without queries
that leaked; `compare_run_sets` says which of several systems is better, and which loses less.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    UnknownNameError,
    UsageError,
    first_few,
)
from msshift_bench.evaluation.checks import COMPARED_RUNS, Checks
from msshift_bench.evaluation.claims import (
    LEAKED_SLICES,
    WHOLE,
    LeftOut,
    check_left_out,
    left_out_claims,
    loss_claims,
    matrix_claims,
    pair_claims,
)
from msshift_bench.evaluation.notes import (
    comparison_notes,
    delta_notes,
    left_out_notes,
    loss_notes,
    tie_notes,
    weak_notes,
)
from msshift_bench.evaluation.results import Note, Result, Section, notes_of
from msshift_bench.evaluation.scores import Scores, check_is_mean, counted_by_all, slice_scores
from msshift_bench.evaluation.scoring import score_files, test_set_of_shift
from msshift_bench.evaluation.settings import Settings, SettingsSource
from msshift_bench.evaluation.tables import (
    compared_tables,
    delta_table,
    left_out_tables,
    loss_table,
    matrix_table,
)
from msshift_bench.plumbing import tsv_rows
from msshift_bench.runs import FOR_ALL, RunSet, find_run_sets
from msshift_bench.shifts import DATASET_NAME, ShiftNames, get_shift, several, shift_names
from msshift_bench.stats import STAR, UNCORRECTED, Claim, Figure, Figures, infer, rank_ranges


def read_scores(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path,
    shifts: ShiftNames,
    settings: Settings,
    checks: Checks,
) -> list[Scores]:
    """Find run sets and score them query by query, without computing figures.

    Args:
        runs: one or several folders, each of a system's run sets or those of several systems.
        data: the built data set.
        shifts: only these; all that the folders hold, if empty.
        settings: measures and policies.
        checks: what is refused, or allowed; it gets the data, and keeps the doubts.

    Raises:
        MsShiftError: as `evaluate_run_sets`.
    """
    for measure in settings.measures:
        check_is_mean(measure)
    folders = several(runs)
    for run in folders:
        if str(run) == "-" or Path(run).is_file():
            raise UsageError(
                f"{run} is a run file, not a folder of run sets; score it with 'msshift score "
                f"{run} --test length-short', or --qrels FILE, and --reference RUN compares it"
            )
    wanted = shift_names(shifts)
    run_sets = find_run_sets(folders)
    selected = [run_set for run_set in run_sets if not wanted or run_set.shift.name in wanted]
    if not selected:
        present = ", ".join(dict.fromkeys(run_set.shift.name for run_set in run_sets))
        raise UsageError(f"no run set of {', '.join(sorted(wanted))}; the folders hold {present}")
    return score_run_sets(selected, open_dataset(data), settings, checks)


def score_run_sets(
    run_sets: Sequence[RunSet], dataset: Dataset, settings: Settings, checks: Checks
) -> list[Scores]:
    """Score run sets query by query.

    Args:
        run_sets: the run sets.
        dataset: the data set with their test sets.
        settings: measures and policies.
        checks: what is refused, or allowed; it gets the data, and keeps the doubts.

    Raises:
        RunError: if runs and data do not belong together, or a run file is missing or malformed.
        DataError: if no query of a group is left to count.
    """
    checks.data = dataset.info
    checks.doubt_collection(dataset)
    shifts = {run_set.shift.name: run_set.shift for run_set in run_sets}
    test_sets = {name: test_set_of_shift(shift, dataset) for name, shift in shifts.items()}
    checks.check_run_sets(run_sets)
    for test_set in test_sets.values():
        checks.check_grades(test_set, settings.measures)
    pairs = [(run_set, test_sets[run_set.shift.name]) for run_set in run_sets]
    scores = []
    for part in score_files(pairs, settings):
        checks.check_scores(part, settings.missing)
        counted_by_all([part], settings.missing)
        scores.append(part)
    return scores


def by_shift(scores: Sequence[Scores]) -> dict[str, list[Scores]]:
    """Return shift -> the scores on it."""
    shifts: dict[str, list[Scores]] = {}
    for part in scores:
        shifts.setdefault(part.shift_name, []).append(part)
    return shifts


def evaluate_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    labels: Mapping[str, str] | None = None,
    without: LeftOut | None = None,
    allow: str | Collection[str] = (),
) -> Result:
    """Find run sets and evaluate them on a built data set: Avg In, Out and Rel Loss, by shift.

    Args:
        runs: one or several folders, each of a system's run sets or those of several systems.
        data: the built data set, see `open_dataset`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics.
        labels: query_id -> label; every label then has figures of its queries.
        without: test queries to compute the figures without, too.
        allow: what not to refuse, some of `ALLOWANCES`.

    Returns:
        Every system's figures on every group and on average: ``avg_in``, ``out`` and ``loss`` on
        the measure's scale, not times 100, and ``rel_loss``, a fraction of Avg In; see `Figure`.

    Raises:
        UnknownNameError: for an unknown shift or allowance.
        UsageError: if a run file is given instead of a folder, a measure has no loss, or no run set
            is of the requested shifts.
        NotFoundError: if a folder or the data set does not exist.
        RunError: if a run file is missing or malformed, was made on other data or is that of
            another model (all unless allowed), or answers no test query of a group.
        DataError: if no test query has a label, or none is left to count.

    Examples:
        >>> result = evaluate_run_sets("runs", "msshift", ["length"])
        >>> for loss in result.figures.where(figure="rel_loss", group="short"):
        ...     print(f"{loss.system} {loss.value:.2f}, 95%: {loss.low:.2f} to {loss.high:.2f}")
        dense 0.62, 95%: 0.42 to 0.82
        sparse 0.53, 95%: 0.23 to 0.83
    """
    check_left_out(without)
    settings, checks = Settings.of(settings), Checks(allow=allow)
    scores = read_scores(runs, data, shifts, settings, checks)
    checks.doubt_runs(scores)
    if labels is not None:
        checks.doubts += _label_doubts(scores, labels, settings)
    return losses_of(
        scores, checks.data, settings, labels=labels, without=without, doubts=checks.doubts
    )


def losses_of(
    scores: Sequence[Scores],
    data: DataInfo,
    settings: Settings,
    *,
    labels: Mapping[str, str] | None = None,
    without: LeftOut | None = None,
    doubts: Sequence[str] = (),
) -> Result:
    """Return what systems score and lose, from their scores.

    Args:
        scores: the scores of systems on shifts.
        data: the data of the test sets.
        settings: measures, policies and statistics.
        labels: query_id -> label; every label then has figures of its queries.
        without: test queries to compute the figures without, too.
        doubts: what is known to be odd about the runs.

    Raises:
        DataError: if no query of a group is left to count.
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
                claims += left_out_claims(part, measure, settings.missing, averaged, without)
    figures = infer(claims, settings)
    notes += weak_notes(figures, settings)
    for (name,), means in figures.where(slice="").each("shift"):
        notes += notes_of(tie_notes(means, settings), about={"shift": name})
    if without is not None:
        notes += notes_of(left_out_notes(figures, without.source), about={"view": "left out"})
    notes += notes_of((), doubts)
    lacking = {(part.shift_name, part.system) for part in scores if part.missing_files}
    layout = partial(_loss_sections, settings=settings, partial_systems=lacking)
    return Result("losses", figures, settings.to_json(), data, notes, layout, scores)


def averaged_by(scores: Scores, settings: Settings) -> str:
    """Return how the groups of a shift are averaged, a key of `stats.AVERAGES`."""
    assert scores.shift is not None
    return settings.average or scores.shift.average


def system_claims(
    scores: Scores, settings: Settings, labels: Mapping[str, str] | None = None
) -> Iterator[Claim]:
    """Yield the claims of one system: of all queries, then of those with each label.

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


def _label_doubts(
    scores: Sequence[Scores], labels: Mapping[str, str], settings: Settings
) -> list[str]:
    """Return a doubt for each label that has no figures, since runs lack its queries.

    Raises:
        DataError: if no test query has a label.
    """
    tested = {query for part in scores for query in part.query_ids}
    if tested.isdisjoint(labels):
        labelled = first_few([str(query_id) for query_id in labels]) or "no query"
        raise DataError(
            f"none of the {len(tested):,} test queries has a label ({first_few(tested)}); the "
            f"labels are those of {labelled}"
        )
    return [
        f"{part.system}/{part.shift_name}: no slice {label}, because a run "
        "lacks each of its queries"
        for part in scores
        for label in slice_scores(part, labels)
        if label not in slice_scores(part, labels, settings.missing)
    ]


def read_labels(by: str, data: Dataset | str | Path) -> dict[str, str]:
    """Return query_id -> label.

    Args:
        by: a file of two tab-separated columns, query_id and label; or the name of a shift of
            the data set, or the beginning of one alone; the shift's groups are then the labels. A
            query in two groups, as a few of the official release are, has the first as its label.
        data: the built data set.

    Raises:
        UnknownNameError: if it is neither.
        CollectionError: if the file is malformed, or labels a query twice.
    """
    path, findings = Path(by), FindingLog()
    labels: dict[str, str] = {}
    if path.is_file():
        for line, (query_id, label) in tsv_rows(path, ("query_id", "label"), findings):
            if query_id in labels:
                findings.add("repeated-id", f"query_id {query_id!r} again", str(path), line)
            labels[query_id] = label
        findings.stop_if_any(CollectionError, f"the labels in {path} are malformed:")
        return labels
    dataset = open_dataset(data)
    shifts = dataset.manifest.shifts
    meant = [by] if by in shifts else [name for name in shifts if by and name.startswith(by)]
    if len(meant) != 1:
        raise UnknownNameError("file or shift to break results down by", by, shifts)
    for row in dataset.rows(meant[0], "queries"):
        labels.setdefault(row.query_id, row.group)
    return labels


def _loss_sections(
    figures: Figures,
    *,
    settings: Settings,
    partial_systems: Collection[tuple[str, str]],
    delta: bool = False,
    matrices: bool = False,
) -> Iterator[Section]:
    """Yield the tables of each shift: losses, matrices, slices; then those without queries."""
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
        # All shifts stand together, below none of the notes on one.
        about = {"shift": "", "view": "left out"}
        yield Section(list(left_out_tables(figures, settings)), about)


def _delta_sections(
    figures: Figures, settings: Settings, partial_systems: Collection[tuple[str, str]]
) -> Iterator[Section]:
    families: dict[str, list[Figure]] = {}
    for figure in figures:
        families.setdefault(get_shift(figure.shift).family, []).append(figure)
    for rows in families.values():
        part = Figures(rows)
        table = delta_table(part, settings.measures, partial_systems)
        for place, name in enumerate(part.names("shift")):
            about = {"shift": name, "view": "delta"}
            tables = [table] if place == 0 else []
            yield Section(tables, about, list(delta_notes(part, settings)) if place == 0 else [])


def compare_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    reference: str | Path | None = None,
    allow: str | Collection[str] = (),
) -> Result:
    """Find run sets, evaluate them on a built data set, and compare their systems.

    Systems are compared by Avg In, Out and, where they have one, Rel Loss, on the same queries.
    Permuting the labels of two systems per query would test something else: that they are
    interchangeable altogether, also in Avg In. It rejects for a strong and a weak system that lose
    the same share.

    Args:
        runs: one or several folders, as in `evaluate_run_sets`.
        data: the built data set, as in `evaluate_run_sets`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics.
        reference: the system to compare the others with: its name, or its folder, which need not
            be among `runs`. By default every two systems are compared, and ranked by Rel Loss.
        allow: what not to refuse, some of `ALLOWANCES`; nothing is compared that is ``partial``.

    Returns:
        Every system's figures, and how far every two are apart.

    Raises:
        UsageError: if no shift has two systems, and as in `evaluate_run_sets`.
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
    settings, checks = Settings.of(settings), Checks(allow=allow)
    folders = several(runs)
    name = None if reference is None else str(reference)
    is_folder = reference is not None and Path(reference).is_dir()
    if is_folder and name not in {run_set.system for run_set in find_run_sets(folders)}:
        folders.append(str(reference))
        wanted = Path(str(reference)).resolve()
        known = {run_set.system for run_set in find_run_sets(folders) if run_set.folder == wanted}
        name = next(iter(known), name)
    scores = read_scores(folders, data, shifts, settings, checks)
    files = {
        shift: [file for part in of_shift for file in part.files]
        for shift, of_shift in by_shift(scores).items()
    }
    checks.check_passages(files.items(), COMPARED_RUNS)
    checks.doubt_runs(scores)
    starts = {
        (first.system, second.system)
        for of_shift in by_shift(scores).values()
        for first, second in itertools.permutations(of_shift, 2)
        if checks.differ_in_start(first, second)
    }
    return differences_of(
        scores, checks.data, settings, reference=name, doubts=checks.doubts, starts=starts
    )


def differences_of(
    scores: Sequence[Scores],
    data: DataInfo,
    settings: Settings,
    *,
    reference: str | None = None,
    doubts: Sequence[str] = (),
    starts: Collection[tuple[str, str]] = (),
) -> Result:
    """Compare systems by their scores, on every shift that at least two of them have.

    Args:
        scores: the scores of the systems.
        data: the data of the test sets.
        settings: measures, policies and statistics.
        reference: the system to compare the others with; by default every two are compared.
        doubts: what is known to be odd about the runs.
        starts: pairs that differ in what training started from, one pre-training each; their
            differences are not tested.

    Raises:
        UnknownNameError: if no system has the name of the reference.
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
            f"{name}: {part.system} is left out, because run files of it are missing"
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
            for measure in settings.measures:
                claims = pair_claims(complete, measure, counted, averages[name], reference, starts)
                of_measure = infer(claims, settings)
                is_ranked = reference is None and settings.correction != UNCORRECTED
                rows += [*of_measure, *(_ranks(of_measure) if is_ranked else ())]
    if not averages:
        raise UsageError(
            "nothing to compare: it takes two systems with complete run sets for the same shift; "
            + "; ".join(not_compared)
        )
    figures = Figures(rows)
    lines = list(comparison_notes(data, settings, figures, averages.values()))
    if starts:
        pairs = sorted({" and ".join(sorted(pair)) for pair in starts})
        lines.append(
            f"{', '.join(pairs)}: the same baseline from two starts, one pre-training each: no p, "
            "as other pre-trainings would differ, too"
        )
    notes = notes_of(lines, [*doubts, *not_compared])
    layout = partial(_compared_sections, settings=settings, reference=reference)
    return Result("differences", figures, settings.to_json(), data, notes, layout, scores)


def _compared_sections(
    figures: Figures, *, settings: Settings, reference: str | None
) -> Iterator[Section]:
    tables = [
        table
        for _, of_shift in figures.each("shift")
        for measure in settings.measures
        for table in compared_tables(
            of_shift.where(measure=measure.name), measure, settings, reference
        )
    ]
    yield Section(tables)


def _ranks(figures: Figures) -> Iterator[Figure]:
    """Yield the rank of each system by its average Rel Loss, and the ranks that it might take.

    Only systems with several seeds are ranked, by the pairs that are told apart on the whole shift:
    nothing is known of another training of the others. See `rank_ranges`.
    """
    wholes = figures.where(figure="rel_loss", group=WHOLE)
    losses = [row for row in wholes if not row.against and row.value is not None]
    losses.sort(key=attrgetter("value", "system"))
    replicated = [row.system for row in losses if (row.seeds or 1) > 1]
    apart = [
        (row.system, row.against) if row.number < 0 else (row.against, row.system)
        for row in wholes.where(mark=STAR)
        if {row.system, row.against} <= set(replicated)
    ]
    ranges = rank_ranges(replicated, apart)
    for row in losses:
        best, worst = ranges.get(row.system, (None, None))
        rank = Figure("rank", shift=row.shift, system=row.system, measure=row.measure)
        yield rank._replace(group=row.group, value=best, low=best, high=worst)
