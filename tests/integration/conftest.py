"""Builds that go to a Hub; a submission that is accepted, and the entry that it becomes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_meta, write_runs
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.making import make_submission
from tests.conftest import Build
from tests.support.hub_server import LoopbackHub


@pytest.fixture(scope="session")
def first(build_once: Build) -> Path:
    """A built data set."""
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture(scope="session")
def second(build_once: Build) -> Path:
    """Another build of the same data version: one shift less, other rows."""
    return build_once("mini:500", "length", seed=1)


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture(scope="session")
def mini_length(build_once: Build) -> Path:
    return build_once("mini", "length")


@pytest.fixture(scope="session")
def good(mini_length: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission that is accepted."""
    folder = tmp_path_factory.mktemp("good")
    runs = write_runs(folder / "runs" / "made-up", mini_length)
    meta = write_meta(folder / "meta.toml", length="msshift")
    make_submission(runs, meta, folder / "submission", mini_length)
    return folder / "submission"


@pytest.fixture(scope="session")
def one_entry(good: Path, mini_length: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entries")
    add_submission(good, folder, mini_length)
    return folder


@pytest.fixture
def broken(good: Path, tmp_path: Path) -> Path:
    """A copy of the submission, to be spoiled."""
    return Path(shutil.copytree(good, tmp_path / "submission"))
