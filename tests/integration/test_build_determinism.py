"""A build depends on its input's content and its parameters, and on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msshift_bench.data import verify_dataset
from msshift_bench.data.collection import open_collection
from tests.conftest import Command
from tests.support.file_bytes import file_bytes
from tests.support.forking import COMMAND, PRELOADED, Forked
from tests.support.tsv_files import write_tsv_folder


def test_same_bytes_whatever_the_surroundings(script: Command, tmp_path: Path) -> None:
    write_tsv_folder(tmp_path / "a" / "toy", open_collection("mini:500"))
    write_tsv_folder(tmp_path / "b" / "toy", open_collection("mini:500"), shuffle=True)
    surroundings = [
        ("a", {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"}),
        ("b", {"PYTHONHASHSEED": "77", "TZ": "Pacific/Apia", "LC_ALL": "C.UTF-8"}),
    ]
    for threads, (name, environment) in enumerate(surroundings, 1):
        for library in ("OMP", "OPENBLAS", "MKL"):
            environment[f"{library}_NUM_THREADS"] = str(threads)
        environment["MSSHIFT_CACHE"] = str(tmp_path / name / "cache")
    for name, environment in surroundings:
        done = script(
            "build",
            "--collection",
            tmp_path / name / "toy",
            "--encoder",
            "terms",
            "--out",
            tmp_path / name / "msshift",
            **environment,
        )
        assert done.returncode == 0, done.stderr
    first, second = (file_bytes(tmp_path / name / "msshift") for name in "ab")
    assert first == second
    assert len(first) == 3 + 2 + (1 + 5 * 3) + (1 + 3 * 3) + (1 + 2 * 3)


def test_the_seed_moves_samples_and_nothing_else(msshift: Command, tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert (
            msshift("build", "--collection", "mini:500", "--out", seed, "--seed", seed).returncode
            == 0
        )
    first, second = (file_bytes(tmp_path / seed) for seed in ("0", "1"))
    assert first.keys() == second.keys()
    assert first["length-short/test.parquet"] != second["length-short/test.parquet"]


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_half_written(msshift: Command, tmp_path: Path) -> None:
    """Kill a build at many moments; each time the folder is absent, old, or complete."""
    command = ["build", "--collection", "mini:500", "--out"]
    assert msshift(*command, "undisturbed").returncode == 0
    expected = file_bytes(tmp_path / "undisturbed")
    out = tmp_path / "msshift"
    began = time.monotonic()
    assert msshift(*command, out).returncode == 0
    whole = time.monotonic() - began
    for step in range(12):
        with Path(os.devnull).open("w") as nothing:
            given = ["msshift", *command, str(out), "--seed", str(step % 2)]
            build = Forked(COMMAND, given, tmp_path, os.environ, PRELOADED, (nothing, nothing))
        time.sleep(whole * (0.2 + 0.07 * step))
        build.kill()
        if out.exists():
            assert verify_dataset(out)[1] == []
    assert msshift(*command, out).returncode == 0
    assert file_bytes(out) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["msshift", "undisturbed"]


def test_import_is_light() -> None:
    script = "import sys, msshift_bench; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    heavy = {"numpy", "pyarrow", "scipy", "torch", "datasets", "transformers", "rich", "typer"}
    assert not heavy & set(done.stdout.split())
