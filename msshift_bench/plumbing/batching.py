"""Cutting a stream into lists, and working on several of them at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["batches", "map_batches"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield lists of `size` items in the order given; the last may be shorter, none is empty."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def map_batches(
    function: Callable[[list[_Item]], _Result], items: Iterable[_Item], size: int
) -> Iterator[_Result]:
    """Apply a function to lists of `size` items, one thread per processor.

    Memory is bounded: at most two lists per processor are in flight.

    Args:
        function: what to do with a list; it should spend its time outside Python's lock.
        items: streamed, in the calling thread.
        size: items per list; the last may be shorter.

    Yields:
        What the function returns, in the order of the items.
    """
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        in_flight: deque[Future[_Result]] = deque()
        for batch in batches(items, size):
            in_flight.append(pool.submit(function, batch))
            if len(in_flight) == 2 * threads:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()
