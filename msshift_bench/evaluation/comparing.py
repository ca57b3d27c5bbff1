"""Comparing systems: which is better or loses less, and which the data cannot tell apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from msshift_bench.data import DataInfo, Dataset
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.evaluation.checks import COMPARED_RUNS, Checks
from msshift_bench.evaluation.claims import ALL_QUERIES, pair_claims
from msshift_bench.evaluation.evaluating import averaged_by, by_shift, read_scores, run_doubts
from msshift_bench.evaluation.notes import comparison_notes
from msshift_bench.evaluation.results import Note, Result, Section
from msshift_bench.evaluation.scores import Scores, counted_by_all
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.tables import compared_tables
from msshift_bench.plumbing import Progress, silent
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import DATASET_NAME
from msshift_bench.stats import MEAN, Figure, Figures, infer, rank_ranges

__all__ = ["compare_run_sets", "differences_of"]


def compare_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    reference: str | Path | None = None,
    allow: Collection[str] = (),
    progress: Progress = silent,
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
        progress: called with the number of run files done.

    Returns:
        Every system's figures, and how far every two are apart.

    Raises:
        UsageError: if no shift has two systems, and as in `evaluate_run_sets`.
        UnknownNameError: if the reference is none of the systems; and as in `evaluate_run_sets`.
        NotFoundError: as in `evaluate_run_sets`.
        RunError: as in `evaluate_run_sets`; also if two systems' runs are of different passages
            (unless allowed).
    """
    settings, checks = settings or Settings(), Checks(allow=allow)
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    name = None if reference is None else str(reference)
    is_folder = reference is not None and Path(reference).is_dir()
    if is_folder and name not in {run_set.system for run_set in find_run_sets(folders)}:
        folders.append(str(reference))
        wanted = Path(str(reference)).resolve()
        known = {run_set.system for run_set in find_run_sets(folders) if run_set.folder == wanted}
        name = next(iter(known), name)
    scores = read_scores(folders, data, shifts, settings, checks, progress)
    files: dict[str, list[Path]] = {}
    for run_set in find_run_sets(folders):
        if not shifts or run_set.shift.name in shifts:
            files.setdefault(run_set.shift.name, []).extend(run_set.files)
    checks.check_passages(files.items(), COMPARED_RUNS)
    doubts = [*dict.fromkeys(checks.doubts), *run_doubts(scores)]
    return differences_of(scores, checks.data, settings, reference=name, doubts=doubts)


def differences_of(
    scores: Sequence[Scores],
    data: DataInfo,
    settings: Settings,
    *,
    reference: str | None = None,
    doubts: Sequence[str] = (),
) -> Result:
    """Compare systems by their scores, on every shift that at least two of them have.

    Args:
        scores: the scores of the systems.
        data: the data of the test sets.
        settings: measures, policies and statistics.
        reference: the system to compare the others with; by default every two are compared.
        doubts: what is known to be odd about the runs.

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
        if reference is not None and reference not in complete:
            not_compared.append(f"{name}: not compared, because {reference} has no runs for it")
        elif len(complete) < 2:
            present = ", ".join(complete) or "part of a system"
            not_compared.append(f"{name}: not compared, because only {present} has runs for it")
        else:
            averages[name] = averaged_by(of_shift[0], settings)
            counted = counted_by_all(list(complete.values()), settings.missing)
            for measure in settings.measures:
                claims = pair_claims(complete, measure, counted, averages[name], reference)
                of_measure = infer(claims, settings)
                rows += [*of_measure, *(_ranks(of_measure) if reference is None else ())]
    if not averages:
        present = "; ".join(
            f"{name}: {', '.join(part.system for part in of_shift)}"
            for name, of_shift in by_shift(scores).items()
        )
        raise UsageError(
            "nothing to compare: it takes two systems with complete run sets for the same shift, "
            f"and there are: {present}"
        )
    figures = Figures(rows)
    lines = comparison_notes(data, settings, figures, averages.values(), reference)
    notes = [Note(line) for line in lines]
    notes += [Note(line, "doubt") for line in (*doubts, *not_compared)]
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


def _ranks(figures: Figures) -> list[Figure]:
    """Return the rank of each system by its average Rel Loss, and the ranks that it might take.

    Only systems with several seeds are ranked, by the pairs that are told apart on the whole shift:
    nothing is known of another training of the others. See `rank_ranges`.
    """
    wholes = figures.where(figure="rel_loss", group=(MEAN, ALL_QUERIES))
    losses = {row.system: row.value for row in wholes if not row.against and row.value is not None}
    order = sorted(losses, key=lambda system: (losses[system], system))
    replicated = {row.system for row in wholes if not row.against and (row.seeds or 1) > 1}
    apart = set()
    for row in wholes:
        if row.star and row.value is not None and {row.system, row.against} <= replicated:
            is_first = row.value < 0
            apart.add((row.system, row.against) if is_first else (row.against, row.system))
    ranges = rank_ranges([system for system in order if system in replicated], apart)
    ranks = []
    for system in order:
        named = next(row for row in wholes if row.system == system)
        rank = Figure("rank", shift=named.shift, system=system, measure=named.measure)
        if system in ranges:
            place = ranges[system]
            rank = rank._replace(value=place.rank, low=place.best, high=place.worst)
        ranks.append(rank._replace(group=named.group))
    return ranks
