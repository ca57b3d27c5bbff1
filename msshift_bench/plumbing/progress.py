"""How long work says how far it is."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, int, int], None]
"""Told ``(stage, done, total)``; the total is 0 where it is not known."""


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
    del stage, done, total
