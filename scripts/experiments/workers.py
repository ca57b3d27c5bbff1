"""Processes that train side by side, and end when the one that started them does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process

__all__ = ["workers"]

_ORPHANED = 1
"""The exit code of a process whose parent has ended."""


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that start from nothing, so that torch finds no threads of another.

    What was given to them and has not begun is left undone if the block raises. If this process is
    killed, they end at once: nobody would collect what they make.

    Args:
        count: how many.
    """
    with ProcessPoolExecutor(count, get_context("spawn"), _end_with_parent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """Watch the parent from a thread: a worker that waits for its next task would wait for ever."""
    threading.Thread(target=_watch, name="watch the parent", daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(_ORPHANED)
