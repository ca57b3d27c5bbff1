"""The layout of a report's JSON, as typed values: `Report.to_json` writes it, a gate reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from msshift_bench.data import DataInfo
from msshift_bench.evaluation.evaluator import MeasureResult, SystemResult
from msshift_bench.evaluation.scored_runs import Cell, ScoredRun
from msshift_bench.evaluation.settings import MISSING_POLICIES, Settings
from msshift_bench.runs import TIE_POLICIES, RunReport
from msshift_bench.stats import GroupLoss, OverallLoss, ShiftLoss

__all__ = [
    "LossRecord",
    "MeasureRecord",
    "MissingFile",
    "ReportRecord",
    "RunRecord",
    "SettingsRecord",
    "SystemRecord",
]


@dataclass(frozen=True, slots=True)
class RunRecord(RunReport):
    """Facts about a run file that was read, and the model that it belongs to.

    Attributes:
        held_out: the group the model was trained without; `None` if it was not trained per group.
        seed: the replicate's seed; `None` where there is only one.
        missing_queries: how many test queries the run lacks.
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
            result.measure.higher_is_better,
            result.measure.computed_by,
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
        missing_files: the missing run files.
        test_queries: group -> number of its test queries.
        runs: the run files.
        measures: measure -> its record.
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


@dataclass(frozen=True, slots=True)
class SettingsRecord:
    """How runs were scored; see `settings.Settings`.

    Attributes:
        ties_mean: what `ties` means.
        missing_means: what `missing` means.
    """

    measures: tuple[str, ...]
    ties: str
    missing: str
    strict: bool
    run_format: str
    confidence: float
    correction: str
    average: str | None
    seed_variance: str
    ties_mean: str
    missing_means: str

    @classmethod
    def of(cls, settings: Settings) -> SettingsRecord:
        """Return the record of settings."""
        return cls(
            **_values(settings) | {"measures": tuple(map(str, settings.measures))},
            ties_mean=TIE_POLICIES[settings.ties],
            missing_means=MISSING_POLICIES[settings.missing],
        )


@dataclass(frozen=True, slots=True)
class ReportRecord:
    """A report; see `report.Report`.

    Attributes:
        schema: the version of the layout.
        msshift_bench: the version of the package that wrote it.
        data: the data.
        settings: how runs were scored.
        systems: a record for every system and shift.
        slices: label -> the same for the queries with that label.
        remarks: doubts about the figures.
    """

    schema: int
    msshift_bench: str
    data: DataInfo
    settings: SettingsRecord
    systems: tuple[SystemRecord, ...]
    slices: Mapping[str, tuple[SystemRecord, ...]]
    remarks: tuple[str, ...] = ()


def _values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
