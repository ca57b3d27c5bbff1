"""MS-Shift: how much does a retriever lose outside its training distribution?

Three calls do most of the work. The first loads an experiment, which holds the short queries out of
training. The second evaluates the runs of models, each trained without one group. The third scores
a single run:

    >>> from msshift_bench import evaluate_run_sets, load_dataset, score_runs
    >>> experiment = load_dataset("msshift", "length-short")  # "train", "validation" and "test"
    >>> losses = evaluate_run_sets("runs", "msshift").figures.where(figure="rel_loss")
    >>> round(losses.first(system="dense", group="short").value, 2)  # Rel Loss, a fraction
    0.62
    >>> score_runs(["my.run"], "qrels.txt").figures.first(figure="score").value  # MRR@10
    0.75

Each public name is imported on first use. Its docstring lists its arguments, results and errors,
with an example. docs/python.md has longer examples.

- Runs: `score_runs` scores single runs on a test set, such as `open_test_set` returns. `read_run`,
  `write_run`, `validate_run` and `read_qrels` read, write and check files.
- Losses: `evaluate_run_sets` computes Avg In, Out and Rel Loss of run sets, with `Settings`.
  `compare_run_sets` tests which system scores better, and which loses less. `evaluate_extra_tests`
  scores run sets on extra test sets, and on variants of queries. Each returns a `Result`, whose
  `Figures` contain every number as a `Figure`. `find_run_sets` finds run sets.
  `detectable_rel_loss` returns the smallest loss that a test is likely to find. `draw_result` draws
  a result, and `write_report` writes a page with all charts.
- Data: `load_dataset`, `load_triples`, `open_dataset`, `Dataset` and `verify_dataset`. `SHIFTS`
  contains the shifts and their groups.
- Similarity: `group_similarity` and `set_similarity` return the `Similarity` of test queries to
  training queries, by the `INDICATORS`.
- Links: `analyse_run_sets` and `analyse_report` relate losses to similarity. `link_losses` does so
  for any figures. `predict_losses` applies a link to new queries.
- Leakage: `find_leakage` finds training queries that are equal or similar to test queries, as
  `LeakageResult`. `read_annotations` reads annotations of these pairs, as `Annotations`, and
  `review_leakage` counts their labels. `clean_training` removes leaked training queries.
  `read_leaked_queries` reads the leaked test queries, to compute figures without them.
- Building: `open_collection`, `build_dataset`, `import_official`, `add_triples` and
  `hydrate_dataset`. `make_variants` and `import_variants` add variants of test queries.
- Publishing: `push_dataset` and `install_dataset`.
- MTEB: `mteb_tasks` returns an MTEB task for each test set.
- Systems: `evaluate` searches with a model in memory and reports its losses. `open_system` returns
  a `System`, a `Plan` lists the runs to make, and `make_runs` makes them. `training_pairs` and
  `validation_candidates` return texts for your own training code.
- Installation: `diagnose` checks versions, extras, GPU, cache and data sets on this machine.
- Errors: `MsShiftError` is the base class of every error that is raised on purpose.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from msshift_bench._version import __version__


def _read_modules() -> dict[str, str]:
    """Return public name -> module, from `__init__.pyi`, which editors read as well."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_MODULE_OF = _read_modules()

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
