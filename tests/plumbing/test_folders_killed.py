"""Every writer of files and folders, killed before each of its changes of the file system."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.plumbing import (
    clean_up,
    copy_files,
    lock_unfinished,
    remove_folder,
    replace_folder,
    write_array,
    write_json,
    write_parquet,
)
from tests.conftest import REPOSITORY
from tests.support.command_line import run_python
from tests.support.file_bytes import file_bytes
from tests.support.kills import Killed, changes_below


def write_folder(root: Path, name: str = "data") -> None:
    with replace_folder(root / name) as new:
        (new / "one").write_text("new")
        (new / "two").write_text("new")


def write_in_parts(root: Path) -> None:
    """Write parts into a folder of unfinished work, and then the folder, as `add_triples` does."""
    work = root / ".data.work"
    with lock_unfinished(work):
        for name in ("one", "two"):
            if not (work / name).exists():
                write_json(work / name, name)
        with replace_folder(root / "data") as new:
            copy_files(work, new)


def remove(root: Path) -> None:
    if (root / "data").exists():
        remove_folder(root / "data")


WRITERS: dict[str, Callable[[Path], object]] = {
    "a folder": write_folder,
    "a folder with its parents": partial(write_folder, name="data/deep/deeper"),
    "a folder in parts": write_in_parts,
    "a removed folder": remove,
    "a JSON file": lambda root: write_json(root / "data" / "one", "new"),
    "an array": lambda root: write_array(root / "data" / "one", np.arange(9)),
    "a Parquet file": lambda root: write_parquet(root / "data" / "one", pa.table({"a": [1]})),
}

MODULE = "tests.plumbing.test_folders_killed"
"""The name of this module for another process."""

Kill = Callable[[Callable[[], object], Path, int], bool]


def kill_here(act: Callable[[], object], folder: Path, number: int) -> bool:
    try:
        with changes_below(folder, number):
            act()
    except Killed:
        return True
    return False


def kill_everywhere(writer: str, root: Path, kill: Kill, *, is_over: bool) -> int:
    """Kill a writer at each of its changes in turn; return how many changes there are.

    Args:
        writer: a name in `WRITERS`.
        root: the folder that it gets.
        kill: runs a function, kills it at a change, and returns whether it was killed.
        is_over: whether an earlier writer left files.
    """

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        (root / "data" if is_over else root).mkdir(parents=True)
        for name in ("one", "two") if is_over else ():
            (root / "data" / name).write_text("old")

    def final_files() -> dict[str, bytes]:
        files = file_bytes(root).items()
        return {name: content for name, content in files if not name.startswith(".")}

    prepare()
    before = final_files()
    WRITERS[writer](root)
    after, number = file_bytes(root), 1
    assert after == final_files()
    while True:
        prepare()
        if not kill(lambda: WRITERS[writer](root), root, number):
            return number - 1
        clean_up(root / "data")
        found = {name: one for name, one in final_files().items() if ".partial" not in name}
        assert found in (before, after), (number, found)
        WRITERS[writer](root)
        assert file_bytes(root) == after, number
        number += 1


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("writer", WRITERS)
def test_the_call_after_a_kill_leaves_the_files_of_a_call_without_a_kill(
    writer: str, is_over: bool, tmp_path: Path
) -> None:
    changes = kill_everywhere(writer, tmp_path / "root", kill_here, is_over=is_over)
    assert changes >= (2 if is_over or writer != "a removed folder" else 0)


@pytest.mark.extended
def test_a_sigkill_is_at_the_same_changes_as_a_kill_in_this_process(tmp_path: Path) -> None:
    """A fresh interpreter forks the processes: this one has threads of libraries."""
    program = (
        f"import sys; from pathlib import Path; from {MODULE} import WRITERS, kill_everywhere\n"
        "from tests.support.kills import sigkilled\n"
        "for writer in WRITERS:\n"
        "    print(kill_everywhere(writer, Path(sys.argv[1]), sigkilled, is_over=True))"
    )
    environment = {"PYTHONPATH": str(REPOSITORY)}
    done = run_python(program, tmp_path, environment, [tmp_path / "there"])
    assert done.returncode == 0, done.stderr
    here = [kill_everywhere(one, tmp_path / "here", kill_here, is_over=True) for one in WRITERS]
    assert [int(line) for line in done.stdout.split()] == here


def test_a_writer_of_half_a_file_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_directly(root: Path) -> None:
        (root / "data" / "one").unlink(missing_ok=True)
        (root / "data" / "one").write_text("new")

    monkeypatch.setitem(WRITERS, "a careless writer", write_directly)
    with pytest.raises(AssertionError, match="two"):
        kill_everywhere("a careless writer", tmp_path / "root", kill_here, is_over=True)
