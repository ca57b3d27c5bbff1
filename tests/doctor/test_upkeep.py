"""`msshift cache`: what it shows, and what it removes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.doctor import cached, prune
from msshift_bench.doctor.upkeep import look_at_cache
from msshift_bench.errors import UnknownNameError
from msshift_bench.plumbing import hold_folder
from tests.conftest import Command

Fill = Callable[[str, float], Path]

OLD, USED, NEW = ("a" * 64, "b" * 64, "c" * 32)


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fill:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path))

    def fill(name: str, days: float) -> Path:
        """Make a folder of 1,000 bytes that was last changed so many days ago."""
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(1000))
        then = time.time() - 86_400 * days
        os.utime(folder / "file", (then, then))
        return folder

    return fill


def test_what_is_old_and_not_in_use_is_removed(fill: Fill) -> None:
    installed, old = fill("data/msshift", 100), fill(f"embeddings/{OLD}", 31)
    used, new = fill(f"embeddings/{USED}", 31), fill(f"passages/{NEW}", 1)
    with hold_folder(used):
        items = {item.folder.name: item for item in cached()}
        assert {name: item.in_use for name, item in items.items()} == {
            "msshift": False, OLD: False, USED: True, NEW: False,
        }  # fmt: skip
        assert {item.bytes for item in items.values()} == {1000}
        assert items[OLD].age == pytest.approx(31 * 86_400, abs=3600)
        assert [item.folder for item in prune(days=30, dry_run=True)] == [old]
        assert old.exists()
        assert [item.folder for item in prune(days=30)] == [old]
        assert not old.exists()
        assert [item.folder for item in prune()] == [new]
    assert installed.exists()
    assert used.exists()
    assert [item.folder for item in prune(["data"])] == [installed]
    # Somebody else's folder in a cache that MSSHIFT_CACHE put into a project.
    theirs = [fill("data/theirs", 100), fill("embeddings/theirs", 100)]
    assert [item.folder for item in prune(["data", "embeddings"])] == [used]
    assert all(folder.exists() for folder in theirs)
    with pytest.raises(UnknownNameError, match="embeddings"):
        prune(["embedings"])


def test_what_killed_processes_left_is_counted(fill: Fill, tmp_path: Path) -> None:
    (empty,) = look_at_cache()
    assert (empty.found, empty.cure) == (f"0.0 MB in {tmp_path}", "")
    fill(f"embeddings/{OLD}", 1)
    used = fill(f"embeddings/.{USED}.partial", 1)
    fill(f"passages/.{NEW}.partial", 1)
    with hold_folder(used):
        (found,) = look_at_cache()
    assert found.state == "ok"
    assert found.found.endswith(f"in {tmp_path}, 1 of 3 folders left by killed processes")
    assert "msshift cache prune" in found.cure


def test_the_cache_from_the_command_line(fill: Fill, msshift: Command, tmp_path: Path) -> None:
    fill(f"embeddings/{OLD}", 2)
    listed = msshift("cache", "list", MSSHIFT_CACHE=str(tmp_path))
    assert OLD in listed.stdout
    assert "1 folders, 0.0 MB" in listed.stderr
    shown = msshift("cache", "prune", "--dry-run", MSSHIFT_CACHE=str(tmp_path))
    assert "Would be removed" in shown.stdout
    pruned = msshift("cache", "prune", MSSHIFT_CACHE=str(tmp_path))
    assert "Removed" in pruned.stdout
    assert not (tmp_path / "embeddings" / OLD).exists()
    wrong = msshift("cache", "list", "--kind", "pasages", MSSHIFT_CACHE=str(tmp_path))
    assert wrong.returncode == 2
    assert "did you mean 'passages'?" in wrong.stderr
