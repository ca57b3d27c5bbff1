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


class _Counter:
    """The changes below a folder, and the number of the change at which `kill` is called."""

    def __init__(self, folder: Path, number: int, kill: Callable[[], object]) -> None:
        self.folder, self.number, self.kill = str(folder), number, kill
        self.changes: list[str] = []


_counters: list[_Counter] = []


@cache
def _add_hook() -> None:
    """Add the hook, which Python cannot remove, once."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for counter in _counters:
            if change := change_of(event, arguments, counter.folder):
                counter.changes.append(change)
                if 0 < counter.number <= len(counter.changes):
                    counter.kill()

    sys.addaudithook(hook)


def _raise() -> None:
    raise Killed


@contextmanager
def changes_below(folder: Path, kill_at: int = 0) -> Iterator[list[str]]:
    """Count the changes below the working directory; from one of them on, refuse all with `Killed`.

    So the files are as after a SIGKILL, whatever the program does while the exception passes.

    Args:
        folder: the working directory.
        kill_at: the number of the first change that is refused, from 1; 0 refuses none.

    Yields:
        The changes so far, one line each.
    """
    _add_hook()
    _counters.append(_Counter(folder, kill_at, _raise))
    try:
        yield _counters[-1].changes
    finally:
        _counters.pop()


def sigkilled(act: Callable[[], object], folder: Path, kill_at: int) -> bool:
    """Fork a process for `act`, which a SIGKILL ends at a change; return whether it was killed."""
    process = os.fork()
    if not process:
        _add_hook()
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        _counters.append(_Counter(folder, kill_at, kill))
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
