"""The first steps of the paper's recipes, on a small DistilBERT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Plan, Run, make, open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.libraries import torch, transformers
from msshift_bench.mini.generator import passages
from msshift_bench.search.ranking import Ranking
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import NEURAL

pytestmark = [pytest.mark.neural, pytest.mark.extended]


@pytest.fixture(scope="module")
def small_distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an untrained DistilBERT of few layers and dimensions."""
    from msshift_bench.baselines.training.backbones import _SPECIAL, learn_word_pieces

    folder = tmp_path_factory.mktemp("encoder") / "small-distilbert"
    words = learn_word_pieces([passage.text for passage in passages(300)], 2000)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **_SPECIAL)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), n_layers=2, dim=96, n_heads=4, hidden_dim=192
    )
    torch.manual_seed(0)
    transformers.DistilBertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("system", NEURAL)
def test_the_first_steps(
    system: str, data: Path, small_distilbert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    architecture: Any = neural_systems()[system]
    models = []

    def first_passage(_search: Any, model: Any, task: Run) -> Iterator[tuple[str, Ranking]]:
        models.append(model)
        yield from ((row.query_id, {"1": 1.0}) for row in task.queries)

    monkeypatch.setattr(architecture.searcher(), "rank", first_passage)
    recipe: Any = open_system(system, "paper")
    shortened = recipe.changed(
        encoder=str(small_distilbert),
        precision="fp32",
        batch_size=4,
        accumulate=2,
        steps=2,
        warmup_steps=0,  # with more, the first step would change nothing
        negatives_pool=2,
        validation=recipe.validation and recipe.validation.changed(every=2, queries=2, depth=2),
    )
    given = {"data": data, "collection": "mini:300", "held_out": ["short"]}
    (run,) = make(Plan(system=shortened, shifts=["length"], out=tmp_path, **given))  # type: ignore[arg-type]
    training = sidecar(run)["training"]
    assert training["steps"] == 2
    assert training["weights_sha256"] != training["initial_weights_sha256"]
    assert ("history" in training) == (recipe.validation is not None)
    ((transformer, *_),) = models
    config = transformer.auto_model.config
    assert (config.n_layers, config.dim) == (2, 96)
