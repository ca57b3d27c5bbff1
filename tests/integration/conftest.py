"""Builds that go to a Hub; a submission that is accepted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leaderboard.submit import submit_system
from tests.conftest import Build
from tests.support.fabricated import write_runs, write_system
from tests.support.hub_server import LoopbackHub
from tests.support.making import COLLECTION


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    """The data set that most systems are trained on."""
    return build_once(COLLECTION, "length")


@pytest.fixture(scope="session")
def with_triples(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with training triples."""
    folder = Path(shutil.copytree(data, tmp_path_factory.mktemp("triples") / "msshift"))
    add_triples(folder, open_collection(COLLECTION), count=8, depth=50)
    return folder


@pytest.fixture(scope="session")
def mini_length(build_once: Build) -> Path:
    return build_once("mini", "length")


@pytest.fixture(scope="session")
def good(mini_length: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission that is accepted: ``entries/mini/made-up/v1`` and ``runs/made-up``."""
    folder = tmp_path_factory.mktemp("good")
    runs = write_runs(folder / "runs" / "made-up", mini_length)
    system = write_system(folder / "system.toml", length="msshift")
    submit_system(runs, system, folder / "submission", mini_length)
    return folder / "submission"


@pytest.fixture
def broken(good: Path, tmp_path: Path) -> Path:
    """A copy of the submission's entries, to be spoiled."""
    return Path(shutil.copytree(good / "entries", tmp_path / "entries"))
