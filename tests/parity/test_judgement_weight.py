"""The loss of a model with a teacher and judgements is the sum of both losses."""

from __future__ import annotations

from typing import Any

import pytest

from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.errors import UsageError
from msshift_bench.mini.generator import passages
from tests.parity.conftest import loss_of

pytestmark = pytest.mark.neural

TRANSFORMERS = [one for one in neural_systems().values() if not one.module_name]
"""The systems with losses of their own; the word rerankers share monoBERT's."""

TEXTS = [passage.text for passage in passages(6)]


def value_of(loss: Any) -> float:
    return sum(float(part) for part in loss.values()) if isinstance(loss, dict) else float(loss)


@pytest.mark.parametrize("system", TRANSFORMERS, ids=lambda one: one.name)
def test_the_loss_is_the_teacher_s_and_the_weighted_judgements(
    system: Any, small_model: Any
) -> None:
    import torch

    model, recipe = small_model(system)
    flops = {"query_flops": 0.0, "passage_flops": 0.0} if system.name == "splade" else {}
    judged = recipe.changed(**flops)
    taught = judged.changed(teacher="bm25")
    labels: Any = torch.tensor([[3.0, 1.0], [2.0, 2.5]])
    if system.name == "monobert":
        labels = list(labels)
    values = [
        value_of(loss_of(one, model, TEXTS, labels))
        for one in (judged, taught, taught.changed(judgement_weight=0.25))
    ]
    assert min(values) > 0
    assert values[2] == pytest.approx(values[1] + 0.25 * values[0], rel=1e-5)


def test_a_weight_of_judgements_needs_a_teacher(small_model: Any) -> None:
    _, recipe = small_model(neural_systems()["bi-encoder"])
    with pytest.raises(UsageError, match=r"judgement_weight: it is 0\.5 and there is no teacher"):
        recipe.changed(judgement_weight=0.5)
