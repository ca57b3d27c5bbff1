"""The command line, in this process or as the installed console script."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import main

__all__ = ["SCRIPT", "Done", "run_msshift", "run_python", "run_script", "run_source"]

Done = subprocess.CompletedProcess[str]

SCRIPT = Path(sys.executable).with_name("msshift")
"""The installed console script."""

_SECONDS = 300


def run_msshift(
    arguments: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str | None] | None = None,
) -> Done:
    """Call the command line in this process, with streams of its own.

    Exit codes, messages and files are those of the console script. Pipes, signals, import behaviour
    and what the environment changes at the start of Python need `run_script`.

    Args:
        arguments: the words after ``msshift``.
        folder: the working directory.
        environment: variables to set, or with `None` to remove, while the command runs.
    """
    words = ["msshift", *map(str, arguments)]
    return _call(main, words, folder, environment)


def run_source(
    program: str, folder: Path, environment: Mapping[str, str | None] | None = None
) -> Done:
    """Run a Python program in this process, as `run_msshift` calls the command line."""
    code = compile(program, "<program>", "exec")
    return _call(lambda: exec(code, {"__name__": "__main__"}), ["-c"], folder, environment)


def _call(
    act: Callable[[], object],
    words: list[str],
    folder: Path,
    environment: Mapping[str, str | None] | None,
) -> Done:
    changed = {"COLUMNS": "120", **(environment or {})}
    with (
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        CliRunner().isolation(env=changed) as (stdout, stderr, _),
    ):
        # Warnings go to stderr, as in a process of its own, and do not become errors of pytest.
        warnings.simplefilter("default")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        patch.setattr(sys, "argv", words)
        code: object = 0
        try:
            act()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        printed, told = stdout.getvalue().decode(), stderr.getvalue().decode()
    return Done(words, code if isinstance(code, int) else int(code is not None), printed, told)


def run_script(
    arguments: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str | None] | None = None,
) -> Done:
    """Run the installed console script; see `run_msshift` for the arguments."""
    return _run([str(SCRIPT), *map(str, arguments)], folder, environment)


def run_python(
    program: str,
    folder: Path,
    environment: Mapping[str, str | None] | None = None,
    arguments: Sequence[str | Path] = (),
) -> Done:
    """Run a program in a fresh interpreter.

    Args:
        program: its source.
        folder: the working directory.
        environment: variables to set, or with `None` to remove.
        arguments: its arguments, `sys.argv` from 1 on.
    """
    return _run([sys.executable, "-c", program, *map(str, arguments)], folder, environment)


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str | None] | None
) -> Done:
    values = {**os.environ, "COLUMNS": "120", **(environment or {})}
    return subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in values.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
