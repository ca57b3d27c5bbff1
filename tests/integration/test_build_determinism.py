"""A build depends on its input's content and its parameters, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from tests.conftest import Command
from tests.support.command_line import Done, run_msshift, run_python, run_script
from tests.support.file_bytes import file_bytes
from tests.support.tsv_files import write_tsv_folder


@pytest.mark.parametrize("run", [run_msshift, pytest.param(run_script, marks=pytest.mark.extended)])
def test_same_bytes_in_any_surroundings(run: Callable[..., Done], tmp_path: Path) -> None:
    """Other order of lines; in processes of their own also other locales and keys of hashes."""
    write_tsv_folder(tmp_path / "a" / "toy", open_collection("mini:500"))
    write_tsv_folder(tmp_path / "b" / "toy", open_collection("mini:500"), shuffle=True)
    surroundings = {
        "a": {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
        "b": {"PYTHONHASHSEED": "77", "TZ": "Pacific/Apia", "LC_ALL": "C.UTF-8"},
    }
    for threads, (name, environment) in enumerate(surroundings.items(), 1):
        for library in ("OMP", "OPENBLAS", "MKL"):
            environment[f"{library}_NUM_THREADS"] = str(threads)
        environment["MSSHIFT_CACHE"] = str(tmp_path / name / "cache")
        data = ("--collection", tmp_path / name / "toy", "--out", tmp_path / name / "msshift")
        done = run(["build", "--encoder", "terms", *data], tmp_path, environment)
        assert done.returncode == 0, done.stderr
    first, second = (file_bytes(tmp_path / name / "msshift") for name in "ab")
    assert first == second
    assert len(first) == 3 + 2 + (1 + 5 * 3) + (1 + 3 * 3) + (1 + 2 * 3)


def test_the_seed_moves_samples_and_nothing_else(msshift: Command, tmp_path: Path) -> None:
    for seed in "01":
        build = ("build", "length", "--collection", "mini:500", "--out", seed, "--seed", seed)
        assert msshift(*build).returncode == 0
    first, second = (file_bytes(tmp_path / seed) for seed in "01")
    assert first.keys() == second.keys()
    assert first["length-short/test.parquet"] != second["length-short/test.parquet"]


def test_import_is_light(tmp_path: Path) -> None:
    program = "import sys, msshift_bench; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = set(run_python(program, tmp_path).stdout.split())
    assert "msshift_bench" in loaded
    heavy = {"numpy", "pyarrow", "scipy", "torch", "datasets", "transformers", "rich", "typer"}
    assert not heavy & loaded
