"""Two processes that train together make what one makes alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import DataError
from tests.conftest import Build
from tests.support.making import make_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe
from tests.support.warm_forkserver import warm_forkserver

pytestmark = [pytest.mark.neural, pytest.mark.extended]

COLLECTION = "mini:300"

COMMON = {
    "accumulate": 2,
    "steps": 4,
    "learning_rate": 3e-3,
    "warmup_steps": 0,
    "schedule": "constant",
    "weight_decay": 0,
    # With BERT's 1e-8 the first steps are as long for a gradient that is a rounding error.
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


def scores(run: Path) -> dict[tuple[str, str], float]:
    lines = read_run(run).items()
    return {(query_id, line[0]): line[2] for query_id, ranking in lines for line in ranking}


def test_two_processes_and_one(
    build_once: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = build_once(COLLECTION, "length")

    def interrupt(stage: str, done: int, _: int) -> None:
        if ": train" in stage and done == 1:
            signal.raise_signal(signal.SIGINT)

    def made(
        system: str, gpus: int, **options: Any
    ) -> tuple[dict[tuple[str, str], float], dict[str, Any]]:
        (run,) = make_runs(
            system,
            ["length"],
            data=data,
            collection=COLLECTION,
            recipe=tmp_path / f"{system}.toml",
            held_out=["short"],
            gpus=gpus,
            **{"out": tmp_path / str(gpus), **options},
        )
        return scores(run), sidecar(run)

    for system, own in OWN.items():
        (tmp_path / f"{system}.toml").write_text(tiny_recipe(system, **COMMON, **own))
        expected, alone = made(system, 1)
        with caplog.at_level("INFO"):
            caplog.clear()
            with warm_forkserver():
                if system == "bi-encoder":
                    with pytest.raises(KeyboardInterrupt):
                        made(system, 2, progress=interrupt, out=tmp_path / "interrupted")
                found, together = made(system, 2)
        assert f"{system} without short of length: step 4 of 4: loss" in caplog.text
        common = sorted(expected.keys() & found.keys())
        assert len(common) > 0.99 * len(expected)
        one, two = (np.array([values[pair] for pair in common]) for values in (expected, found))
        np.testing.assert_allclose(one, two, atol=1e-4 * np.abs(one).max())
        assert (alone["hardware"]["processes"], together["hardware"]["processes"]) == (1, 2)
        assert alone["parameters"] == together["parameters"]
        facts = alone["training"]
        assert facts["weights_sha256"] != facts["initial_weights_sha256"]
        for same in ("triples_sha256", "initial_weights_sha256", "steps"):
            assert facts[same] == together["training"][same]


def test_the_error_of_a_process_is_told_in_a_sentence(
    build_once: Build, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = tiny_recipe("bi-encoder", **{**COMMON, "learning_rate": 1e30}, **OWN["bi-encoder"])
    (tmp_path / "lost.toml").write_text(recipe)
    interrupted = signal.getsignal(signal.SIGINT)
    with pytest.raises(DataError, match="a process of the training failed: DataError: the scores"):
        make_runs(
            "bi-encoder",
            ["length"],
            data=build_once(COLLECTION, "length"),
            collection=COLLECTION,
            out=tmp_path / "runs",
            recipe=tmp_path / "lost.toml",
            held_out=["short"],
            gpus=2,
        )
    assert signal.getsignal(signal.SIGINT) is interrupted
    told = capfd.readouterr().err
    assert not any(word in told for word in ("Traceback", "Warning")), told
