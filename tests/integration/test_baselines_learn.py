"""Training is what ranks, and a topic that was left out of it is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Plan, System, make, open_system
from msshift_bench.data.collection import open_collection
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.stats import Figures
from tests.conftest import Build

COLLECTION = "mini:600"


@pytest.mark.neural
@pytest.mark.extended
def test_a_bi_encoder_learns_and_misses_the_topic_it_was_not_trained_on(
    build_once: Build, tmp_path: Path
) -> None:
    """One of the four; docs/experiments.md has the others, and how to make its tables again."""
    collection, data = open_collection(COLLECTION), build_once(COLLECTION, "topics")
    recipe: Any = open_system("bi-encoder", "mini")
    # A narrower model learns the same in a third of the time.
    narrow = recipe.random.changed(hidden=48, inner=48)
    recipe = recipe.changed(random=narrow, steps=40, learning_rate=3e-3)
    still = recipe.changed(steps=1, checkpoint_every=1, warmup_steps=0, learning_rate=0.0)

    def evaluated(system: System, *held_out: str) -> Figures:
        out = tmp_path / system.digest()
        plan = Plan(
            system=system, shifts=["topics"], collection=collection, out=out, data=data,
            held_out=held_out,
        )  # fmt: skip
        make(plan)
        return evaluate_run_sets([out], data, allow=["partial"]).figures

    trained = evaluated(recipe, "C1", "C2")
    untrained = evaluated(still, "C2")

    for group in ("C0", "C1", "C3", "C4"):
        before, after = (
            figures.first(figure="model_score", group=group, model="C2").value
            for figures in (untrained, trained)
        )
        assert after > before + 0.15
    assert trained.first(figure="rel_loss", group="C1").low > 0.1
