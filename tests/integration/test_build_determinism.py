"""A build depends on its input's content and its parameters, and on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from msshift_bench.data.collection import open_collection
from tests.conftest import Command
from tests.support.file_bytes import file_bytes
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
        data = ("--collection", tmp_path / name / "toy", "--out", tmp_path / name / "msshift")
        done = script("build", "--encoder", "terms", *data, **environment)
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
