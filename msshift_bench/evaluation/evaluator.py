"""From run sets to Avg In, Out and Rel Loss.

Source: MS-Shift (ECIR 2023), section 3.2 and Figure 2. For a group g of a shift, Avg In is the
mean over the models that saw g in training of their means on g's test queries, Out is the mean of
the model that did not, and Rel Loss = (Avg In - Out) / Avg In.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation.fitting import check_answers, check_distinct
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scored_runs import (
    Cell,
    ScoredRun,
    cell,
    score_run,
)
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.plumbing import Progress, map_in_threads, silent
from msshift_bench.records import Row
from msshift_bench.runs import Judgements, RunSet
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift
from msshift_bench.stats import GroupScores, ShiftLoss, shift_loss

__all__ = ["Evaluator", "MeasureResult", "SystemResult", "check_loss", "score_in_order"]

_MOST_AT_ONCE = 4
"""Run files that are read at the same time. Each holds a few blocks of lines in memory."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MeasureResult:
    """A system under one shift and one measure.

    Attributes:
        measure: the measure.
        cells: every model on every group's test queries.
        scores: group -> per-query scores that the losses are computed from; empty for a system
            that was not trained per group.
        loss: Avg In, Out, Rel Loss per group and for the shift, with their statistics; `None` for
            a system that was not trained per group, or if every group lacks a run for it.
        average: how groups are averaged, a key of `stats.inference.AVERAGES`.
    """

    measure: Measure
    cells: tuple[Cell, ...]
    scores: Mapping[str, GroupScores]
    loss: ShiftLoss | None
    average: str

    def __repr__(self) -> str:
        means = ", ".join(
            f"{name} {value:.4f}"
            for name in ("avg_in", "out", "rel_loss")
            if (value := getattr(self.loss, name, None)) is not None
        )
        return f"<MeasureResult: {self.measure}, {means or 'no loss'}>"

    def mean(self, group: str, held_out: str | None = None) -> float | None:
        """Return the mean over seeds of a model's means on a group; `None` without such a run."""
        means = [c.mean for c in self.cells if c.group == group and c.held_out == held_out]
        return float(np.mean(means)) if means else None

    def mean_of_groups(self) -> float | None:
        """Return the average over groups for a system that was not trained per group.

        `None` if a group is missing.
        """
        found = [cell for cell in self.cells if cell.held_out is None]
        means = [self.mean(cell.group) for cell in found]
        known = [mean for mean in means if mean is not None]
        if not known or len(known) < len(means):
            return None
        weights = [cell.queries for cell in found] if self.average == "pooled" else None
        return float(np.average(known, weights=weights))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SystemResult:
    """A system under one shift.

    Attributes:
        scores: the per-query scores of the figures.
        measures: measure -> result.
    """

    scores: SystemScores
    measures: Mapping[str, MeasureResult]

    def __repr__(self) -> str:
        return f"<SystemResult: {self.system} on {self.shift.name}, {', '.join(self.measures)}>"

    @property
    def system(self) -> str:
        """The system's name."""
        return self.scores.system

    @property
    def shift(self) -> Shift:
        """The shift."""
        return self.scores.shift

    @property
    def partial(self) -> bool:
        """Whether run files are missing, so that figures rest on fewer models than usual."""
        return bool(self.scores.missing_files)


class Evaluator:
    """Evaluates run sets of one shift; build it once on the test sets for many systems.

    Args:
        shift: the shift.
        test_sets: group -> test rows; a query may stand in several groups.
        settings: measures, policies and statistics.
        data: the data that the test sets come from, for reports.

    Raises:
        UsageError: if the test sets are not those of the shift's groups, or a measure has no loss.
    """

    def __init__(
        self,
        shift: Shift,
        test_sets: Mapping[str, Iterable[Row]],
        settings: Settings | None = None,
        data: DataInfo | None = None,
    ) -> None:
        if set(test_sets) != set(shift.tested):
            raise UsageError(
                f"{shift.name} has the groups {', '.join(shift.tested)}; "
                f"test sets were given for {', '.join(test_sets) or 'none'}"
            )
        self.shift = shift
        self.settings = settings or Settings()
        for measure in self.settings.measures:
            check_loss(measure)
        self.data = data or DataInfo()
        relevant: dict[str, dict[str, int]] = {}
        members: dict[str, list[str]] = {}
        for group in shift.tested:
            rows = list(test_sets[group])
            members[group] = [row.query_id for row in rows]
            relevant.update({row.query_id: row.relevant for row in rows})
        self.judgements = Judgements(relevant, relevant_only=True)
        self.groups = {
            group: np.array([self.judgements.index[query_id] for query_id in ids], np.int64)
            for group, ids in members.items()
        }

    def __repr__(self) -> str:
        measures = ", ".join(map(str, self.settings.measures))
        return f"<Evaluator: {self.shift.name}, {len(self.judgements):,} queries, {measures}>"

    @classmethod
    def from_dataset(
        cls,
        shift: str,
        data: Dataset | str | Path = DATASET_NAME,
        settings: Settings | None = None,
    ) -> Evaluator:
        """Build an evaluator on the test sets of a built data set.

        Args:
            shift: the shift's name.
            data: the built data set; see `open_dataset`.
            settings: measures, policies and statistics.

        Raises:
            UnknownNameError: for an unknown shift.
            NotFoundError: if there is no built data set.
            IntegrityError: if it is not what its manifest says.
        """
        found = get_shift(shift)
        dataset = open_dataset(data)
        return cls(found, dataset.test_sets(found), settings, dataset.info)

    def score(self, run_set: RunSet, progress: Progress = silent) -> SystemScores:
        """Read and score every run file of a run set.

        Args:
            run_set: the run files of one system.
            progress: called with the number of run files done.

        Raises:
            UsageError: if the run set is of another shift.
            RunError: if a run is malformed.
        """
        (scores,) = _score_run_sets([(self, run_set)], progress)
        return scores

    def evaluate(
        self,
        run_set: RunSet,
        *,
        allow_partial: bool = False,
        allow_identical: bool = False,
        progress: Progress = silent,
    ) -> SystemResult:
        """Read a run set and compute its matrix and losses.

        Args:
            run_set: the run files of one system.
            allow_partial: compute what can be computed where run files are missing.
            allow_identical: accept the same file under two models.
            progress: called with the number of run files done.

        Raises:
            RunError: if a run file is missing (unless `allow_partial`) or malformed, answers no
                test query of a group, or is that of another model (unless `allow_identical`).
        """
        (scores,) = score_in_order(
            [(self, run_set)],
            allow_partial=allow_partial,
            allow_identical=allow_identical,
            progress=progress,
        )
        return self.summarise(scores)

    def summarise(self, scores: SystemScores) -> SystemResult:
        """Compute the matrix and losses from per-query scores.

        Raises:
            DataError: if no query of a group is left to count.
        """
        counted = self.counted(scores)
        return SystemResult(
            scores,
            {
                measure.name: self._measure(scores, measure, counted)
                for measure in self.settings.measures
            },
        )

    def counted(self, scores: SystemScores) -> dict[str, Ints]:
        """Return group -> positions of those of its queries that count.

        Args:
            scores: the system's per-query scores.

        Raises:
            DataError: if no query of a group is left to count.
        """
        counted = scores.counted(self.settings.missing)
        for group, queries in counted.items():
            if not queries.size:
                raise DataError(f"{scores.system}: every test query of {group} is missing")
        return counted

    def _measure(
        self, scores: SystemScores, measure: Measure, counted: Mapping[str, Ints]
    ) -> MeasureResult:
        cells = tuple(
            cell(run, measure, group, scores.groups[group], queries)
            for run in scores.runs
            for group, queries in counted.items()
        )
        per_group = scores.group_scores(measure.name, counted)
        loss = None
        average = self.settings.average or self.shift.average
        if per_group:
            seed_variance = "own" if _lacks_groups(per_group) else self.settings.seed_variance
            loss = shift_loss(
                per_group,
                replace(self.settings, average=average, seed_variance=seed_variance),
                higher_is_better=measure.higher_is_better,
            )
        return MeasureResult(measure, cells, per_group, loss, average)


def _lacks_groups(scores: Mapping[str, GroupScores]) -> bool:
    """Return whether some models' own groups are not among several, as in a slice of the queries.

    The models then do not take part alike in the average, and their seeds cannot be pooled.
    """
    return len(scores) > 1 and any(
        one.seeds > 1 and one.models >= len(scores) for one in scores.values()
    )


def check_loss(measure: Measure) -> None:
    """Check that a measure has Avg In and Out, which are means of the same queries for all models.

    Raises:
        UsageError: if it is a sum, or leaves out other queries for each model.
    """
    if measure.aggregate == "sum":
        why = "is a sum over queries, not a mean"
    elif measure.partial:
        why = "leaves out the queries that it has no value for, others for each model"
    else:
        return
    raise UsageError(
        f"{measure} {why}, so that run sets have no Avg In and Out in it; score their run files "
        "one by one, with --test CONFIG or --qrels FILE"
    )


def score_in_order(
    run_sets: Sequence[tuple[Evaluator, RunSet]],
    *,
    allow_partial: bool = False,
    allow_identical: bool = False,
    progress: Progress = silent,
) -> Iterator[SystemScores]:
    """Read and score run sets; files of the next are read while the caller looks at one.

    Args:
        run_sets: every run set, with an evaluator of its shift.
        allow_partial: accept that run files are missing.
        allow_identical: accept the same file under two models.
        progress: called with the number of run files done, of all run sets.

    Yields:
        The scores, in the order of the run sets.

    Raises:
        UsageError: if an evaluator is of another shift.
        RunError: see `Evaluator.evaluate`.
        DataError: if no query of a group is left to count.
    """
    if not allow_partial:
        for _, run_set in run_sets:
            run_set.check_complete()
    for (evaluator, _), scores in zip(run_sets, _score_run_sets(run_sets, progress), strict=True):
        check_answers(scores)
        if not allow_identical:
            check_distinct(scores.system, scores.shift, scores.runs)
        evaluator.counted(scores)
        yield scores


class _File(NamedTuple):
    evaluator: Evaluator
    seed: int | None
    held_out: str | None
    path: Path

    def score(self) -> ScoredRun:
        """Read the file and score every query of the evaluator's test sets."""
        judgements, settings = self.evaluator.judgements, self.evaluator.settings
        held_out, seed = self.held_out, self.seed
        return score_run(self.path, judgements, settings, held_out=held_out, seed=seed)


def _score_run_sets(
    run_sets: Sequence[tuple[Evaluator, RunSet]], progress: Progress
) -> Iterator[SystemScores]:
    files = [_files_of(evaluator, run_set) for evaluator, run_set in run_sets]
    count = sum(map(len, files))
    scored = map_in_threads(_File.score, itertools.chain.from_iterable(files), _MOST_AT_ONCE)
    numbers = itertools.count(1)
    for (evaluator, run_set), own in zip(run_sets, files, strict=True):
        runs = []
        for run in itertools.islice(scored, len(own)):
            runs.append(run)
            progress("run files", next(numbers), count)
        yield SystemScores(
            run_set.system,
            evaluator.shift,
            evaluator.judgements.query_ids,
            evaluator.groups,
            tuple(runs),
            run_set.missing,
        )


def _files_of(evaluator: Evaluator, run_set: RunSet) -> list[_File]:
    shift = evaluator.shift
    if run_set.shift != shift:
        raise UsageError(f"a run set of {run_set.shift.name} was given to {shift.name}")
    if run_set.single is not None:
        return [_File(evaluator, None, None, run_set.single)]
    return [
        _File(evaluator, seed, held_out, path)
        for seed, runs in run_set.runs.items()
        for held_out, path in runs.items()
    ]
