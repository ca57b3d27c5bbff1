from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines.rerankers.monobert import MonoBert
from msshift_bench.baselines.systems.recipe import EarlyStopping, RandomEncoder, load_recipe
from msshift_bench.baselines.training import neural
from msshift_bench.baselines.training.backbones import (
    make_random_encoder,
    quiet_libraries,
    weights_digest,
)
from msshift_bench.baselines.training.early_stopping import Validation
from msshift_bench.baselines.training.trainer import Checkpoint, last_checkpoint
from msshift_bench.baselines.training.training_data import TrainingData
from msshift_bench.data import open_collection
from msshift_bench.mini.generator import passages
from msshift_bench.plumbing import reporting
from tests.support.bare_runs import bare_run

SYSTEM = MonoBert


def small_recipe(encoder: Path, initial: float = 0.02, **changes: Any) -> MonoBert:
    """Make an encoder of one layer; return the recipe `mini` for it, with four steps of four."""
    shape = RandomEncoder(
        layers=1, hidden=16, heads=2, inner=32, vocabulary=400, dropout=0.0, initial=initial
    )
    texts = (passage.text for passage in passages(60))
    make_random_encoder(encoder, shape, texts, length=60, seed=1)
    recipe = load_recipe(SYSTEM, SYSTEM.name, "mini").changed(encoder=str(encoder))
    given: dict[str, Any] = {"query_length": 20, "passage_length": 40, "batch_size": 4, "steps": 4}
    return recipe.changed(**given, **changes)


@pytest.mark.parametrize("state", [None, "", '{"global_step": 1', "[]", "{}"])
def test_a_checkpoint_that_was_cut_short_is_not_resumed_from(
    state: str | None, tmp_path: Path
) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    states = {3: '{"global_step": 3}', 12: '{"global_step": 12}', 15: state}
    for step, text in states.items():
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").touch()
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    last = last_checkpoint(tmp_path)
    assert last is not None
    assert (last.step, last.folder) == (12, tmp_path / "checkpoint-12")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12", "checkpoint-3"]


@pytest.fixture(scope="module")
def triples() -> TrainingData:
    texts = pa.array([passage.text for passage in passages(24)], pa.large_string())
    rows = np.arange(3 * 16, dtype=np.int32).reshape(16, 3) % 24
    return TrainingData(rows, texts, texts, 16, "")


def test_triples_are_texts_by_column(triples: TrainingData) -> None:
    assert len(triples) == 16
    assert triples.columns == ("query", "positive", "negative_1")
    texts = [passage.text for passage in passages(24)]
    assert triples[9] == dict(zip(triples.columns, texts[3:6], strict=True))


@pytest.mark.neural
@pytest.mark.slow
def test_losses_are_logged_and_kept(
    triples: TrainingData, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = small_recipe(tmp_path / "bert", accumulate=1, checkpoint_every=2)
    with quiet_libraries(), caplog.at_level("INFO", "msshift_bench"):
        model = recipe.new_model(tmp_path / "bert")
        recipe.fit(model, triples, tmp_path / "checkpoints", name="a model")
    lines = [record.getMessage() for record in caplog.records if "step" in record.getMessage()]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f"a model: step {n} of 4: loss" for n in (2, 4)
    ]
    last = last_checkpoint(tmp_path / "checkpoints")
    assert last is not None
    assert [f"{loss:.4f}" for _, loss in last.losses()] == [
        line.rpartition(" ")[2] for line in lines
    ]
    assert [step for step, _ in last.losses()] == [2, 4]
    assert not last.ended_early
    assert (tmp_path / "checkpoints" / "checkpoint-2" / "optimizer.pt").is_file()
    assert not list(tmp_path.rglob("README.md")), "a model card takes longer than its checkpoint"


@pytest.mark.neural
@pytest.mark.slow
def test_the_best_weights_are_kept_and_training_ends_in_time(
    triples: TrainingData, tmp_path: Path
) -> None:
    recipe = small_recipe(tmp_path / "bert", initial=0.2, warmup_steps=0)
    settings = EarlyStopping(every=1, queries=2, depth=3, patience=1)
    worths = {1: 0.1, 2: 0.3, 3: 0.3, 4: 0.9}
    digests: list[str] = []

    def measure(model: Any) -> float:
        digests.append(weights_digest(model))
        return worths[len(digests)]

    def trained(until: int | None = None) -> Checkpoint:
        with quiet_libraries():
            recipe.changed(steps=4).fit(
                *(recipe.new_model(tmp_path / "bert"), triples, tmp_path / "checkpoints"),
                name="a model",
                until=until,
                validation=Validation(settings, measure),
            )
        last = last_checkpoint(tmp_path / "checkpoints")
        assert last is not None
        return last

    # Continued after the second step, it knows which validation was the best.
    assert not trained(until=2).ended_early
    last = trained()
    assert (last.step, last.ended_early) == (3, True)
    assert last.facts() == {
        "best_step": 2,
        "best_mrr@10": 0.3,
        "history": {1: 0.1, 2: 0.3, 3: 0.3},
    }
    assert weights_digest(recipe.load_model(last.best)) == digests[1]
    assert len({*digests}) == 3


@pytest.mark.neural
@pytest.mark.slow
def test_parts_of_a_batch_add_up_to_the_batch(triples: TrainingData, tmp_path: Path) -> None:
    # A loss without in-batch negatives: its mean over the parts is its mean over the batch.

    recipe = small_recipe(
        tmp_path / "bert", initial=0.2, warmup_steps=0, checkpoint_every=100, loss="binary"
    )
    queries = [passage.text for passage in passages(5)]
    candidates = [np.arange(5)] * 5

    def scores(model: Any) -> Any:
        # Not the weights: those that the loss does not depend on follow its rounding errors.
        return np.stack(
            list(SYSTEM.searcher()(batch_size=8).score(model, queries, queries, candidates))
        )

    found = []
    seen: list[tuple[str, int, int]] = []
    for accumulate in (1, 2):
        with quiet_libraries():
            model = recipe.new_model(tmp_path / "bert")
            initial = scores(model)
            with reporting(lambda *event: seen.append(event)):
                last = recipe.changed(accumulate=accumulate).fit(
                    model, triples, tmp_path / str(accumulate), name="a model"
                )
        assert last == 4
        found.append(scores(model))
    assert seen == [("train", step, 4) for step in (1, 2, 3, 4)] * 2
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    assert np.abs(found[0] - initial).max() > 1e-2


@pytest.mark.neural
@pytest.mark.parametrize("without", [True, False])
def test_other_processes_validate_only_where_the_first_does(
    without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe(
        tmp_path / "bert", validation=EarlyStopping(every=1, queries=2, depth=2, patience=0)
    )
    fitted: list[Any] = []
    monkeypatch.setattr(neural, "wait_for", lambda *_: True)
    monkeypatch.setattr(TrainingData, "load", lambda *_: None)
    monkeypatch.setattr(neural.Neural, "_new_model", lambda *_: None)
    monkeypatch.setattr(
        neural.Neural, "fit", lambda *_, **given: fitted.append(given["validation"])
    )
    if without:
        (tmp_path / neural._WITHOUT_VALIDATION).touch()
    recipe.follow(bare_run(open_collection("mini:60"), tmp_path, system=recipe))
    assert [best is None for best in fitted] == [without]


@pytest.mark.neural
@pytest.mark.slow
def test_the_optimizer_is_the_recipe_s(triples: TrainingData, tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path / "bert", initial=0.2, warmup_steps=0, checkpoint_every=100)
    changes: list[dict[str, Any]] = [
        {},
        {"adam_beta1": 0.5},
        {"adam_beta2": 0.9},
        {"adam_epsilon": 1.0},
        {"max_gradient_norm": 0.01},
        {"max_gradient_norm": 0.0},
    ]
    made = []
    for number, change in enumerate(changes):
        with quiet_libraries():
            model = recipe.new_model(tmp_path / "bert")
            folder = tmp_path / str(number)
            recipe.changed(**change).fit(model, triples, folder, name="a")
        made.append(weights_digest(model))
    # The gradients are shorter than the recipe's 1, so that no limit at all changes nothing.
    assert made.pop() == made[0]
    assert len(set(made)) == len(made)
