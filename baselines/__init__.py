"""Systems that rank, one file each, and what makes their runs."""

from __future__ import annotations

from msshift_bench.baselines.evaluating import evaluate
from msshift_bench.baselines.experiment_material import Experiment
from msshift_bench.baselines.finding import find_systems
from msshift_bench.baselines.leakage_experiment import run_leakage_experiment
from msshift_bench.baselines.making import make
from msshift_bench.baselines.opening import open_system
from msshift_bench.baselines.plan import Plan
from msshift_bench.baselines.pretraining import pretrain_encoder
from msshift_bench.baselines.recipe import RecipeFile, recipe_files
from msshift_bench.baselines.system import Run, System

__all__ = [
    "Experiment",
    "Plan",
    "RecipeFile",
    "Run",
    "System",
    "evaluate",
    "find_systems",
    "make",
    "open_system",
    "pretrain_encoder",
    "recipe_files",
    "run_leakage_experiment",
]
