"""A file is written completely or not at all, by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.cli import main
from msshift_bench.errors import MissingError, NotFoundError, UsageError
from msshift_bench.plumbing.files import (
    check_target,
    link_file,
    write_array,
    write_atomically,
    write_json,
)
from msshift_bench.plumbing.folders import lock_folder, replace_folder


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with write_atomically(path) as file:
        file.write(b"old")
    with pytest.raises(RuntimeError), write_atomically(path) as file:
        file.write(b"new")
        raise RuntimeError
    with pytest.raises(FileNotFoundError, match="/what-is-read'"), write_atomically(path):
        (tmp_path / "what-is-read").read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": float("nan")})
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_the_error_of_an_array_that_does_not_fit_names_the_reason_and_the_file(
    tmp_path: Path,
) -> None:
    """numpy's own error is "384000 requested and 150962 written"."""
    path, before = tmp_path / "vectors.npy", resource.getrlimit(resource.RLIMIT_FSIZE)
    write_array(path, np.arange(3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write_array(path, np.zeros(1 << 16))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert np.load(path).tolist() == [0, 1, 2]
    assert [*tmp_path.iterdir()] == [path]


def test_a_writer_that_opened_before_another_renamed_writes_the_complete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    locking = fcntl.flock

    def lock_late(descriptor: int, kind: int) -> None:
        """Let another writer begin and end between opening and locking."""
        monkeypatch.setattr(fcntl, "flock", locking)
        write_json(path, {"by": "another"})
        locking(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with write_atomically(path) as file:
        assert json.loads(path.read_bytes()) == {"by": "another"}
        file.write(b"1")
    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


WRITERS, WRITES = 4, 30

WRITE_OVER_AND_OVER = """
import os, sys
from pathlib import Path
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import write_json

path, writers, writes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
children = []
for number in range(writers):
    children.append(os.fork())
    if not children[-1]:
        while writes:
            try:
                write_json(path, {"writer": number, "filling": list(range(300))})
            except UsageError as error:
                assert "another process is writing" in str(error)
            else:
                writes -= 1
        os._exit(0)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.extended
def test_readers_never_find_a_half_written_file_of_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"writer": 0, "filling": list(range(300))})
    script = [sys.executable, "-c", WRITE_OVER_AND_OVER, path, str(WRITERS), str(WRITES)]
    with subprocess.Popen(script) as writers:
        while writers.poll() is None:
            assert json.loads(path.read_bytes())["filling"][-1] == 299
    assert writers.returncode == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("there", "not-yet"):
        link = tmp_path / name
        link.symlink_to(Path("elsewhere", name))
        if name == "there":
            link.write_text("old")
        check_target(link)
        write_json(link, [1])
        assert link.is_symlink()
        assert (tmp_path / "elsewhere" / name).read_text() == "[\n 1\n]\n"
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2
    with pytest.raises(FileExistsError):  # It copies only where links are impossible.
        link_file(tmp_path / "there", tmp_path / "not-yet")


def test_only_files_are_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/full")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    kinds = {
        "folder": "a folder", "pipe": "a pipe, a device or a socket",
        "link": "a pipe, a device or a socket", "socket": "a pipe, a device or a socket",
    }  # fmt: skip
    for name, kind in kinds.items():
        for write in (check_target, lambda path: write_json(path, 1)):
            with pytest.raises(UsageError, match=f"{name} is {kind}; give the name of a file"):
                write(tmp_path / name)


@pytest.mark.parametrize("target", ["/dev/stdout", "out"])
def test_the_file_of_stdout_is_not_replaced(tmp_path: Path, target: str) -> None:
    script = f"from msshift_bench.plumbing import *; check_target(Path({target!r}))"
    with (tmp_path / "out").open("wb") as file:
        command = [sys.executable, "-c", f"from pathlib import Path; {script}"]
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, cwd=tmp_path)
    assert f"{target} is the standard output or error of this command" in str(done.stderr)


def test_inputs_and_other_outputs_are_no_targets(tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "my.run"
    data.mkdir()
    run.write_text("1 Q0 a 1 1 t\n")
    (tmp_path / "link").symlink_to(run)
    (tmp_path / "hard").hardlink_to(run)
    for name in ("my.run", "link", "hard"):
        with pytest.raises(UsageError, match=f"{name} is an input and would be overwritten"):
            check_target(tmp_path / name, inputs=[tmp_path / "not-there", run])
    with pytest.raises(UsageError, match=r"is in the input .*data"):
        check_target(data / "new.json", inputs=[data])
    for other in (tmp_path / "x.json", tmp_path / "data" / ".." / "x.json"):
        with pytest.raises(UsageError, match="is given for two outputs"):
            check_target(tmp_path / "x.json", others=[other])
    check_target(tmp_path / "x.json", inputs=[data, run], others=[tmp_path / "y.json"])
    assert run.read_text() == "1 Q0 a 1 1 t\n"
    assert not (tmp_path / "x.json").exists()


def test_a_missing_folder_is_a_typing_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("reprots", "file"):
        with pytest.raises(NotFoundError, match=f"no folder .*{folder} for the output x.json"):
            check_target(tmp_path / folder / "x.json")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_target_is_opened_and_locked_for_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".x.json.partial").write_text("left by a killed process")
    check_target(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="File name too long"):
        check_target(tmp_path / ("x" * 256))
    longest = tmp_path / ("x" * 255)
    check_target(longest)
    write_json(longest, 1)
    assert list(tmp_path.iterdir()) == [longest]
    with write_atomically(tmp_path / "x.json"):
        for write in (check_target, lambda path: write_json(path, 1)):
            with pytest.raises(UsageError, match="another process is writing"):
                write(tmp_path / "x.json")
    with (
        replace_folder(tmp_path / "folder"),
        pytest.raises(UsageError, match="another process is writing"),
        replace_folder(tmp_path / "folder"),
    ):
        pytest.fail("written twice")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PermissionError, match=f"Permission denied: '{longest}'"):
        check_target(longest)


def test_a_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # As on Windows.
    for write in (write_json, lambda path, _: check_target(path)):
        with pytest.raises(MissingError, match="in the Windows Subsystem"):
            write(tmp_path / "file.json", {})
    for hold in (lock_folder, replace_folder):
        with pytest.raises(MissingError, match="locks of Linux and macOS"), hold(tmp_path / "new"):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(sys, "argv", ["msshift", "list"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr().err.startswith("error: msshift needs the file locks")
