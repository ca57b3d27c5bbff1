"""A writer of a folder and of a file that is killed before every call that changes a name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRITERS = {
    "a folder": """
def write(root):
    with replace_folder(root / "data") as new:
        (new / "one").write_text("new"); (new / "two").write_text("new")
""",
    "a folder with its parents": """
def write(root):
    with replace_folder(root / "data" / "deep" / "deeper") as new:
        (new / "one").write_text("new"); (new / "two").write_text("new")
""",
    "a file": """
def write(root):
    write_json(root / "data" / "one", "new")
""",
}

EVERYWHERE = """
import os, shutil, signal, sys
from pathlib import Path
from msshift_bench.plumbing import write_json
from msshift_bench.plumbing import replace_folder, settle

CALLS = ("rename", "replace", "mkdir", "unlink", "rmdir")

def contents(root):
    return {str(p.relative_to(root)): p.is_file() and p.read_text() for p in root.rglob("*")}

def files(held):
    return {name: text for name, text in held.items() if text and ".partial" not in name}

def fresh(root):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    if OLD:
        (root / "data").mkdir()
        for name in ("one", "two"):
            (root / "data" / name).write_text("old")
    return root

def killed(root, at):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    made = 0
    def counted(call):
        def counting(*arguments, **options):
            nonlocal made
            made += 1
            if made == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)
        return counting
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    write(root)
    os._exit(0)

root = Path(sys.argv[1])
OLD = sys.argv[2] == "old"
before = contents(fresh(root))
write(root)
after = contents(root)
at = 1
while killed(fresh(root), at):
    settle(root / "data")
    # Missing parents are made first, and may be left, empty.
    assert files(contents(root)) in (files(before), files(after)), (at, contents(root))
    write(root)
    assert contents(root) == after, (at, contents(root))
    at += 1
assert at > 2
print(at - 1)
"""


@pytest.mark.parametrize("before", ["old", "nothing"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_kill_before_any_call_is_mended(tmp_path: Path, writer: str, before: str) -> None:
    script = EVERYWHERE.replace("CALLS =", f"{WRITERS[writer]}\nCALLS =")
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "root", before],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2
