"""Training: checkpoints, the optimizer, parts of a batch, ending early, and several GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench import libraries
from msshift_bench.baselines import pretrain_encoder
from msshift_bench.baselines.systems.recipe import EarlyStopping
from msshift_bench.baselines.training.backbones import quiet_libraries, weights_digest
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.baselines.training.trainer import (
    Checkpoint,
    check_machine,
    last_checkpoint,
    make_validation_set,
    mean_reciprocal_rank,
)
from msshift_bench.baselines.training.training_data import TrainingData
from msshift_bench.data import open_collection
from msshift_bench.errors import DataError, MissingError, UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.plumbing import reporting
from msshift_bench.records import Row
from msshift_bench.search import Bm25
from tests.baselines.conftest import Make, Patch, Values
from tests.support.bare_runs import bare_run
from tests.support.making import make_runs

TEXTS = [passage.text for passage in passages(24)]
ROWS = np.arange(3 * 16, dtype=np.int32).reshape(16, 3) % 24
ARRAYS = [pa.array(TEXTS, pa.large_string())] * 2
TRIPLES = TrainingData(ROWS, *ARRAYS, 16, "")


@pytest.fixture(scope="module")
def recipe(load: Make, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A monoBERT of four steps of four, whose encoder is made."""
    folder = tmp_path_factory.mktemp("encoder") / "bert"
    sizes = {"batch_size": 4, "steps": 4, "checkpoint_every": 100, "warmup_steps": 0}
    recipe = load("monobert", loss="softmax", **sizes, random={"initial": 0.2, "vocabulary": 400})
    recipe.make_encoder((passage.text for passage in passages(60)), folder)
    return recipe.changed(encoder=str(folder))


@pytest.fixture
def fit(recipe: Any, tmp_path: Path) -> Make:
    def fit(
        folder: str, *, until: int = 4, triples: TrainingData = TRIPLES, **changes: Any
    ) -> Checkpoint | None:
        """Train with a recipe that is changed; return the last checkpoint."""
        chosen, work = recipe.changed(**changes), tmp_path / folder
        with quiet_libraries():
            model, sets = chosen.new_model(chosen.encoder), "some" if chosen.validation else None
            chosen.fit(model, triples, work, name="a model", sets=sets, until=until)
        return last_checkpoint(work / "checkpoints")

    return fit


@pytest.mark.parametrize("state", [None, "", '{"global_step": 1', "[]", "{}"])
def test_a_checkpoint_that_was_cut_short_is_removed(state: str | None, tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    states = {3: '{"global_step": 3}', 12: '{"global_step": 12}', 15: state}
    for step, text in states.items():
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").touch()
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    last: Any = last_checkpoint(tmp_path)
    assert (last.step, last.folder) == (12, tmp_path / "checkpoint-12")
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-12", "checkpoint-3"}


@pytest.mark.neural
@pytest.mark.extended
def test_the_best_weights_are_kept_and_training_ends_early(
    fit: Make, recipe: Any, tmp_path: Path, monkeypatch: Patch, caplog: Any
) -> None:
    caplog.set_level("INFO", "msshift_bench")
    digests: list[str] = []

    def measure(_recipe: Any, _sets: Any, model: Any) -> float:
        digests.append(weights_digest(model))
        return [0.1, 0.3, 0.3, 0.9][len(digests) - 1]

    monkeypatch.setattr(Neural, "_validate", measure)
    validation = EarlyStopping(every=1, queries=2, depth=3, patience=1)
    # Continued after the second step, it knows which validation was the best.
    assert not fit("work", validation=validation, until=2).ended_early
    last = fit("work", validation=validation)
    assert (last.step, last.ended_early) == (3, True)
    assert [step for step, loss in last.losses() if loss > 0] == [1, 2, 3]
    told = [f"a model: step {step} of 4: loss {loss:.4f}" for step, loss in last.losses()]
    assert [line for line in caplog.messages if "step" in line] == told
    history = {1: 0.1, 2: 0.3, 3: 0.3}
    assert last.facts() == {"best_step": 2, "best_mrr@10": 0.3, "history": history}
    assert weights_digest(recipe.load_model(last.best)) == digests[1]
    assert len({*digests}) == 3
    assert not list(tmp_path.rglob("README.md")), "a model card takes longer than its checkpoint"


@pytest.mark.neural
@pytest.mark.extended
def test_twenty_losses_of_a_long_training_are_shown(fit: Make, caplog: Any) -> None:
    caplog.set_level("INFO", "msshift_bench")
    triples = TrainingData(np.tile(ROWS, (6, 1)), *ARRAYS, 96, "")
    sizes = {"batch_size": 2, "steps": 48, "checkpoint_every": 1}
    last = fit("work", triples=triples, until=48, **sizes)
    shown = [f"a model: step {step} of 48: loss {loss:.4f}" for step, loss in last.losses()]
    assert [line for line in caplog.messages if "step" in line] == shown
    assert len(shown) == 20
    assert len(last.state["log_history"]) >= 48


@pytest.mark.neural
@pytest.mark.extended
def test_parts_of_a_batch_add_up_to_the_batch(fit: Make, recipe: Any) -> None:
    # A loss without in-batch negatives: its mean over the parts is its mean over the batch.
    # Not of the weights: those that the loss does not depend on follow its rounding errors.
    def scores(model: Any) -> Any:
        given = (TEXTS[:5], TEXTS[:5], [np.arange(5)] * 5)
        return np.stack(list(recipe.search.score(model, *given)))

    seen, found = list[tuple[str, int, int]](), []
    for parts in (1, 2):
        with reporting(lambda *event: seen.append(event)):
            last = fit(str(parts), loss="binary", accumulate=parts)
        found.append(scores(recipe.load_model(last.folder)))
    assert seen == [("train", step, 4) for step in (1, 2, 3, 4)] * 2
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    assert np.abs(found[0] - scores(recipe.new_model(recipe.encoder))).max() > 1e-2


@pytest.mark.neural
@pytest.mark.extended
def test_the_optimizer_is_the_recipe_s(fit: Make, recipe: Any) -> None:
    changes = [
        {}, {"adam_beta1": 0.5}, {"adam_beta2": 0.9}, {"adam_epsilon": 1.0},
        {"max_gradient_norm": 0.01}, {"max_gradient_norm": 0.0},
    ]  # fmt: skip
    ends = [fit(str(n), until=2, **change).folder for n, change in enumerate(changes)]
    made = [weights_digest(recipe.load_model(end)) for end in ends]
    # The gradients are shorter than the recipe's 1, so that no limit at all changes nothing.
    assert made.pop() == made[0]
    assert len(set(made)) == len(made)


def test_mean_reciprocal_rank_by_hand() -> None:
    scores = [np.array(values, np.float32) for values in ([1, 3, 2], [5, 5, 5], range(20, 0, -1))]
    judged = [np.array([1, 0, 0], bool), np.array([0, 1, 0], bool), np.arange(20) == 10]
    # Third; second, because ties keep the order given; eleventh, beyond the cut.
    assert mean_reciprocal_rank(scores, judged) == pytest.approx((1 / 3 + 1 / 2 + 0) / 3)
    # Many ties; the last bit decides which weights are kept.
    drawn = np.random.default_rng(5)
    scores = [drawn.integers(-3, 3, 25).astype(np.float32) for _ in range(7)]
    judged = [drawn.random(25) < 0.1 for _ in range(7)]
    assert mean_reciprocal_rank(scores, judged) == 0.16666666666666669


def test_candidates_are_bm25_s_and_the_relevant_passages(tsv_folder: Any, tmp_path: Path) -> None:
    texts = ["red apple", "green apple", "blue apple", "red pear", "stone"]
    lines = "".join(f"d{i}\t{text}\n" for i, text in enumerate(texts))
    rows = (
        Row("q1", "red apple", "short", ("d4",), (1,)),
        Row("q2", "pear", "short", ("d3", "gone"), (1, 1)),
        Row("q3", "nothing", "short", ("gone",), (1,)),
    )
    collection = open_collection(tsv_folder(collection=lines))
    run = bare_run(collection, tmp_path, held_out="short", validation=rows)
    asked = Bm25(run.passages()), EarlyStopping(every=10, queries=2, depth=3, patience=2)
    sets = make_validation_set(run, *asked)
    found = {
        query: [(sets.passages[place], bool(judged)) for place, judged in zip(*one, strict=True)]
        for query, *one in zip(sets.queries, sets.candidates, sets.relevant, strict=True)
    }
    others = [(text, False) for text in ("red pear", "blue apple", "red apple")]
    assert found == {"red apple": [("stone", True), *others], "pear": [("red pear", True)]}
    with pytest.raises(DataError, match="none of 1 validation queries has a relevant passage"):
        make_validation_set(replace(run, rows=lambda _: rows[2:]), *asked)


@pytest.mark.neural
@pytest.mark.parametrize(
    ("system", "gpus", "changes", "error", "said"),
    [
        ("bi-encoder", 3, {}, UsageError, "must be a multiple of the 3 GPUs, got 16"),
        ("bi-encoder", 2, {"negatives": "mined"}, UsageError, "'mined' trains on one GPU, got 2"),
        ("bi-encoder", 4, {}, MissingError, "torch finds 2 GPUs on this machine, and --gpus is 4"),
        ("bi-encoder", 0, {}, UsageError, "bi-encoder cannot be trained on 0 GPUs"),
        ("bm25", 2, {}, UsageError, "bm25 cannot be trained on 2 GPUs"),
    ],
)  # fmt: skip
def test_requests_of_gpus_that_are_refused(
    system: str, gpus: int, changes: Values, error: type[Exception], said: str,
    data: Path, tmp_path: Path, monkeypatch: Patch,
) -> None:  # fmt: skip
    monkeypatch.setattr(libraries.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(error, match=said):
        make_runs(system, data=data, out=tmp_path, gpus=gpus, **changes)
    assert not any(tmp_path.iterdir())


@pytest.mark.neural
def test_a_gpu_without_bf16_is_refused(monkeypatch: Patch) -> None:
    cuda = libraries.torch.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "get_device_name", lambda: "an old GPU")
    for supported in (True, False):
        monkeypatch.setattr(cuda, "is_bf16_supported", lambda *, known=supported, **_: known)
        check_machine("fp16")
        if supported:
            check_machine("bf16")
    with pytest.raises(MissingError, match=r"which an old GPU does not support; .*=fp16 or"):
        check_machine("bf16")


@pytest.mark.neural
def test_a_launcher_is_refused(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        UsageError, match=r"do not use accelerate or torchrun, but msshift run --gpus"
    ):
        pretrain_encoder("mini:300", out=tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
