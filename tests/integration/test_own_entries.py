"""The script that makes this project's own entries, from the data set to the gate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from msshift_bench.leaderboard.entries import load_entries
from tests.conftest import REPOSITORY


def own_entries(
    *arguments: str | Path, **environment: str | Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "scripts" / "own_entries", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **{name: str(value) for name, value in environment.items()},
        },
    )


@pytest.mark.slow
def test_entries_are_made_and_made_again(tmp_path: Path) -> None:
    work, entries = tmp_path / "work", tmp_path / "entries"
    for _ in range(2):
        done = own_entries("mini", work, SYSTEMS="bm25", ENTRIES=entries)
        assert done.returncode == 0, done.stderr
    (entry,) = load_entries(entries)
    assert (entry.board.id, entry.submission.system.name) == ("mini", "bm25")
    assert entry.submission.version == 1, "its own entries are replaced, not added to"
    assert entry.submission.badge == "rescored"
    assert entry.submission.shifts == ("topics", "wh-words", "length")


def test_a_board_without_own_entries_is_refused(tmp_path: Path) -> None:
    done = own_entries("ms-marco", tmp_path / "work")
    assert done.returncode == 2
    assert "no entries of its own on ms-marco" in done.stderr
