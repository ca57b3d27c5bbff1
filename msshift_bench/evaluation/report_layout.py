"""What the JSON of a report holds, as values: written by `Report.to_json`, read by a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from msshift_bench.evaluation.evaluator import MeasureResult, SystemResult
from msshift_bench.evaluation.measures import parse_measure
from msshift_bench.evaluation.scored_runs import Cell, ScoredRun
from msshift_bench.runs import RunReport
from msshift_bench.stats import GroupLoss, OverallLoss, ShiftLoss

__all__ = ["LossRecord", "MeasureRecord", "MissingFile", "RunRecord", "SystemRecord"]


@dataclass(frozen=True, slots=True)
class RunRecord(RunReport):
    """What was read of a run file, and whose it is.

    Attributes:
        held_out: the group the model was trained without; `None` if it was not trained per group.
        seed: the replicate's seed; `None` where there is only one.
        missing_queries: how many test queries the run does not hold.
    """

    held_out: str | None = None
    seed: int | None = None
    missing_queries: int = 0

    @classmethod
    def of(cls, run: ScoredRun) -> RunRecord:
        """Return the record of a run."""
        return cls(
            **_values(run.report),
            held_out=run.held_out,
            seed=run.seed,
            missing_queries=int(run.missing.sum()),
        )


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A run file that is not there."""

    seed: int | None
    held_out: str


@dataclass(frozen=True, slots=True)
class LossRecord:
    """What a system loses on a shift.

    Attributes:
        groups: group -> what it loses there.
        overall: what it loses on average.
    """

    groups: Mapping[str, GroupLoss]
    overall: OverallLoss

    @classmethod
    def of(cls, loss: ShiftLoss) -> LossRecord:
        """Return the record of a loss."""
        values = _values(loss)
        return cls(values.pop("groups"), OverallLoss(**values))


@dataclass(frozen=True, slots=True)
class MeasureRecord:
    """A system under one shift and one measure; see `evaluator.MeasureResult`.

    Attributes:
        higher_is_better: false for ASL and the like.
        computed_by: the package that computes the measure.
        cells: every model on every group's test queries.
        loss: `None` for a system that was not trained per group.
    """

    higher_is_better: bool
    computed_by: str
    cells: tuple[Cell, ...]
    loss: LossRecord | None

    @classmethod
    def of(cls, result: MeasureResult) -> MeasureRecord:
        """Return the record of a result."""
        return cls(
            result.higher_is_better,
            parse_measure(result.measure).computed_by,
            result.cells,
            None if result.loss is None else LossRecord.of(result.loss),
        )


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """A system under one shift; see `evaluator.SystemResult`.

    Attributes:
        system: the system's name.
        shift: the shift's name.
        partial: whether run files are missing.
        missing_files: which.
        test_queries: group -> number of its test queries.
        runs: the run files.
        measures: measure -> what it came to.
    """

    system: str
    shift: str
    partial: bool
    missing_files: tuple[MissingFile, ...]
    test_queries: Mapping[str, int]
    runs: tuple[RunRecord, ...]
    measures: Mapping[str, MeasureRecord]

    @classmethod
    def of(cls, result: SystemResult) -> SystemRecord:
        """Return the record of a result."""
        return cls(
            result.system,
            result.shift.name,
            result.partial,
            tuple(MissingFile(*missing) for missing in result.scores.missing_files),
            {group: len(queries) for group, queries in result.scores.groups.items()},
            tuple(map(RunRecord.of, result.scores.runs)),
            {name: MeasureRecord.of(measure) for name, measure in result.measures.items()},
        )


def _values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
