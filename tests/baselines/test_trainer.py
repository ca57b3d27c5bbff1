from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines import neural, trainer
from msshift_bench.baselines.monobert import MonoBert
from msshift_bench.baselines.neural import TrainedSystem
from msshift_bench.baselines.recipe import EarlyStopping, RandomEncoder
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.baselines.trainer import last_checkpoint, train
from msshift_bench.baselines.training_data import TrainingData
from msshift_bench.mini.generator import passages
from msshift_bench.plumbing.progress import silent

SYSTEM = MonoBert


def small_recipe(encoder: Path, initial: float = 0.02, **changes: Any) -> MonoBert:
    """Make an encoder of one layer; return the recipe `mini` for it, with four steps of four."""
    from msshift_bench.baselines.backbones import make_random_encoder

    shape = RandomEncoder(
        layers=1, hidden=16, heads=2, inner=32, vocabulary=400, dropout=0.0, initial=initial
    )
    texts = (passage.text for passage in passages(60))
    make_random_encoder(encoder, shape, texts, length=60, seed=1)
    recipe = load_recipe(SYSTEM, SYSTEM.name, "mini").with_options(encoder=str(encoder))
    given: dict[str, Any] = {"query_length": 20, "passage_length": 40, "batch_size": 4, "steps": 4}
    return recipe.changed(**given, **changes)


def test_a_checkpoint_that_was_cut_short_is_not_resumed_from(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    for step, complete in ((3, True), (12, True), (15, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").touch()
        if complete:
            (folder / "complete").touch()
    assert last_checkpoint(tmp_path) == (12, tmp_path / "checkpoint-12")
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
@pytest.mark.parametrize("installed", [True, False])
def test_losses_and_logs(
    installed: bool,
    triples: TrainingData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from msshift_bench.baselines.backbones import quiet_libraries

    written: list[tuple[str, str, int]] = []

    class SummaryWriter:
        """Stands for TensorBoard's, which need not be installed."""

        def __init__(self, log_dir: str) -> None:
            self._folder = log_dir

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((self._folder, name, step))

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    board = ModuleType("tensorboard")
    board.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    board.__spec__ = ModuleSpec("tensorboard", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    monkeypatch.setattr(trainer, "_has_tensorboard", lambda: installed)
    trainer._note_no_tensorboard.cache_clear()
    integrations = "transformers.integrations.integration_utils.is_tensorboard_available"
    monkeypatch.setattr(integrations, lambda: installed)
    recipe = small_recipe(tmp_path / "bert", accumulate=1, checkpoint_every=2)
    with quiet_libraries(), caplog.at_level("INFO", "msshift_bench"):
        model = recipe.new_model(tmp_path / "bert")
        given = (recipe, tmp_path / "checkpoints", silent)
        train(model, triples, *given, name="a model", logs=tmp_path / "logs")
    lines = [record.getMessage() for record in caplog.records if "step" in record.getMessage()]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f"a model: step {n} of 4: loss" for n in (2, 4)
    ]
    assert all(float(line.rpartition(" ")[2]) > 0 for line in lines)
    losses = [(folder, step) for folder, name, step in written if name == "train/loss"]
    assert losses == ([(str(tmp_path / "logs"), step) for step in (2, 4)] if installed else [])
    noted = caplog.text.count("no logs for TensorBoard, which is not installed")
    assert noted == (0 if installed else 1)
    assert (tmp_path / "checkpoints" / "checkpoint-2" / "optimizer.pt").is_file()
    assert not list(tmp_path.rglob("README.md")), "a model card takes longer than its checkpoint"


@pytest.mark.neural
@pytest.mark.slow
def test_parts_of_a_batch_add_up_to_the_batch(triples: TrainingData, tmp_path: Path) -> None:
    # A loss without in-batch negatives: its mean over the parts is its mean over the batch.
    from msshift_bench.baselines.backbones import quiet_libraries

    recipe = small_recipe(
        tmp_path / "bert", initial=0.2, warmup_steps=0, checkpoint_every=100, loss="binary"
    )
    queries = [passage.text for passage in passages(5)]
    candidates = [np.arange(5)] * 5

    def scores(model: Any) -> Any:
        # Not the weights: those that the loss does not depend on follow its rounding errors.
        return np.stack(list(SYSTEM.score(model, queries, queries, candidates, 8)))

    found = []
    seen: list[tuple[str, int, int]] = []
    for accumulate in (1, 2):
        with quiet_libraries():
            model = recipe.new_model(tmp_path / "bert")
            initial = scores(model)
            last = train(
                model,
                triples,
                recipe.changed(accumulate=accumulate),
                tmp_path / str(accumulate),
                lambda *event: seen.append(event),
                name="a model",
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
    system = TrainedSystem(recipe, "small")
    fitted: list[Any] = []
    monkeypatch.setattr(neural, "wait_for", lambda *_: True)
    monkeypatch.setattr(TrainingData, "load", lambda *_: None)
    monkeypatch.setattr(system, "_new_model", lambda _: None)
    monkeypatch.setattr(system, "_fit", lambda *given: fitted.append(given[2]))
    if without:
        (tmp_path / neural._WITHOUT_VALIDATION).touch()
    system.follow(tmp_path, tmp_path / "logs", lambda: False)
    assert [best is None for best in fitted] == [without]


@pytest.mark.neural
@pytest.mark.slow
def test_the_optimizer_is_the_recipe_s(triples: TrainingData, tmp_path: Path) -> None:
    from msshift_bench.baselines.backbones import quiet_libraries, weights_digest

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
            train(model, triples, recipe.changed(**change), folder, silent, name="a")
        made.append(weights_digest(model))
    # The gradients are shorter than the recipe's 1, so that no limit at all changes nothing.
    assert made.pop() == made[0]
    assert len(set(made)) == len(made)
