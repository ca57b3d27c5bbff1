"""Scoring a system by the leaderboard's settings, from runs or from their per-query scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.evaluation import (
    Evaluator,
    Report,
    ReportRecord,
    ScoredRun,
    Settings,
    SystemRecord,
    SystemRows,
    SystemScores,
    check_answers,
    check_distinct,
    read_per_query,
)
from msshift_bench.leaderboard.boards import digest_of_test_sets
from msshift_bench.output import plain
from msshift_bench.plumbing import Progress, counted, silent
from msshift_bench.runs import RunSet
from msshift_bench.schema import Place
from msshift_bench.shifts import DATASET_NAME, SHIFTS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SETTINGS",
    "check_differences",
    "check_report",
    "data_digest",
    "score_run_sets",
    "scores_by_shift",
]

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""The settings of every entry; pages show the first measure first."""

_REL_TOLERANCE = 1e-9


def data_digest(shift: str, data: Dataset | str | Path = DATASET_NAME) -> str:
    """Return the digest of the test sets that a built data set has for a shift.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if it does not hold the shift.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    test_sets = open_dataset(data).test_sets(SHIFTS[shift])
    return digest_of_test_sets(
        {group: rows.table.column("query_id").to_pylist() for group, rows in test_sets.items()}
    )


def score_run_sets(
    run_sets: Sequence[RunSet],
    system: str,
    root: Path,
    data: Dataset | str | Path = DATASET_NAME,
    progress: Progress = silent,
) -> Report:
    """Score the run sets of one system.

    Args:
        run_sets: its run sets, at least one, at most one per shift.
        system: the system's name.
        root: the folder to which names of run files are relative.
        data: the built data set.
        progress: called with the number of shifts done.

    Raises:
        NotFoundError: if there is no built data set.
        RunError: if a run file is missing or malformed.
    """
    dataset = open_dataset(data)
    results = []
    for run_set in counted(run_sets, progress, "scoring", len(run_sets), every=1):
        run_set.check_complete()
        evaluator = Evaluator.from_dataset(run_set.shift.name, dataset, SETTINGS)
        scores = evaluator.score(replace(run_set, system=system))
        check_answers(scores)
        check_distinct(scores.system, scores.shift, scores.runs)
        results.append(evaluator.summarise(_named_below(root, scores)))
    return Report(dataset.info, SETTINGS, results)


def _named_below(root: Path, scores: SystemScores) -> SystemScores:
    """Return the scores with names of run files relative to a folder."""

    def short(name: str) -> str:
        path = Path(name)
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else name

    def renamed(run: ScoredRun) -> ScoredRun:
        warnings = tuple(
            replace(warning, source=short(warning.source)) for warning in run.report.warnings
        )
        report = replace(run.report, name=short(run.report.name), warnings=warnings)
        return replace(run, report=report)

    return replace(scores, runs=tuple(map(renamed, scores.runs)))


def scores_by_shift(report: ReportRecord, table: pa.Table) -> dict[str, SystemScores]:
    """Return shift -> the per-query scores that a report was made from.

    Args:
        report: the report of one system.
        table: the table of `strict_files.read_scores_table`.

    Raises:
        DataError: if its rows do not belong to the report.
    """
    rows = [
        SystemRows(
            system.system,
            SHIFTS[system.shift],
            [(run.seed, run.held_out) for run in system.runs],
            system.test_queries,
            report.settings.measures,
        )
        for system in report.systems
    ]
    return {scores.shift.name: scores for scores in read_per_query(table, rows)}


def check_report(report: ReportRecord, scores: Mapping[str, SystemScores], place: Place) -> None:
    """Compare a report's cells, losses, tests and intervals with those that its scores give.

    Facts that only run files tell (ties, and warnings about the files) are not checked.

    Args:
        report: the report.
        scores: shift -> its per-query scores.
        place: where to record findings.
    """
    for position, claimed in enumerate(report.systems):
        shift = SHIFTS[claimed.shift]
        evaluator = Evaluator(shift, dict.fromkeys(shift.tested, ()), SETTINGS)
        recomputed = SystemRecord.of(evaluator.summarise(scores[claimed.shift]))
        check_differences(
            claimed,
            _as_claimed(recomputed, claimed),
            place.at("systems").at(position),
            "report-differs",
            "the per-query scores give {!r}",
            "write the submission again with 'msshift submit'",
        )


def _as_claimed(recomputed: SystemRecord, claimed: SystemRecord) -> SystemRecord:
    """Return a recomputed record, with the claim's facts that only run files tell."""
    runs = tuple(
        replace(of_claim, missing_queries=run.missing_queries)
        for run, of_claim in zip(recomputed.runs, claimed.runs, strict=True)
    )
    measures = dict(recomputed.measures)
    for name in measures.keys() & claimed.measures.keys():
        cells, of_claim = measures[name].cells, claimed.measures[name].cells
        if len(cells) == len(of_claim):
            kept = (
                replace(cell, tied=other.tied, best=other.best, worst=other.worst)
                for cell, other in zip(cells, of_claim, strict=True)
            )
            measures[name] = replace(measures[name], cells=tuple(kept))
    return replace(recomputed, runs=runs, measures=measures)


def check_differences(
    claimed: SystemRecord, actual: SystemRecord, place: Place, code: str, why: str, fix: str = ""
) -> None:
    """Record where a claim differs from the computed value.

    Numbers must be equal up to 1e-9 of their size: the same code gives the same numbers except for
    the last bits, which may depend on the processor.

    Args:
        claimed: the record in a submission.
        actual: the computed record.
        place: the claim's place.
        code: the findings' code.
        why: the message on the computed value, which is formatted into it.
        fix: how to put it right.
    """
    for path, value, other in _differences(plain(claimed), plain(actual)):
        here = place
        for key in path:
            here = here.at(key)
        here.wrong(code, f"the report says {value!r}, {why.format(other)}", fix)


def _differences(
    claimed: Any, actual: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Yield the path of each difference between two JSON values, and both values there."""
    if isinstance(claimed, dict) and isinstance(actual, dict):
        for key in [*actual, *(key for key in claimed if key not in actual)]:
            yield from _differences(claimed.get(key), actual.get(key), (*path, key))
    elif isinstance(claimed, list) and isinstance(actual, list):
        if len(claimed) != len(actual):
            yield path, f"{len(claimed)} items", f"{len(actual)} items"
            return
        for position, (value, other) in enumerate(zip(claimed, actual, strict=True)):
            yield from _differences(value, other, (*path, position))
    elif isinstance(claimed, float) and isinstance(actual, float):
        if not math.isclose(claimed, actual, rel_tol=_REL_TOLERANCE, abs_tol=1e-12):
            yield path, claimed, actual
    elif claimed != actual:
        yield path, claimed, actual
