"""The digests of the boards' test sets are those of the release and of the generated collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import open_dataset
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.shifts import SIZED, get_shift
from tests.conftest import Build
from tests.support.board_digests import data_digest


@pytest.mark.extended
def test_mini(build_once: Build) -> None:
    shifts = BOARDS["mini"].shifts
    folder = build_once("mini", *shifts)
    assert BOARDS["mini"].groups["topics"] == open_dataset(folder).manifest.describe_groups(
        "topics"
    )
    assert {shift: (data_digest(shift, folder),) for shift in shifts} == shifts


@pytest.mark.extended
@pytest.mark.realdata
def test_the_slice_of_ms_marco(real_data: Path, tmp_path: Path) -> None:
    shifts = BOARDS["msmarco-pool"].shifts
    pool = open_collection(real_data / "msmarco-pool")
    by_terms = {"topics": {"encoder": "terms"}}
    manifest = build_dataset(
        pool, list(shifts), tmp_path / "msshift", texts=False, options=by_terms
    )
    assert BOARDS["msmarco-pool"].groups["topics"] == manifest.describe_groups("topics")
    assert {shift: (data_digest(shift, tmp_path / "msshift"),) for shift in shifts} == shifts


@pytest.mark.extended
@pytest.mark.realdata
def test_ms_marco(real_data: Path, tmp_path: Path) -> None:
    sources = [real_data / "ms-marco-shift", real_data / "extrapolate-eval"]
    import_official(sources, tmp_path / "msshift", texts=False)
    released = {
        shift: digests
        for shift, digests in BOARDS["ms-marco"].shifts.items()
        if get_shift(shift).family not in SIZED
    }
    assert {shift: (data_digest(shift, tmp_path / "msshift"),) for shift in released} == released


@pytest.mark.extended
@pytest.mark.realdata
def test_a_rebuild_with_dev_small_has_the_test_sets_of_the_release(
    real_data: Path, tmp_path: Path
) -> None:
    queries = real_data / "ms-marco-shift" / "EVAL" / "queries"
    dev_small = tmp_path / "queries.dev.small.tsv"
    dev_small.write_bytes(
        b"".join((queries / f"queries_{g}.tsv").read_bytes() for g in ("short", "long"))
    )
    pool = open_collection(real_data / "msmarco-pool")
    build_dataset(
        pool,
        ["length"],
        tmp_path / "msshift",
        samples=SampleSizes(test_queries=dev_small),
        texts=False,
    )
    assert data_digest("length", tmp_path / "msshift") in BOARDS["ms-marco"].shifts["length"]
