"""Reference systems, one file each; they share the base, the training and the search."""

from __future__ import annotations

from msshift_bench.baselines.driver import plan_baseline, run_baseline, run_system
from msshift_bench.baselines.evaluating import evaluate
from msshift_bench.baselines.experiment_material import Experiment
from msshift_bench.baselines.leakage_experiment import run_leakage_experiment
from msshift_bench.baselines.pretraining import pretrain_encoder
from msshift_bench.baselines.published import search_published
from msshift_bench.baselines.recipe_files import RecipeFile, copy_recipe, recipe_files
from msshift_bench.baselines.registry import BASELINES, Baseline, find_baselines

__all__ = [
    "BASELINES",
    "Baseline",
    "Experiment",
    "RecipeFile",
    "copy_recipe",
    "evaluate",
    "find_baselines",
    "plan_baseline",
    "pretrain_encoder",
    "recipe_files",
    "run_baseline",
    "run_system",
    "search_published",
    "run_leakage_experiment",
]
