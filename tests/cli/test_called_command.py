from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from typer import Typer
from typer.main import get_command

from msshift_bench import __main__
from msshift_bench.cli import app, make_app


def names(made: Typer) -> list[str]:
    return list(get_command(made).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("word", ["evaluate", "list", "leaderboard", "", "--help", "evaluat"])
def test_only_commands_that_may_be_called_are_made(word: str) -> None:
    assert len(names(app)) > 20
    assert names(make_app(word)) == ([word] if word in names(app) else names(app))


def test_a_start_sets_what_loading_modules_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    before = gc.get_threshold()
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)

    def run() -> None:
        seen.append((gc.get_threshold()[0], os.environ["OPENBLAS_THREAD_TIMEOUT"]))
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")  # the user's own value stays

    monkeypatch.setattr("msshift_bench.cli.main", run)
    try:
        __main__.main()
        __main__.main()
        assert gc.get_freeze_count()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert seen == [(10_000, "16"), (10_000, "20")]


ENDS = """
import atexit, sys, threading, time
from msshift_bench import __main__, cli

class Held:
    def __del__(self):
        print("finalized")

def work():
    sys.modules["held"] = Held()
    atexit.register(print, "exit function")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    {end}

cli.main = work
__main__.command()
"""


@pytest.mark.parametrize(
    ("end", "code", "errors"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        pytest.param("sys.exit('why')", 1, "why\n", marks=pytest.mark.extended),
        pytest.param("sys.exit()", 0, "", marks=pytest.mark.extended),
    ],
)
def test_the_process_ends_with_its_threads_and_exit_functions_and_no_finalization(
    end: str, code: int, errors: str
) -> None:
    program = [sys.executable, "-c", ENDS.format(end=end)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "thread\nexit function\n", errors)


def test_the_console_script_ends_the_process_so() -> None:
    (script,) = entry_points(group="console_scripts", name="msshift")
    assert script.load() is __main__.command
