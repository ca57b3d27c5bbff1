"""Two processes that train one model end in the scores of one process."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.training.trainer import in_processes
from msshift_bench.errors import DataError
from tests.support.making import make_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.extended]

COMMON = {
    "accumulate": 2,
    "steps": 4,
    "learning_rate": 3e-3,
    "warmup_steps": 0,
    "schedule": "constant",
    "weight_decay": 0,
    # With BERT's 1e-8, a gradient that is a rounding error makes a step of full length.
    "adam_epsilon": 1e-6,
    "checkpoint_every": 3,
}

OWN: dict[str, dict[str, Any]] = {
    "bi-encoder": {
        "pooling": "mean",
        "normalize": True,
        "loss_scale": 10,
        "validation": {"every": 2, "queries": 10, "depth": 5, "patience": 0},
    },
    "splade": {"query_flops": 0.1, "passage_flops": 0.1, "flops_steps": 2},
    "colbert": {"in_batch_negatives": True},
    "monobert": {},
}


def train(data: Path, out: Path, system: str, gpus: int, **changes: Any) -> Path:
    options = {"progress": changes.pop("progress", None)}
    out.mkdir(exist_ok=True)
    recipe = out / f"{system}.toml"
    recipe.write_text(tiny_recipe(system, **{**COMMON, **OWN[system], **changes}))
    given = {"data": data, "out": out / "runs", "recipe": recipe, "held_out": ["short"]}
    (run,) = make_runs(system, gpus=gpus, **given, **options)
    return run


def scores(run: Path) -> dict[tuple[str, str], float]:
    lines = read_run(run).items()
    return {(query_id, line[0]): line[2] for query_id, ranking in lines for line in ranking}


@pytest.mark.parametrize("system", OWN)
def test_two_processes_and_one(
    system: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alone = train(data, tmp_path / "alone", system, 1)
    with caplog.at_level("INFO"):
        caplog.clear()
        together = train(data, tmp_path / "together", system, 2)
    assert f"{system} without short of length: step 4 of 4: loss" in caplog.text
    expected, found = scores(alone), scores(together)
    common = sorted(expected.keys() & found.keys())
    assert len(common) > 0.99 * len(expected)
    one, two = (np.array([values[pair] for pair in common]) for values in (expected, found))
    np.testing.assert_allclose(one, two, atol=1e-4 * np.abs(one).max())
    facts = [sidecar(run) for run in (alone, together)]
    assert [each["hardware"]["processes"] for each in facts] == [1, 2]
    assert facts[0]["parameters"] == facts[1]["parameters"]
    training = facts[0]["training"]
    assert training["weights_sha256"] != training["initial_weights_sha256"]
    for same in ("triples_sha256", "initial_weights_sha256", "steps"):
        assert training[same] == facts[1]["training"][same]


def end_at_once() -> None:
    """Do nothing."""


def test_processes_may_be_started_from_another_thread() -> None:
    """Handlers of signals are set in the main thread only."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(in_processes, 2, end_at_once).result()


def end_by_kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_ends_the_training() -> None:
    with pytest.raises(DataError, match=r"a process of the training failed: .*SIGKILL"):
        in_processes(2, end_by_kill)


def test_an_interrupt_and_an_error_end_both_processes(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(stage: str, done: int, _: int) -> None:
        if ": train" in stage and done == 1:
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "interrupted", "bi-encoder", 2, progress=interrupt)
    with pytest.raises(DataError, match="a process of the training failed: DataError: the scores"):
        train(data, tmp_path / "lost", "bi-encoder", 2, learning_rate=1e30)
    assert signal.getsignal(signal.SIGINT) is handler
    printed = capfd.readouterr().err
    assert not any(word in printed for word in ("Traceback", "Warning")), printed
