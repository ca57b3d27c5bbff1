"""docs/troubleshooting.md: its blocks run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks

PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_blocks_run(tmp_path: Path) -> None:
    ran = run_blocks(PAGE, tmp_path)
    assert [command[1] for command in ran if command[0] == "msshift"] == [
        "build",
        "doctor",
        "doctor",
        "doctor",
    ]
