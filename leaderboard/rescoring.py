"""Scoring a system's run files the one way in which the leaderboard does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import open_dataset
from msshift_bench.errors import Finding, SubmissionError
from msshift_bench.evaluation import (
    Evaluator,
    Report,
    ScoredRun,
    Settings,
    SystemScores,
    check_answers,
    check_distinct,
)
from msshift_bench.leaderboard.scores import test_set_digest
from msshift_bench.plumbing import DamagedInputError, Progress, open_stream, silent
from msshift_bench.runs import RunSet
from msshift_bench.shifts import DATASET_NAME, SHIFTS

__all__ = ["SETTINGS", "data_digest", "score_run_sets"]

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""How every entry is scored; the first measure leads."""

_MAX_RUN_BYTES = 20_000_000_000
_CHUNK = 1 << 20


def data_digest(shift: str, data: str | Path = DATASET_NAME) -> str:
    """Return the digest of the test sets that a built data set has for a shift.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if it does not hold the shift.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    test_sets = open_dataset(data).test_sets(SHIFTS[shift])
    return test_set_digest(
        {group: rows.table.column("query_id").to_pylist() for group, rows in test_sets.items()}
    )


def score_run_sets(
    run_sets: Sequence[RunSet],
    system: str,
    root: Path,
    data: str | Path = DATASET_NAME,
    progress: Progress | None = None,
) -> Report:
    """Score the run sets of one system.

    Args:
        run_sets: its run sets, at most one per shift.
        system: what to call it; part of the seeding of resampled seeds.
        root: the folder that run files are named relative to.
        data: the built data set.
        progress: called with the number of shifts done.

    Raises:
        NotFoundError: if there is no built data set.
        RunError: if a run file is missing or malformed.
        SubmissionError: if a run file is damaged, or far larger than it can be.
    """
    tell = progress or silent
    results, evaluator = [], None
    for done, run_set in enumerate(run_sets):
        tell("scoring", done, len(run_sets))
        run_set.check_complete()
        for path in run_set.files:
            _check_size(path)
        evaluator = Evaluator.from_dataset(run_set.shift.name, data, SETTINGS)
        scores = evaluator.score(replace(run_set, system=system))
        check_answers(scores)
        check_distinct(scores)
        results.append(evaluator.summarise(_named_below(root, scores)))
    tell("scoring", len(run_sets), len(run_sets))
    if evaluator is None:
        raise ValueError("there is no run set")
    return Report(evaluator.data, SETTINGS, results)


def _check_size(path: Path) -> None:
    """Refuse a compressed run that unpacks to more than any run of the benchmark."""
    try:
        with open_stream(path) as stream:
            size = 0
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > _MAX_RUN_BYTES:
                    raise SubmissionError(
                        "a run file is too large:",
                        [Finding("run-too-large", f"more than {_MAX_RUN_BYTES} bytes", str(path))],
                    )
    except DamagedInputError as error:
        finding = Finding("truncated-input", str(error), str(path))
        raise SubmissionError("a run file is damaged:", [finding]) from None


def _named_below(root: Path, scores: SystemScores) -> SystemScores:
    """Return the scores with run files named relative to a folder, wherever that is."""

    def short(name: str) -> str:
        path = Path(name)
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else name

    def renamed(run: ScoredRun) -> ScoredRun:
        warnings = tuple(replace(one, source=short(one.source)) for one in run.report.warnings)
        report = replace(run.report, name=short(run.report.name), warnings=warnings)
        return replace(run, report=report)

    return replace(scores, runs=tuple(map(renamed, scores.runs)))
