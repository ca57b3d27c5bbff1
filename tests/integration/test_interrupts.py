"""Ctrl-C at any moment of a command, from the loading of its modules on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

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


@pytest.mark.extended
def test_an_interrupt_while_modules_are_loaded_is_no_traceback(
    script: Command, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)

    def interrupted(at: int) -> tuple[int, str]:
        done = script("list", PYTHONPATH=str(tmp_path), INTERRUPT_AT=str(at))
        return done.returncode, done.stderr

    assert interrupted(0) == (0, "")
    modules = int((tmp_path / "loaded").read_text())
    assert modules > 100
    for at in (1, 2, *random.Random(0).sample(range(3, modules + 1), 3)):
        code, said = interrupted(at)
        assert code == INTERRUPTED, (at, said)
        assert said.startswith("interrupted"), (at, said)
        assert said.count("\n") == 1, (at, said)
