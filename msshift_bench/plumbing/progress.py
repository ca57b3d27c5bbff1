"""How long work reports its progress, and which of several processes says something at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["Progress", "counted", "duration", "in_line", "is_first", "line_and_stage", "silent"]

_T = TypeVar("_T")

Progress = Callable[[str, int, int], None]
"""Called with ``(stage, done, total)``; the total is 0 if it is not known. Stages that are called
``<line>: <stage>`` follow each other and are shown in one line; see `in_line`."""

_BETWEEN = ": "

_EVERY = 10_000
"""Items between two reports."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""
    del stage, done, total


def counted(
    items: Iterable[_T], progress: Progress, stage: str, total: int = 0, *, every: int = _EVERY
) -> Iterator[_T]:
    """Yield items, and report how many: at the beginning, at times, and at the end.

    Args:
        items: the items.
        progress: called with ``(stage, done, total)``; at the end the total is what there was.
        stage: the stage.
        total: how many there are; 0 if that is not known.
        every: items between two reports.
    """
    progress(stage, 0, total)
    done = 0
    for done, item in enumerate(items, 1):
        yield item
        if done % every == 0:
            progress(stage, done, total)
    progress(stage, done, done)


def in_line(progress: Progress, line: str) -> Progress:
    """Return a function that reports stages as those of one line, e.g. of one model.

    Args:
        progress: called with ``<line>: <stage>`` in place of the stage.
        line: the line's name; it holds no ``": "``.
    """

    def report(stage: str, done: int, total: int) -> None:
        progress(f"{line}{_BETWEEN}{stage}", done, total)

    return report


def line_and_stage(reported: str) -> tuple[str, str]:
    """Return the line of a reported stage, ``""`` if it has none, and the rest of its name."""
    line, _, stage = reported.rpartition(_BETWEEN)
    return line, stage


def is_first() -> bool:
    """Return whether this process searches, writes and speaks; a single process does.

    Launchers of several processes set ``WORLD_SIZE`` and ``RANK``; a ``RANK`` alone is of others.
    """
    several = os.environ.get("WORLD_SIZE", "1") not in ("", "1")
    return not several or os.environ.get("RANK", "0") == "0"


def duration(seconds: float) -> str:
    """Return a length of time to read, e.g. ``45 s``, ``3.5 min``, ``12.0 h`` or ``3.1 days``."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 48 * 3600)):
        if seconds < most:
            return f"{seconds / size:.{int(size > 1)}f} {unit}"
    return f"{seconds / 86_400:,.1f} days"
