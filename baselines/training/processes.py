"""Several processes that train one model, started by ``accelerate launch`` or torchrun.

The first process does everything, as it would alone. The others only train with it: for each run
they wait for its triples, without a time limit and without using a processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["is_one_of_several", "process_count", "wait_for"]

_PAUSE = 0.5
"""Seconds between two checks."""


def process_count() -> int:
    """Return how many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_one_of_several() -> bool:
    """Return whether other processes train with this one."""
    return process_count() > 1


def wait_for(path: Path, is_over: Callable[[], bool]) -> bool:
    """Wait until the first process has made a file or folder.

    Args:
        path: the file or folder.
        is_over: returns whether it will not appear any more.

    Returns:
        Whether it appeared.
    """
    while not path.exists():
        if is_over():
            return False
        time.sleep(_PAUSE)
    return True
