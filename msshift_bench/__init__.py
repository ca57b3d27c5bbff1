"""MS-Shift: how much does a retriever lose outside its training distribution?

Three calls do most of the work. Load an experiment, which holds the short queries out of training;
evaluate the runs of the models that were trained on each; score any single run:

    >>> from msshift_bench import evaluate_run_sets, load_dataset, score_runs
    >>> experiment = load_dataset("msshift", "length-short")  # "train", "validation" and "test"
    >>> losses = evaluate_run_sets("runs", "msshift").figures.where(figure="rel_loss")
    >>> round(losses.first(system="dense", group="short").value, 2)  # Rel Loss, a fraction
    0.62
    >>> score_runs(["my.run"], "qrels.txt").figures.first(figure="score").value  # MRR@10
    0.75

Each public name is imported when it is first used. Its docstring says what it takes, returns and
raises, with an example, and docs/python.md shows all at work.

- Runs: `score_runs` scores single runs on any test set, such as `open_test_set` opens; `read_run`,
  `write_run`, `validate_run` and `read_qrels` are for their files
- Losses: `evaluate_run_sets` and `Settings` go from run sets to Avg In, Out and Rel Loss;
  `compare_run_sets` says which system is better, and which loses less; `evaluate_also_tests` scores
  run sets on others' test sets, and on variants of queries; each returns a `Result`, whose
  `Figures` hold every number as a `Figure`; `find_run_sets` finds run sets; `detectable_rel_loss`
  says what a test set can show; `draw_result` draws a result, `write_report` all of it
- Data: `load_dataset`, `load_triples`, `open_dataset`, `Dataset`, `verify_dataset`; `SHIFTS` holds
  the shifts and their groups
- Similarity: `group_similarity` and `set_similarity` say how near test queries lie to training
  queries, by the `INDICATORS`; they return `Similarity`
- Links: `analyse_run_sets` and `analyse_report` link losses to similarity, `link_losses` any
  losses that are given as figures; `predict_losses` applies a link to new queries
- Leakage: `find_leakage` finds training queries that are test queries, or nearly: `FoundLeakage`;
  `read_annotations` reads what people say of them, as `Annotations`, and `review_leakage` merges
  that; `clean_training` takes them out; `read_left_out` reads which test queries leaked, for
  figures without them
- Building: `open_collection`, `build_dataset`, `import_official`, `add_triples`, `hydrate_dataset`;
  `make_variants` and `import_variants` give variants of queries
- Publishing: `push_dataset`, `install_dataset`
- Systems: `evaluate` searches with a model in memory and reports on it; `open_system` gives a
  `System`, a `Plan` says what runs it shall make, and `make` makes them
- `examine` looks at what may stand in the way on this machine
- `MsShiftError`: base of every error that is raised on purpose
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from msshift_bench._version import __version__

if TYPE_CHECKING:
    from msshift_bench import (
        analysis as analysis,
        annotation as annotation,
        baselines as baselines,
        data as data,
        doctor as doctor,
        encoders as encoders,
        engine as engine,
        evaluation as evaluation,
        irds as irds,
        leaderboard as leaderboard,
        leakage as leakage,
        output as output,
        report as report,
        runs as runs,
        similarity as similarity,
        stats as stats,
    )
    from msshift_bench.analysis import (
        analyse_report as analyse_report,
        analyse_run_sets as analyse_run_sets,
        link_losses as link_losses,
        predict_losses as predict_losses,
    )
    from msshift_bench.annotation import (
        Annotations as Annotations,
        read_annotations as read_annotations,
    )
    from msshift_bench.baselines import (
        Plan as Plan,
        System as System,
        evaluate as evaluate,
        make as make,
        open_system as open_system,
    )
    from msshift_bench.data import (
        Dataset as Dataset,
        install_dataset as install_dataset,
        load_dataset as load_dataset,
        load_triples as load_triples,
        open_collection as open_collection,
        open_dataset as open_dataset,
        push_dataset as push_dataset,
        verify_dataset as verify_dataset,
    )
    from msshift_bench.dataset_builders.audit import add_split_leakage as add_split_leakage
    from msshift_bench.dataset_builders.build import (
        build_dataset as build_dataset,
        import_official as import_official,
    )
    from msshift_bench.dataset_builders.cut import Samples as Samples
    from msshift_bench.dataset_builders.triples import add_triples as add_triples
    from msshift_bench.dataset_builders.typos import (
        import_variants as import_variants,
        make_variants as make_variants,
    )
    from msshift_bench.dataset_builders.write import hydrate_dataset as hydrate_dataset
    from msshift_bench.doctor import examine as examine
    from msshift_bench.errors import MsShiftError as MsShiftError
    from msshift_bench.evaluation import (
        Result as Result,
        Settings as Settings,
        compare_run_sets as compare_run_sets,
        evaluate_also_tests as evaluate_also_tests,
        evaluate_run_sets as evaluate_run_sets,
        open_test_set as open_test_set,
        score_runs as score_runs,
    )
    from msshift_bench.leakage import (
        FoundLeakage as FoundLeakage,
        clean_training as clean_training,
        find_leakage as find_leakage,
        read_left_out as read_left_out,
        review_leakage as review_leakage,
    )
    from msshift_bench.report import draw_result as draw_result, write_report as write_report
    from msshift_bench.runs import (
        find_run_sets as find_run_sets,
        read_qrels as read_qrels,
        read_run as read_run,
        validate_run as validate_run,
        write_run as write_run,
    )
    from msshift_bench.shifts import SHIFTS as SHIFTS
    from msshift_bench.similarity import (
        INDICATORS as INDICATORS,
        IndicatorOptions as IndicatorOptions,
        Similarity as Similarity,
        group_similarity as group_similarity,
        set_similarity as set_similarity,
    )
    from msshift_bench.stats import (
        Figure as Figure,
        Figures as Figures,
        detectable_rel_loss as detectable_rel_loss,
    )

_HOME_OF = {
    "add_split_leakage": "dataset_builders.audit",
    "add_triples": "dataset_builders.triples",
    "analyse_report": "analysis",
    "analyse_run_sets": "analysis",
    "Annotations": "annotation",
    "build_dataset": "dataset_builders.build",
    "clean_training": "leakage",
    "compare_run_sets": "evaluation",
    "Dataset": "data",
    "detectable_rel_loss": "stats",
    "draw_result": "report",
    "evaluate": "baselines",
    "evaluate_also_tests": "evaluation",
    "evaluate_run_sets": "evaluation",
    "examine": "doctor",
    "Figure": "stats",
    "Figures": "stats",
    "find_leakage": "leakage",
    "find_run_sets": "runs",
    "FoundLeakage": "leakage",
    "group_similarity": "similarity",
    "hydrate_dataset": "dataset_builders.write",
    "import_official": "dataset_builders.build",
    "import_variants": "dataset_builders.typos",
    "IndicatorOptions": "similarity",
    "INDICATORS": "similarity",
    "install_dataset": "data",
    "link_losses": "analysis",
    "load_dataset": "data",
    "load_triples": "data",
    "make": "baselines",
    "make_variants": "dataset_builders.typos",
    "MsShiftError": "errors",
    "open_collection": "data",
    "open_dataset": "data",
    "open_system": "baselines",
    "open_test_set": "evaluation",
    "Plan": "baselines",
    "predict_losses": "analysis",
    "push_dataset": "data",
    "Similarity": "similarity",
    "read_annotations": "annotation",
    "read_left_out": "leakage",
    "read_qrels": "runs",
    "read_run": "runs",
    "Result": "evaluation",
    "review_leakage": "leakage",
    "Samples": "dataset_builders.cut",
    "score_runs": "evaluation",
    "set_similarity": "similarity",
    "Settings": "evaluation",
    "SHIFTS": "shifts",
    "System": "baselines",
    "validate_run": "runs",
    "verify_dataset": "data",
    "write_report": "report",
    "write_run": "runs",
}

__all__ = ["__version__", *_HOME_OF]

_ROOMS = (
    *("analysis", "annotation", "baselines", "data", "doctor", "encoders", "engine", "evaluation"),
    *("irds", "leaderboard", "leakage", "output", "report", "runs", "similarity", "stats"),
)
"""Rooms that the commands name as ``msshift_bench.data``; they are imported on first use, too."""


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
