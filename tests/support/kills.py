"""Kills at a numbered change of the file system: in this process, or of a forked one by SIGKILL."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.support.audited.sitecustomize import change_of

__all__ = ["Killed", "changes_below", "sigkilled"]


class Killed(BaseException):
    """The process would have been killed here."""


_running: list[Callable[[str, tuple[Any, ...]], None]] = []
"""The hooks of the blocks that run now."""


@cache
def _add_hook() -> None:
    """Add an audit hook, which Python cannot remove, once."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for one in _running:
            one(event, arguments)

    sys.addaudithook(hook)


def _raise() -> None:
    raise Killed


@contextmanager
def changes_below(
    folder: Path, kill_at: int = 0, kill: Callable[[], object] = _raise
) -> Iterator[list[str]]:
    """Count the changes below the working directory; call `kill` at each from one of them on.

    So the files are as after a SIGKILL, whatever the program does while `Killed` passes.

    Args:
        folder: the working directory.
        kill_at: the number of the first change that is refused, from 1; 0 refuses none.
        kill: raises an exception, or ends the process.

    Yields:
        The changes so far, one line each.
    """
    changes: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if change := change_of(event, arguments, str(folder)):
            changes.append(change)
            if 0 < kill_at <= len(changes):
                kill()

    _add_hook()
    _running.append(hook)
    try:
        yield changes
    finally:
        _running.remove(hook)


def sigkilled(act: Callable[[], object], folder: Path, kill_at: int) -> bool:
    """Fork a process for `act`, which a SIGKILL ends at a change; return whether it was killed."""
    process = os.fork()
    if not process:
        with changes_below(folder, kill_at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
