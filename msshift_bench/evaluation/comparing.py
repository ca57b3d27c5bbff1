"""Comparing evaluated systems and runs: which is better, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench.data import DataInfo, Dataset
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.evaluation.comparison import Comparison
from msshift_bench.evaluation.comparison_tables import (
    comparison_notes,
    comparison_rows,
    comparison_tables,
)
from msshift_bench.evaluation.fitting import check_passages, run_remarks
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.run_set_report import Report, read_run_sets
from msshift_bench.evaluation.scored_runs import ScoredRun, answered_by_all
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.single import (
    EvaluatedRuns,
    JudgedQueries,
    QrelsSource,
    evaluate_runs,
)
from msshift_bench.output import FIGURE_COLUMNS, LongTable, Table, WithFigures, plain, report_head
from msshift_bench.plumbing import Progress, silent
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift
from msshift_bench.stats import (
    COMPARED_FIGURES,
    GroupScores,
    ScoresByGroup,
    compare_systems,
)

if TYPE_CHECKING:
    from msshift_bench.arrays import Ints
    from msshift_bench.evaluation.system_scores import SystemScores

__all__ = ["ComparisonReport", "compare_report", "compare_run_sets", "compare_runs"]

_COMPARED = "runs that are compared"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComparisonReport(WithFigures):
    """Several systems or runs, compared on every shift, or on one test set.

    Attributes:
        data: the data.
        settings: the settings.
        comparisons: one per shift and measure.
        remarks: doubts about the figures, and what could not be compared.
    """

    data: DataInfo
    settings: Settings
    comparisons: Sequence[Comparison]
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        tested = ", ".join(dict.fromkeys(one.test_set for one in self.comparisons))
        systems = ", ".join(dict.fromkeys(name for one in self.comparisons for name in one.seeds))
        return f"<ComparisonReport: {systems} on {tested}>"

    def tables(self) -> list[Table]:
        """Return the tables: for each comparison an overview first, then what was tested."""
        return [table for one in self.comparisons for table in comparison_tables(one)]

    def notes(self) -> list[str]:
        """Return the notes below the tables: data, policies and counts."""
        return [*comparison_notes(self.comparisons, self.data, self.settings), *self.remarks]

    def tidy(self) -> LongTable:
        """Return every figure and every difference as a row of one long table."""
        rows = [row for one in self.comparisons for row in comparison_rows(one)]
        return LongTable(rows, (*FIGURE_COLUMNS, "against"))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report."""
        return {
            **report_head(),
            "data": plain(self.data),
            "settings": self.settings.to_json(),
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "remarks": list(self.remarks),
        }


def compare_report(report: Report, baseline: str | None = None) -> ComparisonReport:
    """Compare the systems of a report, on every shift that at least two of them have.

    Args:
        report: the evaluated systems.
        baseline: the system to compare the others with; by default every two are compared.

    Raises:
        UnknownNameError: if no system has the name of the baseline.
        UsageError: if no shift has two systems.
    """
    scores = [result.scores for result in report.systems]
    return _compare_scores(report.data, report.settings, scores, report.remarks, baseline)


def _compare_scores(
    data: DataInfo,
    settings: Settings,
    scores: Sequence[SystemScores],
    remarks: Sequence[str],
    baseline: str | None,
) -> ComparisonReport:
    systems = dict.fromkeys(one.system for one in scores if not one.missing_files)
    if baseline is not None and baseline not in systems:
        raise UnknownNameError("baseline", baseline, systems)
    by_shift: dict[str, list[SystemScores]] = {}
    for one in scores:
        by_shift.setdefault(one.shift.name, []).append(one)
    comparisons = []
    alone = []
    for name, of_shift in by_shift.items():
        complete = {one.system: one for one in of_shift if not one.missing_files}
        if baseline is not None and baseline not in complete:
            alone.append(f"{name}: not compared, because {baseline} has no runs for it")
        elif len(complete) < 2:
            alone.append(
                f"{name}: not compared, because only {', '.join(complete) or 'part of a system'} "
                "has runs for it"
            )
        else:
            comparisons += [
                _compare(get_shift(name), complete, measure, settings, baseline)
                for measure in settings.measures
            ]
    if not comparisons:
        held = "; ".join(
            f"{name}: {', '.join(one.system for one in of_shift)}"
            for name, of_shift in by_shift.items()
        )
        raise UsageError(
            "nothing to compare: it takes two systems with complete run sets for the same shift, "
            f"and there are: {held}"
        )
    return ComparisonReport(data, settings, comparisons, [*remarks, *alone])


def _compare(
    shift: Shift,
    scored: Mapping[str, SystemScores],
    measure: Measure,
    settings: Settings,
    baseline: str | None,
) -> Comparison:
    first = next(iter(scored.values()))
    runs = [run for one in scored.values() for run in one.runs]
    counted = {
        group: _counted(runs, queries, settings, group) for group, queries in first.groups.items()
    }
    scores: dict[str, ScoresByGroup] = {
        name: one.group_scores(measure.name, counted)
        if one.trained_per_group
        else one.untrained_scores(measure.name, counted)
        for name, one in scored.items()
    }
    with_loss = {name: one for name, one in scores.items() if scored[name].trained_per_group}
    inference = replace(settings, average=settings.average or shift.average)
    figures = {}
    for figure in COMPARED_FIGURES:
        systems = with_loss if figure == "rel_loss" else scores
        if len(systems) > 1 and (baseline is None or baseline in systems):
            figures[figure] = compare_systems(
                systems,
                inference,
                higher_is_better=measure.higher_is_better,
                figure=figure,
                baseline=baseline,
            )
    return Comparison(
        shift,
        shift.name,
        measure,
        str(inference.average),
        figures,
        {group: len(queries) for group, queries in counted.items()},
        {
            name: next(iter(one.values())).seeds if name in with_loss else None
            for name, one in scores.items()
        },
        baseline,
    )


def _counted(runs: Sequence[ScoredRun], queries: Ints, settings: Settings, group: str) -> Ints:
    """Return the queries that count: they are the same for all that is compared."""
    if settings.missing != "skip":
        return queries
    counted = answered_by_all(runs, queries)
    if not counted.size:
        raise DataError(f"there is no test query of {group} that all runs hold")
    return counted


def compare_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    baseline: str | Path | None = None,
    allow_identical: bool = False,
    force_data: bool = False,
    progress: Progress = silent,
) -> ComparisonReport:
    """Find run sets, evaluate them on a built data set, and compare their systems.

    Args:
        runs: one or several folders, as in `evaluate_run_sets`.
        data: the built data set, as in `evaluate_run_sets`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics.
        baseline: the system to compare the others with: its name, or its folder, which need not
            be among `runs`. By default every two systems are compared.
        allow_identical: accept the same file under two models of a system.
        force_data: score runs even if their sidecars name other data, or different passages.
        progress: called with the number of run files done.

    Returns:
        A comparison per shift and measure, by Avg In and Out and, of systems that have a loss, by
        Rel Loss.

    Raises:
        UsageError: if no shift has two systems, and as in `evaluate_run_sets`.
        UnknownNameError: if the baseline is none of the systems; and as in `evaluate_run_sets`.
        NotFoundError: as in `evaluate_run_sets`.
        RunError: as in `evaluate_run_sets`; also if a run file is missing, or two systems' runs are
            of different passages (unless `force_data`).
    """
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    named = None if baseline is None else str(baseline)
    if baseline is not None and Path(baseline).is_dir():
        known = {run_set.system for run_set in find_run_sets(folders)}
        if named not in known:
            folders.append(baseline)
            wanted = Path(baseline).resolve()
            found = {one.system for one in find_run_sets(folders) if one.folder == wanted}
            named = next(iter(found), named)
    sets = read_run_sets(
        folders,
        data,
        shifts,
        settings,
        allow_identical=allow_identical,
        force_data=force_data,
        progress=progress,
    )
    files: dict[str, list[Path]] = {}
    for run_set in find_run_sets(folders):
        if not shifts or run_set.shift.name in shifts:
            files.setdefault(run_set.shift.name, []).extend(run_set.files)
    doubts = check_passages(files.items(), force_data=force_data, whose=_COMPARED)
    scores = [one for _, one in sets.scores]
    remarks = list(dict.fromkeys(sets.remarks + doubts)) + run_remarks(scores)
    return _compare_scores(sets.data, sets.settings, scores, remarks, named)


def compare_runs(
    runs: Sequence[object],
    qrels: QrelsSource | JudgedQueries,
    settings: Settings | None = None,
    *,
    baseline: object = None,
    force_data: bool = False,
) -> ComparisonReport:
    """Score single runs against one test set, and compare their means.

    A single run is one ranking: intervals and p-values count queries only, so that nothing is
    called significant of another training of the same system.

    Args:
        runs: paths, or anything else that `read_run` takes, as in `evaluate_runs`.
        qrels: qrels, or a test set of the benchmark, as in `evaluate_runs`.
        settings: measures, policies and statistics.
        baseline: the run to compare the others with, one of `runs` or another. By default every
            two runs are compared.
        force_data: score runs even if their sidecars name other data, or different passages.

    Returns:
        A comparison per measure.

    Raises:
        UsageError: if there are not two runs, or a measure is no mean over the same queries.
        RunError: as in `evaluate_runs`; also if runs are of different passages (unless
            `force_data`).
        DataError: if no query is left to count.
    """
    settings = settings or Settings()
    for measure in settings.measures:
        if measure.aggregate == "sum" or measure.partial:
            raise UsageError(
                f"{measure} is no mean over the same queries for all runs, so that it cannot be "
                "compared; evaluate the runs by it"
            )
    given = _each_once(runs)
    at = None
    if baseline is not None:
        at = next((place for place, run in enumerate(given) if _same(run, baseline)), len(given))
        given = [*given, baseline] if at == len(given) else given
    if len(given) < 2:
        raise UsageError("nothing to compare: it takes two runs")
    test_set = qrels if isinstance(qrels, JudgedQueries) else JudgedQueries.of_qrels(qrels)
    files = [Path(run) for run in given if isinstance(run, str | PathLike)]
    doubts = check_passages([(test_set.name, files)], force_data=force_data, whose=_COMPARED)
    evaluated = evaluate_runs(given, test_set, settings, force_data=force_data)
    names = _numbered(result.run.report.name for result in evaluated.runs)
    comparisons = [
        _compare_means(evaluated, names, measure, None if at is None else names[at])
        for measure in settings.measures
    ]
    remarks = [*doubts, *evaluated.remarks]
    return ComparisonReport(test_set.data, settings, comparisons, remarks)


def _each_once(runs: Sequence[object]) -> list[object]:
    given: list[object] = []
    for run in runs:
        if any(_same(run, other) for other in given):
            raise UsageError(f"nothing to compare: {run} is given twice")
        given.append(run)
    return given


def _same(run: object, other: object) -> bool:
    if isinstance(run, str | PathLike) and isinstance(other, str | PathLike):
        return Path(run).resolve() == Path(other).resolve()
    return run is other


def _numbered(names: Iterable[str]) -> list[str]:
    """Return the names, with a number behind those that occurred before."""
    seen: dict[str, int] = {}
    numbered = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def _compare_means(
    evaluated: EvaluatedRuns, names: Sequence[str], measure: Measure, baseline: str | None
) -> Comparison:
    test_set, settings = evaluated.test_set, evaluated.settings
    runs = [result.run for result in evaluated.runs]
    queries = np.arange(len(test_set.judgements))
    counted = _counted(runs, queries, settings, test_set.name)
    scores = {
        name: {test_set.name: GroupScores.untrained(run.scores[measure.name][counted])}
        for name, run in zip(names, runs, strict=True)
    }
    # The one group is the whole, so its Out is the mean of the run.
    compared = compare_systems(
        scores,
        settings,
        higher_is_better=measure.higher_is_better,
        figure="out",
        baseline=baseline,
    )
    return Comparison(
        None,
        test_set.name,
        measure,
        "macro",
        {"mean": compared},
        {test_set.name: len(counted)},
        dict.fromkeys(names),
        baseline,
    )
