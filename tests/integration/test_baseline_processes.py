"""Two processes that train together make what one makes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.making import make_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe
from tests.support.together import run_together

pytestmark = [pytest.mark.neural, pytest.mark.slow]


COMMON = {
    "accumulate": 2,
    "steps": 4,
    "learning_rate": 3e-3,
    "warmup_steps": 0,
    "schedule": "constant",
    "weight_decay": 0,
    # With BERT's 1e-8 the first steps are as long for a gradient that is a rounding error.
    "adam_epsilon": 1e-6,
    "checkpoint_every": 4,
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

PROGRAM = """
import sys
from msshift_bench.cli import main

folder, data = sys.argv[1:]
for system in {systems}:
    sys.argv = ["msshift", "run", system, "--data", data, "--held-out", "short"]
    sys.argv += ["--recipe", f"{{folder}}/{{system}}.toml", "--out", f"{{folder}}/together"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
"""


def scores(run: Path) -> dict[tuple[str, str], float]:
    lines = read_run(run).items()
    return {(query_id, line[0]): line[2] for query_id, ranking in lines for line in ranking}


def test_two_processes_and_one(data: Path, tmp_path: Path) -> None:
    for system, own in OWN.items():
        (tmp_path / f"{system}.toml").write_text(tiny_recipe(system, **COMMON, **own))
    done = run_together(PROGRAM.format(systems=tuple(OWN)), [tmp_path, data], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in sorted((tmp_path / "together").iterdir())] == sorted(OWN)
    runs = [tmp_path / "together" / system / "length" / "short.run.gz" for system in OWN]
    assert done.stdout.split() == [str(run) for run in runs]

    for system, run in zip(OWN, runs, strict=True):
        (alone,) = make_runs(
            system,
            data=data,
            out=tmp_path / "alone",
            recipe=tmp_path / f"{system}.toml",
            held_out=["short"],
        )
        expected, found = scores(alone), scores(run)
        common = sorted(expected.keys() & found.keys())
        assert len(common) > 0.99 * len(expected)
        one, two = (np.array([values[pair] for pair in common]) for values in (expected, found))
        np.testing.assert_allclose(one, two, atol=1e-4 * np.abs(one).max())
        said, other = sidecar(alone), sidecar(run)
        assert (said["hardware"]["processes"], other["hardware"]["processes"]) == (1, 2)
        assert said["parameters"] == other["parameters"]
        assert said["training"]["weights_sha256"] != said["training"]["initial_weights_sha256"]
        for same in ("triples_sha256", "initial_weights_sha256", "steps"):
            assert said["training"][same] == other["training"][same]
