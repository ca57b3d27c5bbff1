"""The data set that most tests of systems read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build

COLLECTION = "mini:300"


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    """The shift ``length`` of `COLLECTION`; it is only read."""
    return build_once(COLLECTION, "length")
