"""One file of a seed that is missing: which one, and what can be evaluated without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.errors import RunError
from msshift_bench.evaluation import evaluate_run_sets
from tests.conftest import Build
from tests.support.fabricated import write_runs


@pytest.fixture
def runs(build_once: Build, tmp_path: Path) -> tuple[Path, Path]:
    """Runs of two seeds, of which one lacks a file, and their data set."""
    data = build_once("mini:500", "length")
    folder = write_runs(tmp_path / "runs/dense", data, seeds=(1, 2))
    (folder / "length/seed-2/long.run.gz").unlink()
    return folder.parent, data


def test_the_file_and_the_whole_seed_are_named(runs: tuple[Path, Path]) -> None:
    with pytest.raises(RunError) as caught:
        evaluate_run_sets(*runs)
    (finding,) = caught.value.findings
    assert finding.source == "dense/length/seed-2/long.run"
    assert finding.fix.endswith("seed-1 can be evaluated alone")
    (doubt,) = evaluate_run_sets(*runs, allow=["partial"]).doubts
    assert doubt.startswith("dense/length: no run without long (seed 2); seed 1 alone can be")


def test_without_the_other_seed_it_is_evaluated(runs: tuple[Path, Path]) -> None:
    folder, data = runs
    (folder / "dense/length/seed-2").rename(folder.parent / "seed-2")
    result = evaluate_run_sets(folder, data)
    assert result.figures.where(figure="rel_loss")
    assert not result.doubts


def test_a_system_without_seeds_names_the_file(runs: tuple[Path, Path]) -> None:
    folder, data = runs
    write_runs(folder / "other", data)
    (folder / "other/length/long.run.gz").unlink()
    with pytest.raises(RunError) as caught:
        evaluate_run_sets(folder / "other", data)
    (finding,) = caught.value.findings
    assert finding.source == "other/length/long.run"
    assert "alone" not in finding.fix
