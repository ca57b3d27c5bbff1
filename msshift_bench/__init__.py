"""MS-Shift: how much does a retriever lose outside its training distribution?

The public names, each imported when it is first used:

- `load_dataset`: one experiment of the benchmark, with one call
- `open_collection`: passages, queries and qrels from a folder, an ir_datasets id, or ``mini``
- `build_dataset`, `import_official`: cut a collection's queries into the benchmark's splits, or
  import the released ones
- `add_triples`, `load_triples`: training triples, added to a data set and streamed from it
- `hydrate_dataset`, `verify_dataset`: put texts back; compute every digest again
- `push_dataset`, `install_dataset`: publish a data set on the Hub; have it offline, from any folder
- `run_baseline`: train and run a reference system
- `evaluate_run_sets`, `Settings`, `Report`: from run sets to Avg In, Out and Rel Loss
- `Evaluator`, `find_run_sets`: the same, one system at a time
- `evaluate_runs`, `JudgedQueries`: single run files on one test set, or on any qrels
- `SHIFTS`: the shifts and their groups
- `MsShiftError`: base of every error that is raised on purpose
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from msshift_bench._version import __version__

if TYPE_CHECKING:
    from msshift_bench.baselines.driver import run_baseline as run_baseline
    from msshift_bench.data import install_dataset as install_dataset
    from msshift_bench.data import load_dataset as load_dataset
    from msshift_bench.data import load_triples as load_triples
    from msshift_bench.data import open_collection as open_collection
    from msshift_bench.data import push_dataset as push_dataset
    from msshift_bench.data import verify_dataset as verify_dataset
    from msshift_bench.dataset_builders.build import build_dataset as build_dataset
    from msshift_bench.dataset_builders.hydrate import hydrate_dataset as hydrate_dataset
    from msshift_bench.dataset_builders.importing import import_official as import_official
    from msshift_bench.dataset_builders.triple_builder import add_triples as add_triples
    from msshift_bench.errors import MsShiftError as MsShiftError
    from msshift_bench.evaluation import Evaluator as Evaluator
    from msshift_bench.evaluation import JudgedQueries as JudgedQueries
    from msshift_bench.evaluation import Report as Report
    from msshift_bench.evaluation import Settings as Settings
    from msshift_bench.evaluation import evaluate_run_sets as evaluate_run_sets
    from msshift_bench.evaluation import evaluate_runs as evaluate_runs
    from msshift_bench.runs import find_run_sets as find_run_sets
    from msshift_bench.shifts import SHIFTS as SHIFTS

_HOME_OF = {
    "add_triples": "dataset_builders.triple_builder",
    "build_dataset": "dataset_builders.build",
    "evaluate_run_sets": "evaluation",
    "evaluate_runs": "evaluation",
    "Evaluator": "evaluation",
    "find_run_sets": "runs",
    "hydrate_dataset": "dataset_builders.hydrate",
    "import_official": "dataset_builders.importing",
    "install_dataset": "data",
    "load_dataset": "data",
    "load_triples": "data",
    "MsShiftError": "errors",
    "open_collection": "data",
    "push_dataset": "data",
    "Report": "evaluation",
    "run_baseline": "baselines",
    "Settings": "evaluation",
    "SHIFTS": "shifts",
    "JudgedQueries": "evaluation",
    "verify_dataset": "data",
}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
