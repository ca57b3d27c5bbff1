"""Runs in one call: a system by its name, with a recipe and other values of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from msshift_bench import baselines
from msshift_bench.baselines import Plan, Run, open_system
from msshift_bench.plumbing import Progress, reporting

__all__ = ["COLLECTION", "make_runs", "plan_runs"]

COLLECTION = "mini:300"
"""The collection that is searched, unless another is named."""


def make_runs(
    what: str,
    shifts: Sequence[str] = ("length",),
    *,
    progress: Progress | None = None,
    **options: Any,
) -> list[Path]:
    """Make runs, reported to `progress`, if it is given.

    Options are those of a `Plan`, ``recipe``, and fields of the system.
    """
    with nullcontext() if progress is None else reporting(progress):
        return baselines.make_runs(_plan(what, shifts, options))


def plan_runs(what: str, shifts: Sequence[str] = ("length",), **options: Any) -> list[Run]:
    """Return the runs that `make_runs` would make."""
    return _plan(what, shifts, options).runs()


def _plan(what: str, shifts: Sequence[str], options: dict[str, Any]) -> Plan:
    names = {field.name for field in fields(Plan)}
    of_plan: dict[str, Any] = {"collection": COLLECTION}
    of_plan |= {name: value for name, value in options.items() if name in names}
    changes = {name: value for name, value in options.items() if name not in names}
    system = open_system(what, changes.pop("recipe", None), changes)
    return Plan(system=system, shifts=shifts, **of_plan)
