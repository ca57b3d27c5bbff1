"""Count the changes of the file system that a Python process makes; kill it at one of them.

Python imports this module at its start if its folder is in ``PYTHONPATH``. Each audit event that
makes, renames, removes or opens for writing a name below the working directory is a change. The
variable ``CHANGES_LOG`` names the file that gets a line for each change, ``KILL_AT`` the number of
the change, from 1, before which the process ends by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["audited_environment", "change_of"]

_EVENTS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink"}
"""The audit events of functions that change a name; `os.replace` has that of `os.rename`."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def change_of(event: str, arguments: tuple[Any, ...], folder: str) -> str:
    """Return a change below a folder as one line, e.g. ``os.rename a b``; "" for other events.

    A path that is relative to a descriptor, as `shutil.rmtree` uses them, counts as one below it.
    """
    is_open = event == "open"
    if event not in _EVENTS and not (is_open and (arguments[2] or 0) & _WRITES):
        return ""
    is_pair = event in ("os.rename", "os.link", "os.symlink")
    names = [os.fsdecode(one) for one in arguments[: 1 + is_pair] if not isinstance(one, int)]
    if not names or not os.path.abspath(names[-1]).startswith(folder + os.sep):  # noqa: PTH100
        return ""
    return " ".join([event, *names])


def audited_environment(log: Path, kill_at: int = 0) -> Mapping[str, str]:
    """Return the variables that let a Python process log its changes, and kill it at one of them.

    Args:
        log: the file for the changes.
        kill_at: the number of the change, from 1; 0 lets the process end.
    """
    folder = str(Path(__file__).parent)
    names = {"CHANGES_LOG": str(log), "KILL_AT": str(kill_at), "PYTHONPATH": folder}
    # The bytecode that Python writes would count.
    return {**names, "PYTHONDONTWRITEBYTECODE": "1"}


def _hook(log: str, kill_at: int) -> Callable[[str, tuple[Any, ...]], None]:
    folder, count = str(Path.cwd()), 0
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        change = change_of(event, arguments, folder)
        if change:
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(file, f"{change}\n".encode(errors="backslashreplace"))

    return hook


if "CHANGES_LOG" in os.environ:
    sys.addaudithook(_hook(os.environ["CHANGES_LOG"], int(os.environ["KILL_AT"])))
