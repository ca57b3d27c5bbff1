"""Cutting a stream into lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

__all__ = ["batches"]

_Item = TypeVar("_Item")


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield lists of `size` items in the order given; the last may be shorter, none is empty."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
