"""A folder is replaced as one, by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from msshift_bench.data.dataset import find_dataset_folder
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import folders
from msshift_bench.plumbing.folders import (
    check_contents,
    check_folder,
    clean_up,
    copy_files,
    is_locked,
    lock_folder,
    lock_unfinished,
    remove_folder,
    replace_folder,
)


def write(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def leave_between_the_renames(folder: Path) -> None:
    """Write the files of a process that was killed between its two renames."""
    work = folder.with_name(f".{folder.name}.partial")
    write(work / "old", "old")
    write(work / "new", "new")


def test_a_folder_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with replace_folder(folder) as partial:
        write(partial, "a")
    with pytest.raises(RuntimeError), replace_folder(folder) as partial:
        write(partial, "b")
        raise RuntimeError
    assert names(folder) == ["a"]
    with replace_folder(folder) as partial:
        write(partial, "c")
    assert (names(folder), names(tmp_path)) == (["c"], ["data"])


def test_missing_parents_are_made_first(tmp_path: Path) -> None:
    folder = tmp_path / "board" / "system" / "v1"
    check_folder(folder)
    assert names(tmp_path) == []
    with replace_folder(folder) as partial:
        write(partial, "a")
        assert names(folder.parent) == [".v1.partial"]
    assert names(tmp_path) == ["board"]
    assert names(folder) == ["a"]


def test_a_reader_waits_for_a_writer_between_its_renames(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    leave_between_the_renames(folder)
    work = tmp_path / ".data.partial"
    reader = threading.Thread(target=find_dataset_folder, args=(folder,))
    with lock_folder(work):
        reader.start()
        (work / "new").rename(folder)
        reader.join()
    assert names(folder) == ["new"]


def test_a_reader_waits_for_a_limited_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_CHECKS", 2)
    leave_between_the_renames(tmp_path / "data")
    with (
        lock_folder(tmp_path / ".data.partial"),
        pytest.raises(UsageError, match="another process is writing"),
    ):
        clean_up(tmp_path / "data")
    assert names(tmp_path / ".data.partial") == ["new", "old"]


@pytest.mark.parametrize("failing", [("new",), ("new", "old")])
def test_the_old_folder_stays_if_the_new_one_cannot_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "data", "old")
    renaming = os.rename

    def rename(source: Path, target: Path) -> None:
        if Path(source).name in failing:
            raise OSError(28, "No space left on device")
        renaming(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="No space left"), replace_folder(folder) as partial:
        write(partial, "new")
    assert names(tmp_path) == [".data.partial" if "old" in failing else "data"]
    monkeypatch.undo()
    clean_up(folder)
    assert names(tmp_path) == ["data"]
    assert names(folder) == ["old"]


def test_the_target_of_a_link_is_replaced_and_only_the_link_is_removed(tmp_path: Path) -> None:
    write(tmp_path / "disk" / "data", "old")
    link = tmp_path / "data"
    link.symlink_to(Path("disk", "data"))
    with replace_folder(link) as partial:
        write(partial, "new")
    assert link.is_symlink()
    assert names(tmp_path / "disk" / "data") == ["new"]
    remove_folder(link)
    assert (names(tmp_path), names(tmp_path / "disk")) == (["disk"], ["data"])


def test_a_reader_does_not_wait_for_files_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only disk."""
    write(tmp_path / ".data.partial", "left by a killed process")
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    monkeypatch.setattr(time, "sleep", pytest.fail)
    clean_up(tmp_path / "data")
    assert names(tmp_path) == [".data.partial"]


def test_a_file_and_the_root_of_a_file_system_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"), replace_folder(tmp_path / "file"):
        pass
    assert names(tmp_path) == ["file"]
    with pytest.raises(UsageError, match="is a file"), replace_folder(tmp_path / "new"):
        (tmp_path / "new").touch()  # by another process
    assert names(tmp_path) == ["file", "new"]
    root = Path("/")
    clean_up(root)
    with pytest.raises(UsageError, match="/ is the root of the file system"):
        check_folder(root)
    with pytest.raises(UsageError, match="/ is the root of the file system"), replace_folder(root):
        pytest.fail("replaced")


@pytest.mark.extended
def test_processes_that_remove_and_make_a_folder_again_hold_it_one_at_a_time(
    tmp_path: Path,
) -> None:
    """A process that opened the folder before its removal does not hold the new folder."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from msshift_bench.errors import UsageError\n"
        "from msshift_bench.plumbing.folders import lock_folder\n"
        "folder, inside = Path(sys.argv[1]), Path(sys.argv[1], 'inside')\n"
        "others = [os.fork() for _ in range(2)]\n"
        "done = 0\n"
        "while done < 50:\n"
        "    try:\n"
        "        with lock_folder(folder):\n"
        "            inside.mkdir(); inside.rmdir(); folder.rmdir(); done += 1\n"
        "    except UsageError: pass\n"
        "if 0 in others: os._exit(0)\n"
        "assert [os.waitpid(one, 0)[1] for one in others] == [0, 0]\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "held"], check=True)


def test_a_folder_that_is_made_again_before_it_is_locked_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock, late = tmp_path / "held", fcntl.flock, []

    def lock_late(descriptor: int, kind: int) -> None:
        if not late:
            late.append(folder.rmdir())
            folder.mkdir()
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with lock_folder(folder):
        assert late == [None]
        assert is_locked(folder)
    assert not is_locked(folder)


def test_a_folder_is_renamed_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "data", "a")
    left = write(tmp_path / ".data.partial", "left by a killed process")
    removing, seen = shutil.rmtree, []

    def remove(path: Path) -> None:
        seen.append((path.name, folder.exists()))
        removing(path)

    monkeypatch.setattr(shutil, "rmtree", remove)
    remove_folder(folder)
    assert seen == [(left.name, True), (left.name, False)]
    assert names(tmp_path) == []
    remove_folder(write(left, "a"))
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), lock_folder(tmp_path / "file"):
        pass
    with pytest.raises(FileNotFoundError), replace_folder(Path("/proc/x")):
        pass


@pytest.mark.parametrize(
    ("present", "foreign"),
    [
        ("", ""), ("mark part", ""), ("mark", ""),
        ("part", "part"), ("thesis.tex", "thesis.tex"), ("mark .git", ".git"),
    ],
)  # fmt: skip
def test_a_folder_with_other_files_is_not_replaced(
    tmp_path: Path, present: str, foreign: str
) -> None:
    folder, message = (
        write(tmp_path / "site", *present.split()),
        f"contains {foreign}, which is not part",
    )
    with pytest.raises(UsageError, match=message) if foreign else nullcontext():
        check_contents(folder, "mark", ("mark", "part"), "the page")
    assert names(folder) == sorted(present.split())


def test_files_are_copied_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "source", "a", "b")
    write(source / "deep", "c")
    copy_files(source, tmp_path / "target")
    assert names(tmp_path / "target") == ["a", "b", "deep"]
    assert names(tmp_path / "target" / "deep") == ["c"]

    def copyfile(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    with pytest.raises(OSError, match="No space left") as raised:
        copy_files(source, tmp_path / "other")
    assert raised.value.filename == str(tmp_path / "other" / "a")


def test_two_processes_may_check_a_folder_for_their_files_at_once(tmp_path: Path) -> None:
    """As the processes of one training do, and others that write run sets to the same folder."""
    for folder, written in ((tmp_path, tmp_path / "new"), (tmp_path / "runs", tmp_path / "runs")):
        work = tmp_path / f".{written.name}.partial"
        with lock_folder(work):
            check_folder(folder, inside=True)
            with pytest.raises(UsageError, match="another process is writing"):
                check_folder(written)
        work.rmdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is a file"):
        check_folder(tmp_path / "file", inside=True)


def test_the_working_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = write(tmp_path / "a" / "b", "kept")
    monkeypatch.chdir(here)
    for folder in (Path(), here, tmp_path / "a"):
        with pytest.raises(UsageError, match="contains the working directory"):
            check_folder(folder)
        with pytest.raises(UsageError, match="contains the working dir"), replace_folder(folder):
            pytest.fail("replaced")
    check_folder(Path(), inside=True)
    with replace_folder(Path("new")) as new:
        write(new, "x")
    assert names(here) == ["kept", "new"]
    # A working directory that was removed meanwhile does not matter.
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with replace_folder(tmp_path / "a") as new:
        write(new, "y")
    assert names(tmp_path / "a") == ["y"]


def test_unfinished_work_stays_until_it_is_finished(tmp_path: Path) -> None:
    work = tmp_path / "a" / "b" / "work"
    with pytest.raises(ValueError, match="nothing yet"), lock_unfinished(work, empty_parents=1):
        raise ValueError("nothing yet")
    assert names(tmp_path / "a") == []
    with pytest.raises(ValueError, match="half"), lock_unfinished(work, empty_parents=1):
        write(work, "half")
        raise ValueError("half")
    assert names(work) == ["half"]
    with (
        lock_unfinished(work),
        pytest.raises(UsageError, match="another process is writing the run"),
        lock_unfinished(work, Path("the run")),
    ):
        pytest.fail("held twice")
    assert names(tmp_path / "a" / "b") == []
    write(tmp_path / "a", "something else")
    with lock_unfinished(work, empty_parents=3):
        write(work, "half")
    assert names(tmp_path / "a") == ["something else"]
