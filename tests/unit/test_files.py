from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from msshift_bench.errors import UsageError
from msshift_bench.files import replace_folder, write_atomically, write_json


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with write_atomically(path) as file:
        file.write(b"old")
    with pytest.raises(RuntimeError), write_atomically(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_writer_left_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".file.partial").write_bytes(b"a longer remainder")
    with write_atomically(tmp_path / "file") as file:
        file.write(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_two_writers_of_one_target_are_told(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from msshift_bench.errors import UsageError\n"
        "from msshift_bench.files import replace_folder, write_atomically\n"
        "for writer in (replace_folder, write_atomically):\n"
        "    try:\n"
        "        with writer(Path(sys.argv[1]) / writer.__name__): print('wrote')\n"
        "    except UsageError as error: print(error)\n"
    )
    with (
        replace_folder(tmp_path / "replace_folder"),
        write_atomically(tmp_path / "write_atomically"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
        )
    lines = done.stdout.splitlines()
    assert [line.split(" is writing ")[0] for line in lines] == ["another process"] * 2


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with replace_folder(folder) as partial:
        (partial / "a").write_text("1")
    with pytest.raises(RuntimeError), replace_folder(folder) as partial:
        (partial / "b").write_text("2")
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["a"]
    with replace_folder(folder) as partial:
        (partial / "c").write_text("3")
    assert [path.name for path in folder.iterdir()] == ["c"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_kill_between_the_two_renames_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (tmp_path / ".data.previous").mkdir()
    (tmp_path / ".data.previous" / "old").write_text("1")
    (tmp_path / ".data.partial").mkdir()
    (tmp_path / ".data.partial" / "half").write_text("2")
    with pytest.raises(UsageError), replace_folder(folder):
        raise UsageError("stop here")
    assert [path.name for path in folder.iterdir()] == ["old"]


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []
