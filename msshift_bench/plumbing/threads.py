"""Number of processors, and processing of items in threads."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def allowed_processors() -> float:
    """Return the number of processors for this process: the minimum of affinity and cgroup quota.

    The quota of a container can be a fraction.
    """
    if hasattr(os, "sched_getaffinity"):
        count: float = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max"
        return count


def thread_count() -> int:
    """Return the number of threads that can run in parallel, at least 1."""
    return max(1, int(allowed_processors()))


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield lists of `size` items, at least 1, in order; the last may be shorter, none is empty."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def values_by_key(pairs: Iterable[tuple[_Item, _Result]]) -> dict[_Item, list[_Result]]:
    """Return key -> list of values, from (key, value) pairs, in order."""
    values: dict[_Item, list[_Result]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values


def map_in_threads(
    function: Callable[[_Item], _Result], items: Iterable[_Item], most_threads: int | None = None
) -> Iterator[_Result]:
    """Yield the results of a function for items, with one thread per processor.

    Memory is bounded: at most two items per thread are processed at once.

    Args:
        function: the function; it should release Python's global interpreter lock.
        items: the items, streamed in the calling thread.
        most_threads: the maximum number of threads; by default one per processor.

    Yields:
        The results, in the order of the items. An exception of the function is raised in its
        place.
    """
    threads = min(thread_count(), most_threads or sys.maxsize)
    iterator = iter(items)
    begin = list(islice(iterator, 2))
    if len(begin) < 2:  # Starting a thread takes as long as a small item.
        yield from map(function, begin)
        return
    with ThreadPoolExecutor(threads) as pool:
        in_flight: deque[Future[_Result]] = deque()
        for item in chain(begin, iterator):
            in_flight.append(pool.submit(function, item))
            if len(in_flight) == 2 * threads:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()


def slices(total: int, size: int) -> Iterator[slice]:
    """Yield slices of ``range(total)`` with `size` items, at least 1; the last may be shorter."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def in_parallel(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return the results of a function in the order of items, from threads without BLAS threads."""
    # Threads of matrix products would compete with these threads.
    with _libraries().limit(limits=1, user_api="blas"):
        return list(map_in_threads(function, items))


@cache
def _libraries() -> Any:
    """Return the controller of the thread pools of loaded libraries; slow without the cache."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_TRIM_THRESHOLD = (-1, 256 << 20)
_MMAP_THRESHOLD = (-3, 32 << 20)
"""Parameters of glibc's mallopt(3), and their values: bytes."""


def keep_freed_memory() -> None:
    """Let this process keep up to 256 MB of freed memory for later reads.

    By default, glibc returns the memory after every file and requests it again for the next file.
    For many small files, this takes a tenth of the time. Other C libraries have no such setting.
    """
    if sys.platform != "linux":
        return
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            set_option(option, value)
