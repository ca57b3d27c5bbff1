"""The test sets that the boards accept are those of the release, and of the mini collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.importing import import_official
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.rescoring import data_digest


def test_mini(tmp_path: Path) -> None:
    shifts = BOARDS["mini"].shifts
    manifest = build_dataset(open_collection("mini"), list(shifts), tmp_path / "msshift")
    assert BOARDS["mini"].groups == {"topics": manifest.describe_groups("topics")}
    assert {shift: (data_digest(shift, tmp_path / "msshift"),) for shift in shifts} == shifts


@pytest.mark.realdata
def test_ms_marco(real_data: Path, tmp_path: Path) -> None:
    sources = [real_data / "ms-marco-shift", real_data / "extrapolate-eval"]
    import_official(sources, tmp_path / "msshift", texts=False)
    shifts = BOARDS["ms-marco"].shifts
    assert {shift: (data_digest(shift, tmp_path / "msshift"),) for shift in shifts} == shifts
