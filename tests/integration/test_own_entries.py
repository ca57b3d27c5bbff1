"""The script that makes this project's own entries, from the data set to the gate."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.leaderboard.entries import load_entries
from scripts.experiment_tables import NAMES, PAGE, main, marks
from tests.conftest import REPOSITORY
from tests.support.forking import write_msshift


def own_entries(
    folder: Path, *arguments: str | Path, **environment: str | Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "scripts" / "own_entries", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{write_msshift(folder / 'bin').parent}{os.pathsep}{os.environ['PATH']}",
            **{name: str(value) for name, value in environment.items()},
        },
    )


@pytest.mark.slow
def test_entries_are_made_and_made_again(tmp_path: Path) -> None:
    work, entries = tmp_path / "work", tmp_path / "entries"
    for _ in range(2):
        done = own_entries(tmp_path, "mini", work, SYSTEMS="bm25", ENTRIES=entries)
        assert done.returncode == 0, done.stderr
    (entry,) = load_entries(entries)
    assert (entry.board.id, entry.submission.system.name) == ("mini", "bm25")
    assert entry.submission.version == 1, "its own entries are replaced, not added to"
    assert entry.submission.badge == "rescored"
    assert entry.submission.shifts == ("topics", "wh-words", "length")


def test_the_tables_of_the_experiments_are_those_of_the_run_sets(tmp_path: Path) -> None:
    build_dataset(open_collection("mini:500"), ["length"], tmp_path / "msshift")
    for folder in ("runs/splade", "no-prior/splade"):
        write_runs(tmp_path / folder, tmp_path / "msshift")
    page = tmp_path / "page.md"
    page.write_text(
        "".join(
            f"About {name}.\n{begin}stale\n{end}" for name in NAMES for begin, end in [marks(name)]
        )
    )
    main(tmp_path, page)
    first = page.read_text()
    assert "stale" not in first
    assert first.count("| splade | Avg In |") == first.count("- data: mini") == 2
    assert first.startswith("About runs.\n")
    main(tmp_path, page)
    assert page.read_text() == first


def test_the_page_has_a_place_for_every_table() -> None:
    text = PAGE.read_text("utf-8")
    assert [text.count(marks(name)[0]) for name in NAMES] == [1, 1]


def test_a_board_without_own_entries_is_refused(tmp_path: Path) -> None:
    done = own_entries(tmp_path, "ms-marco", tmp_path / "work")
    assert done.returncode == 2
    assert "no entries of its own on ms-marco" in done.stderr
