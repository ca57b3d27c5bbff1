"""`scripts/bench gpu`: it runs at a tiny size, and says where there is no GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.forking import NEURAL, run_forked

PROGRAM = "from benchmarks import gpu\ngpu.main()\n"


@pytest.mark.neural
@pytest.mark.slow
def test_a_tiny_model_goes_the_same_way(tmp_path: Path) -> None:
    given = ["gpu", "--quick", "--device", "cpu", "--only", "bi-encoder"]
    done = run_forked(PROGRAM, given, tmp_path, os.environ, NEURAL)
    assert done.returncode == 0, done.stderr
    names, _, row = (line.strip("| ").split(" | ") for line in done.stdout.splitlines()[1:])
    values = [float(value.replace(",", "")) for value in row[1:]]
    numbers = dict(zip(names[1:], values, strict=True))
    assert min(numbers[name] for name in ("steps/s", "passages/s", "train GB")) > 0
    assert numbers["triples/s"] == pytest.approx(4 * numbers["steps/s"], rel=1e-2)
    # 8 bits of a number's digits are left: scores change, and not by much.
    assert 0 < numbers["of the range"] < 0.5
    assert 0.5 < numbers["first ten kept"] <= 1


@pytest.mark.neural
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = run_forked(PROGRAM, ["gpu"], tmp_path, environment, NEURAL)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "torch finds no GPU here, and this benchmark is of a GPU\n"
