"""Ctrl-C at any moment of a command, from the loading of its modules on."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest

from msshift_bench import cli
from msshift_bench.cli import begin
from tests.conftest import Command

INTERRUPTED = 130

HOOK = """
import atexit, os, pathlib, signal, sys
at, loaded = int(os.environ["INTERRUPT_AT"]), 0
# A shell starts what runs in its background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def count(event, arguments):
    global loaded
    if event == "import" and "msshift_bench.__main__" in sys.modules:
        loaded += 1
        if loaded == at:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(count)
atexit.register(lambda: pathlib.Path(__file__).with_name("loaded").write_text(str(loaded)))
"""
"""Sends SIGINT when so many modules have been asked for."""


@pytest.mark.parametrize(("module", "name"), [(begin, "_shift_table"), (cli, "make_app")])
def test_an_interrupted_command_reports_how_to_continue(
    msshift: Command, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    """In its work, and before it: while the tree of commands is made."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    done = msshift("list")
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("interrupted; run the same command again")


def interrupt(script: Command, folder: Path, at: int) -> None:
    """Interrupt `msshift list` while it loads a module."""
    (folder / "sitecustomize.py").write_text(HOOK)
    done = script("list", PYTHONPATH=str(folder), INTERRUPT_AT=str(at))
    assert done.returncode == INTERRUPTED, (at, done.stderr)
    assert done.stderr.startswith("interrupted"), (at, done.stderr)
    assert done.stderr.count("\n") == 1, (at, done.stderr)


def test_an_interrupt_while_modules_are_loaded_is_no_traceback(
    script: Command, tmp_path: Path
) -> None:
    interrupt(script, tmp_path, 60)


@pytest.mark.extended
def test_an_interrupt_at_any_module_is_no_traceback(script: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    done = script("list", PYTHONPATH=str(tmp_path), INTERRUPT_AT="0")
    assert (done.returncode, done.stderr) == (0, "")
    modules = int((tmp_path / "loaded").read_text())
    assert modules > 100
    for at in (1, 2, *random.Random(0).sample(range(3, modules + 1), 3)):
        interrupt(script, tmp_path, at)
