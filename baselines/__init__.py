"""Systems that rank passages, and the functions that train and evaluate them."""

from __future__ import annotations

from msshift_bench.baselines.evaluating import evaluate
from msshift_bench.baselines.leakage import Experiment, run_leakage_experiment
from msshift_bench.baselines.opening import open_system
from msshift_bench.baselines.pretraining import pretrain_encoder
from msshift_bench.baselines.systems.finding import find_systems
from msshift_bench.baselines.systems.plan import Plan, make_runs
from msshift_bench.baselines.systems.recipe import RecipeFile, recipe_files
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.baselines.training.texts import (
    ValidationCandidates,
    training_pairs,
    validation_candidates,
)

__all__ = [
    "Experiment",
    "Plan",
    "RecipeFile",
    "Run",
    "System",
    "ValidationCandidates",
    "evaluate",
    "find_systems",
    "make_runs",
    "open_system",
    "pretrain_encoder",
    "recipe_files",
    "run_leakage_experiment",
    "training_pairs",
    "validation_candidates",
]
