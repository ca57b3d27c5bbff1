"""The function by which long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, int, int], None]
"""Called with ``(stage, done, total)``; the total is 0 if it is not known."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""
    del stage, done, total
