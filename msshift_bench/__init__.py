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
  `compare_run_sets` says which system is better, and which loses less; `evaluate_extra_tests`
  scores run sets on others' test sets, and on variants of queries; each returns a `Result`, whose
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
- MTEB: `mteb_tasks` gives it a task for each test set
- Systems: `evaluate` searches with a model in memory and reports on it; `open_system` gives a
  `System`, a `Plan` says what runs it shall make, and `make_runs` makes them;
  `training_pairs` and `validation_candidates` give the texts for training code of your own
- `examine` looks at what may stand in the way on this machine
- `MsShiftError`: base of every error that is raised on purpose
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from msshift_bench._version import __version__


def _read_homes() -> dict[str, str]:
    """Return public name -> module, read from `__init__.pyi`, which editors read as well."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOME_OF = _read_homes()

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
