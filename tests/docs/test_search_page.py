"""docs/search.md: its block runs as it stands."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks


def test_its_block_runs(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "search.md").read_text(encoding="utf-8")
    assert len(run_blocks(page, tmp_path)) == 1
