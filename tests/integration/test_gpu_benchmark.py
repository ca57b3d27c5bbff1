"""`scripts/bench gpu`: it runs at a tiny size, and says where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


@pytest.mark.neural
@pytest.mark.slow
def test_a_tiny_model_goes_the_same_way() -> None:
    few = ("--steps", "2", "--batch", "4", "--passages", "60", "--queries", "3", "--ranked", "40")
    command = [sys.executable, "-m", "benchmarks", "gpu", "--device", "cpu", *few]
    command += ["--only", "bi-encoder"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heads, _, row = (line.strip("| ").split(" | ") for line in done.stdout.splitlines()[-3:])
    values = [float(value.replace(",", "")) for value in row[1:]]
    numbers = dict(zip(heads[1:], values, strict=True))
    assert min(numbers[name] for name in ("steps/s", "passages/s", "train GB")) > 0
    assert numbers["triples/s"] == pytest.approx(4 * numbers["steps/s"], rel=1e-2)
    # 8 bits of a number's digits are left: scores change, and not by much.
    assert 0 < numbers["of the range"] < 0.5
    assert 0.5 < numbers["first ten kept"] <= 1


@pytest.mark.neural
def test_without_a_gpu_it_says_so() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "benchmarks", "gpu"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stdout == ""
    said = "torch finds no GPU here, and this benchmark is of a GPU\nfailed with 3: "
    assert done.stderr.startswith(said)
