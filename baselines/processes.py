"""Several processes that train one model, started by ``accelerate launch`` or torchrun.

The first process does everything, as it would alone. The others only train with it: for each run
they wait for its triples, without a time limit and without using a processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msshift_bench.errors import require
from msshift_bench.plumbing import is_first

__all__ = ["agreed", "is_one_of_several", "process_count", "wait_for"]

_T = TypeVar("_T")

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


def agreed(measure: Callable[[], _T]) -> _T:
    """Return what the first process measures; all processes call this at the same time."""
    if not is_one_of_several():
        return measure()
    values = [measure() if is_first() else None]
    require("torch.distributed", "neural", "training").broadcast_object_list(values, src=0)
    (value,) = values
    assert value is not None
    return value
