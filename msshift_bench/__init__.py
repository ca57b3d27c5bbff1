"""MS-Shift: how much does a retriever lose outside its training distribution?

The public names, each imported when it is first used:

- `load_dataset`: one experiment of the benchmark, with one call
- `open_collection`: passages, queries and qrels from a folder, an ir_datasets id, or ``mini``
- `build_dataset`: cut a collection's queries into the benchmark's splits
- `run_baseline`: train and run a reference system
- `evaluate_run_sets`, `Settings`, `Report`: from run sets to Avg In, Out and Rel Loss
- `Evaluator`, `find_run_sets`: the same, one system at a time
- `evaluate_runs`, `TestSet`: single run files on one test set, or on any qrels
- `SHIFTS`: the shifts and their groups
- `MsShiftError`: base of every error that is raised on purpose
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msshift_bench.baselines import run_baseline as run_baseline
    from msshift_bench.collection import open_collection as open_collection
    from msshift_bench.dataset import load_dataset as load_dataset
    from msshift_bench.dataset_builders.build import build_dataset as build_dataset
    from msshift_bench.errors import MsShiftError as MsShiftError
    from msshift_bench.evaluation import Evaluator as Evaluator
    from msshift_bench.report import Report as Report
    from msshift_bench.report import evaluate_run_sets as evaluate_run_sets
    from msshift_bench.runsets import find_run_sets as find_run_sets
    from msshift_bench.scoring import Settings as Settings
    from msshift_bench.shifts import SHIFTS as SHIFTS
    from msshift_bench.single import TestSet as TestSet
    from msshift_bench.single import evaluate_runs as evaluate_runs

__version__ = "0.1.0"

_HOME_OF = {
    "Evaluator": "evaluation",
    "MsShiftError": "errors",
    "Report": "report",
    "SHIFTS": "shifts",
    "Settings": "scoring",
    "TestSet": "single",
    "build_dataset": "dataset_builders.build",
    "evaluate_run_sets": "report",
    "evaluate_runs": "single",
    "find_run_sets": "runsets",
    "load_dataset": "dataset",
    "open_collection": "collection",
    "run_baseline": "baselines",
}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
