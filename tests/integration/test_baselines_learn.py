"""Training is what ranks, and a topic that was left out of it is missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msshift_bench.baselines.biencoder import BiEncoder
from msshift_bench.baselines.driver import run_system
from msshift_bench.baselines.neural import TrainedSystem
from msshift_bench.baselines.recipe_systems import make_trained
from msshift_bench.baselines.system import System
from msshift_bench.data.collection import open_collection
from msshift_bench.evaluation.evaluator import SystemResult
from msshift_bench.evaluation.run_set_report import evaluate_run_sets
from tests.conftest import Build


@pytest.mark.neural
@pytest.mark.slow
def test_a_bi_encoder_learns_and_misses_the_topic_it_was_not_trained_on(
    build_once: Build, tmp_path: Path
) -> None:
    """One of the four; docs/experiments.md has the others, and how to make its tables again."""
    collection, data = open_collection("mini"), build_once("mini", "topics")
    recipe = make_trained(BiEncoder(), "mini").recipe
    # A narrower model learns the same in a third of the time.
    narrow = replace(recipe.random, hidden=64, inner=64)
    recipe = replace(recipe, random=narrow, steps=70, learning_rate=3e-3)
    still = replace(recipe, steps=1, checkpoint_every=1, warmup_steps=0, learning_rate=0.0)

    def evaluated(chosen: System, *held_out: str) -> SystemResult:
        out = tmp_path / chosen.tag
        run_system(chosen, ["topics"], collection=collection, out=out, data=data, held_out=held_out)
        (result,) = evaluate_run_sets([out], data, allow_partial=True).systems
        return result

    trained = evaluated(TrainedSystem(BiEncoder(), recipe, "trained"), "C1", "C2").measures["RR@10"]
    untrained = evaluated(TrainedSystem(BiEncoder(), still, "untrained"), "C2").measures["RR@10"]

    for group in ("C0", "C1", "C3", "C4"):
        before, after = untrained.mean(group, "C2"), trained.mean(group, "C2")
        assert before is not None
        assert after is not None
        assert after > before + 0.15
    assert trained.loss is not None
    intervals = trained.loss.groups["C1"].intervals
    assert intervals is not None
    assert intervals.rel_loss is not None
    assert intervals.rel_loss.low > 0.1
