"""The made world, as all tests of evaluation read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.made_runs import COLLECTION, SHIFT_NAMES, write_world


@pytest.fixture(scope="session")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `write_world`, with its data set as ``msshift``; it is only read."""
    folder = tmp_path_factory.mktemp("world")
    data = build_once(COLLECTION, *SHIFT_NAMES)
    write_world(folder, data)
    (folder / "msshift").symlink_to(data)
    return folder
