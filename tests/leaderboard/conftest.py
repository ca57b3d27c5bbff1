"""A board of systems of every kind, and its pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.evaluation import Result
from msshift_bench.leaderboard.site import build_site
from tests.support.synthetic_entries import few_entries


@pytest.fixture(scope="session")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    folder = tmp_path_factory.mktemp("entries")
    return folder, few_entries(folder)


@pytest.fixture(scope="session")
def site(entries: tuple[Path, dict[str, Result]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site") / "site", entries[0]).parent
