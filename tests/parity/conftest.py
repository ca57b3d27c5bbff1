"""Small models, and the batches that a trainer gives to a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.recipe import RandomEncoder
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.mini.generator import passages

SHAPE = RandomEncoder(
    layers=1, hidden=16, heads=2, inner=32, vocabulary=400, dropout=0.0, initial=0.3, matching=False
)

MakeModel = Callable[..., tuple[Any, Any]]

COLUMNS = ("query", "positive", "negative_1")


@pytest.fixture(scope="session")
def small_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny BERT from random initialisation."""
    from msshift_bench.baselines.training.backbones import make_random_encoder

    folder = tmp_path_factory.mktemp("encoder") / "bert"
    make_random_encoder(folder, SHAPE, (p.text for p in passages(80)), length=64, seed=1)
    return folder


@pytest.fixture(scope="session")
def small_model(small_encoder: Path) -> MakeModel:
    """Return a function that makes a system's model on the tiny BERT, and its recipe."""

    def make(system: type[Neural], **changes: Any) -> tuple[Any, Any]:
        from msshift_bench.baselines.training.backbones import quiet_libraries

        recipe = (
            open_system(system.name, "mini")
            .changed(encoder=str(small_encoder), seed=3)
            .changed(query_length=12, passage_length=40, **changes)
        )
        with quiet_libraries():
            return recipe.new_model(small_encoder), recipe

    return make


def loss_of(recipe: Any, model: Any, texts: Sequence[str], labels: Any = None) -> Any:
    """Return a recipe's loss for two queries, then their positives, then a negative of each."""
    import torch

    parts: list[Any] = [list(texts[first : first + 2]) for first in (0, 2, 4)]
    if arguments := recipe.training_arguments(model, COLUMNS):
        prompts, tasks = arguments.get("prompts", {}), arguments["router_mapping"]
        parts = [
            {
                **model.preprocess(part, prompt=prompts.get(name), task=tasks[name]),
                "task": tasks[name],
            }
            for part, name in zip(parts, COLUMNS, strict=True)
        ]
    model.eval()
    with torch.no_grad():
        return recipe.training_loss(model)(parts, labels)
