"""The data set that most tests of systems read, and tiny recipes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.data import open_collection
from tests.conftest import Build
from tests.support.tiny_recipes import tiny_recipe

COLLECTION = "mini:300"
MINI = open_collection(COLLECTION)

Make = Callable[..., Any]
Patch = pytest.MonkeyPatch
Values = dict[str, Any]


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    """The shift ``length`` of `COLLECTION`; it is only read."""
    return build_once(COLLECTION, "length")


@pytest.fixture
def given(data: Path, tmp_path: Path) -> Values:
    """What a model is evaluated with."""
    return {"shift": "length", "data": data, "runs": tmp_path}


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Make:
    path = tmp_path_factory.mktemp("recipe") / "mine.toml"

    def load(system: str = "bi-encoder", **changes: Any) -> Any:
        """Open a system with the tiny recipe in a file, some of its keys changed or left out."""
        path.write_text(tiny_recipe(system, **changes))
        return open_system(system, path)

    return load
