"""What an evaluation found, as one value: from it come the JSON report and every table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from msshift_bench.evaluation import DataInfo, MeasureResult, SystemResult
from msshift_bench.judged import TIE_POLICIES
from msshift_bench.scoring import MISSING_POLICIES, ScoredRun, Settings
from msshift_bench.statistics import ShiftLoss

__all__ = ["SCHEMA", "Report", "plain"]

SCHEMA = 1
"""The version of the JSON report's layout; it changes when a reader would have to."""


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Several systems, evaluated alike on the same data.

    Attributes:
        data: which data.
        settings: how.
        systems: the results, by shift and system.
    """

    data: DataInfo
    settings: Settings
    systems: Sequence[SystemResult]

    def by_shift(self) -> dict[str, list[SystemResult]]:
        """Return shift -> results, in the order in which they were given."""
        shifts: dict[str, list[SystemResult]] = {}
        for result in self.systems:
            shifts.setdefault(result.shift.name, []).append(result)
        return shifts

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, with everything it takes to redo a figure."""
        return {
            "schema": SCHEMA,
            "msshift_bench": version("msshift-bench"),
            "data": plain(self.data),
            "settings": {
                **plain(self.settings),
                "ties_mean": TIE_POLICIES[self.settings.ties],
                "missing_means": MISSING_POLICIES[self.settings.missing],
            },
            "systems": [_system(result) for result in self.systems],
        }


def _system(result: SystemResult) -> dict[str, Any]:
    return {
        "system": result.system,
        "shift": result.shift.name,
        "partial": result.partial,
        "missing_files": [
            {"seed": seed, "held_out": held_out} for seed, held_out in result.scores.missing_files
        ],
        "test_queries": {group: len(ids) for group, ids in result.scores.groups.items()},
        "runs": [_run(run) for run in result.scores.runs],
        "measures": {name: _measure(measure) for name, measure in result.measures.items()},
    }


def _run(run: ScoredRun) -> dict[str, Any]:
    return {
        "held_out": run.held_out,
        "seed": run.seed,
        **plain(run.report),
        "missing_queries": int(run.missing.sum()),
    }


def _measure(result: MeasureResult) -> dict[str, Any]:
    return {
        "higher_is_better": result.higher_is_better,
        "cells": [plain(cell) for cell in result.cells],
        "loss": None if result.loss is None else _loss(result.loss),
    }


def _loss(loss: ShiftLoss) -> dict[str, Any]:
    values: dict[str, Any] = plain(loss)
    groups = values.pop("groups")
    return {"groups": groups, "macro": values}


def plain(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses as objects, NaN and infinities as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
