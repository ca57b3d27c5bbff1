"""The packaged recipes: ``mini`` learns to rank, and the first steps of ``paper``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Plan, Run, System, make_runs, open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.backbones import _SPECIAL, learn_word_pieces
from msshift_bench.data.collection import open_collection
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.libraries import torch, transformers
from msshift_bench.mini.generator import passages
from msshift_bench.search.ranking import Ranking
from msshift_bench.stats import Figures
from tests.conftest import Build
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import NEURAL

pytestmark = [pytest.mark.neural, pytest.mark.extended]


def test_a_bi_encoder_learns_and_loses_on_the_topic_that_is_held_out(
    build_once: Build, tmp_path: Path
) -> None:
    """docs/experiments.md has the other systems, and the commands of its tables."""
    collection, data = open_collection("mini:600"), build_once("mini:600", "topics")
    recipe: Any = open_system("bi-encoder", "mini")
    # A narrower model learns the same in a third of the time.
    narrow = recipe.random.changed(hidden=48, inner=48)
    recipe = recipe.changed(random=narrow, steps=40, learning_rate=3e-3)
    still = recipe.changed(steps=1, checkpoint_every=1, warmup_steps=0, learning_rate=0.0)

    def evaluated(system: System, *held_out: str) -> Figures:
        out = tmp_path / system.digest()
        given: dict[str, Any] = {"collection": collection, "data": data, "held_out": held_out}
        make_runs(Plan(system=system, shifts=["topics"], out=out, **given))
        return evaluate_run_sets([out], data, allow=["partial"]).figures

    trained, untrained = evaluated(recipe, "C1", "C2"), evaluated(still, "C2")
    for group in ("C0", "C1", "C3", "C4"):
        before, after = (
            figures.first(figure="model_score", group=group, model="C2").value
            for figures in (untrained, trained)
        )
        assert after > before + 0.15
    assert trained.first(figure="rel_loss", group="C1").low > 0.1


@pytest.fixture(scope="module")
def small_distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an untrained DistilBERT of few layers and dimensions."""
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
def test_the_first_steps_of_the_paper_s_recipes(
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
    given: dict[str, Any] = {"data": data, "collection": "mini:300", "held_out": ["short"]}
    (run,) = make_runs(Plan(system=shortened, shifts=["length"], out=tmp_path, **given))
    training = sidecar(run)["training"]
    assert training["steps"] == 2
    assert training["weights_sha256"] != training["initial_weights_sha256"]
    assert ("history" in training) == (recipe.validation is not None)
    ((transformer, *_),) = models
    config = transformer.auto_model.config
    assert (config.n_layers, config.dim) == (2, 96)
