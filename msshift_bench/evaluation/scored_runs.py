"""Scoring run files: one score per query and measure, before anything is averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import Finding, RunError, UsageError
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.query_names import first_ids, looks_like
from msshift_bench.evaluation.settings import Settings
from msshift_bench.runs import JudgedRun, Judgements, RunReport, judge_run

__all__ = [
    "Cell",
    "ScoredRun",
    "answered_by_all",
    "cell",
    "score_run",
    "with_value",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoredRun:
    """One run file's scores for every query of a test set.

    Attributes:
        report: what was read.
        missing: mask of the queries that the run lacks, ``[queries]``.
        tied: mask of the queries where a tie touches a relevant document, ``[queries]``.
        scores: measure -> per-query scores under the tie policy, ``[queries]``.
        best: measure -> scores with every tie broken for the relevant documents.
        worst: measure -> scores with every tie broken against them.
        held_out: the group the model was trained without; `None` if it was not trained per group.
        seed: the replicate's seed; `None` where there is only one.
    """

    report: RunReport
    missing: NDArray[np.bool_]
    tied: NDArray[np.bool_]
    scores: Mapping[str, Floats]
    best: Mapping[str, Floats]
    worst: Mapping[str, Floats]
    held_out: str | None = None
    seed: int | None = None

    def __repr__(self) -> str:
        measures = ", ".join(self.scores)
        return f"<ScoredRun: {self.report.name}, {measures}, {len(self.missing):,} queries>"


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one set of test queries under one measure.

    Attributes:
        measure: the measure's name; `mean` is its mean.
        held_out: the group the model was trained without; `None` if it was not trained per group.
        seed: the replicate's seed; `None` where there is only one.
        group: the group whose test queries these are.
        mean: the mean over the counted queries; for counts such as NumRet, the sum.
        queries: how many queries count, the denominator; queries without a value do not.
        missing: how many of the queries the run lacks.
        tied: for how many of them a tie touches a relevant document.
        best: the mean, had every tie been broken for the relevant documents.
        worst: the mean, had every tie been broken against them.
    """

    measure: str
    held_out: str | None
    seed: int | None
    group: str
    mean: float
    queries: int
    missing: int
    tied: int
    best: float
    worst: float


def score_run(
    source: Any,
    judgements: Judgements,
    settings: Settings,
    *,
    held_out: str | None = None,
    seed: int | None = None,
) -> ScoredRun:
    """Read a run and score every query of the test set.

    Args:
        source: what `runs.reader.judge_run` takes: a path, ``-``, a mapping of mappings, a
            data frame, an iterable of records.
        judgements: the test set.
        settings: measures, tie policy, policy for missing queries.
        held_out: the group the model was trained without.
        seed: the replicate's seed.

    Raises:
        RunError: if the run is malformed, answers no query of the test set, or queries are missing
            and that is an error.
        NotFoundError: if the file does not exist.
        UsageError: if a measure reads judgements that the test set does not hold.
    """
    measures = settings.measures
    if judgements.relevant_only:
        _check_readable(measures)
    run = judge_run(
        source,
        judgements,
        tie_policy=settings.ties,
        format=settings.run_format,
        strict=settings.strict,
    )
    if settings.missing == "error" and run.missing.any():
        raise RunError(
            f"the run {run.report.name} is incomplete:", [_missing(run.missing, judgements)]
        )
    _check_answered(run)
    tied = np.zeros(len(judgements), np.bool_)
    tied[run.hits.query[run.hits.tied > 1]] = True
    versions = [run, run.with_ties("best"), run.with_ties("worst")]
    values = {measure.name: measure.compute(versions) for measure in measures}
    return ScoredRun(
        report=run.report,
        missing=run.missing,
        tied=tied,
        scores={name: scores for name, (scores, _, _) in values.items()},
        best={name: best for name, (_, best, _) in values.items()},
        worst={name: worst for name, (_, _, worst) in values.items()},
        held_out=held_out,
        seed=seed,
    )


def _check_readable(measures: Sequence[Measure]) -> None:
    for measure in measures:
        if measure.reads_nonrelevant:
            raise UsageError(
                f"{measure.name} reads the passages that were judged not relevant, and a built "
                "data set holds only relevant ones; score the run with --qrels FILE"
            )


def _check_answered(run: JudgedRun) -> None:
    query_ids = run.judgements.query_ids
    if not (query_ids and run.missing.all()):
        return
    others = [query_id.decode() for query_id in run.others]
    of_shift = bool(others) and run.judgements.elsewhere.issuperset(others)
    known = "the test queries of the shift's other groups" if of_shift else looks_like(run.others)
    finding = Finding(
        "no-query-answered",
        f"it answers none of the {len(query_ids):,} queries of the test set "
        f"({first_ids(query_ids)}); it holds {run.report.extra_queries:,} others "
        f"({first_ids(others)})" + (f", which look like {known}" if known else ""),
        run.report.name,
        fix="score the run on the test set that it was made for",
    )
    raise RunError("run and test set do not belong together:", [finding])


def _missing(missing: NDArray[np.bool_], judgements: Judgements) -> Finding:
    ids = [judgements.query_ids[position] for position in np.flatnonzero(missing)]
    shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
    return Finding(
        "missing-query",
        f"{len(ids)} of {len(judgements)} test queries are not in it: {shown}",
        fix="run the system on all test queries, or choose --missing zero or --missing skip",
    )


def cell(run: ScoredRun, measure: Measure, group: str, queries: Ints, counted: Ints) -> Cell:
    """Summarise a run on one set of queries.

    Args:
        run: the scored run.
        measure: one of the measures it was scored by.
        group: the name of these queries.
        queries: their positions in the test set.
        counted: the positions of those that the mean counts.
    """

    def aggregate(scores: Floats) -> float:
        values = with_value(scores[counted])
        if measure.aggregate == "sum":
            return float(values.sum())
        return float(values.mean()) if values.size else float("nan")

    return Cell(
        measure=measure.name,
        held_out=run.held_out,
        seed=run.seed,
        group=group,
        mean=aggregate(run.scores[measure.name]),
        queries=int(with_value(run.scores[measure.name][counted]).size),
        missing=int(run.missing[queries].sum()),
        tied=int(run.tied[counted].sum()),
        best=aggregate(run.best[measure.name]),
        worst=aggregate(run.worst[measure.name]),
    )


def with_value(scores: Floats) -> Floats:
    """Return the scores of the queries for which the measure has a value."""
    return scores[~np.isnan(scores)]


def answered_by_all(runs: Sequence[ScoredRun], queries: Ints) -> Ints:
    """Return the positions of the queries that all runs hold."""
    answered = [~run.missing[queries] for run in runs]
    return np.compress(np.all(answered, axis=0), queries)
