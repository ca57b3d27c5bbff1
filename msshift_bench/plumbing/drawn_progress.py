"""Progress on stderr: bars on a terminal; in a log, now and then a line."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msshift_bench.plumbing.progress import Progress, duration, line_and_stage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["ProgressLog", "progress_bars", "shown_log"]

_PAUSE = 10
"""Seconds without a line in a log, at least."""

_SHARE = 0.1
"""The share of the time since the beginning that a log is silent, once that is longer."""

_REFRESH = 0.1
"""Seconds between two updates of a bar."""


@dataclass(slots=True)
class _Pace:
    """How far a stage is, and how fast it goes.

    Attributes:
        stage: its name.
        began: the time of its first report.
        first: how much was done then, perhaps by an earlier process.
        done: how much is done.
        total: how much there is to do; 0 if it is not known.
    """

    stage: str
    began: float
    first: int
    done: int
    total: int

    @property
    def count(self) -> str:
        """How much is done, to read."""
        if not self.total:
            return f"{self.done:,}" if self.done else ""
        return f"{self.done:,}/{self.total:,}"

    def left(self, now: float) -> str:
        """Return the time that is left, to read; ``""`` if nothing is known about it."""
        new = self.done - self.first
        if new <= 0 or self.done >= self.total:
            return ""
        return f"about {duration((now - self.began) / new * (self.total - self.done))} left"


class ProgressLog:
    """Progress as lines: the more rarely, the longer the command has been at work.

    Args:
        write: writes a line.
        clock: returns the time in seconds.
    """

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._began = self._last = clock()
        self._pace: _Pace | None = None

    def tell(self, stage: str, done: int, total: int) -> None:
        """Take a report, and write a line if the last one is old."""
        now = self._clock()
        if self._pace is None or self._pace.stage != stage:
            self._pace = _Pace(stage, now, done, done, total)
        pace = self._pace
        pace.done, pace.total = done, total
        if now - self._last >= max(_PAUSE, _SHARE * (now - self._began)):
            self._last = now
            left = pace.left(now)
            self._write(f"{stage} {pace.count}".rstrip() + (left and f", {left}"))


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Progress]:
    """Show progress on stderr: as bars on a terminal, else as a `ProgressLog`.

    A line of several stages (`plumbing.in_line`) has one bar, which leaves when the line is over.
    Any other stage has a bar of its own.

    Args:
        console: where to draw the bars; stderr by default.
    """
    if console is None and sys.stderr.isatty():
        from rich.console import Console  # takes a tenth of a short command's time

        console = Console(stderr=True)
    if console is not None and console.is_terminal and not console.is_dumb_terminal:
        with _drawn(console) as tell:
            yield tell
    else:
        yield ProgressLog(partial(print, file=sys.stderr, flush=True)).tell


@contextmanager
def _drawn(console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", style="dim"),
    )
    with Progress(*columns, console=console) as bars:
        drawn = _Bars(bars)
        yield drawn.tell
        drawn.end_line()


class _Bars:
    """Bars of rich: one for the current line, and one for each stage that is in no line."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._line = ""
        self._paces: dict[str, tuple[TaskID, _Pace]] = {}
        self._drawn = 0.0

    def tell(self, reported: str, done: int, total: int) -> None:
        """Take a report, and draw it unless something was drawn just before."""
        now = time.monotonic()
        line, _ = line_and_stage(reported)
        if line != self._line:
            self.end_line()
            self._line = line
        key = line or reported
        if key not in self._paces:
            task = self._bars.add_task(reported, count="", left="")
            self._paces[key] = task, _Pace("", now, 0, 0, 0)
        task, pace = self._paces[key]
        is_new = pace.stage != reported
        if is_new:
            pace = _Pace(reported, now, done, done, total)
            self._paces[key] = task, pace
            self._bars.reset(task, description=reported, count="", left="")
        elif now - self._drawn < _REFRESH and done != total:
            return
        pace.done, pace.total, self._drawn = done, total, now
        left = pace.left(now)
        self._bars.update(
            task, completed=done, total=total or None, count=pace.count, left=left, refresh=is_new
        )

    def end_line(self) -> None:
        """Remove the bar of the current line, if there is one."""
        if self._line:
            task, _ = self._paces.pop(self._line)
            self._bars.remove_task(task)


@contextmanager
def shown_log(*modules: str) -> Iterator[None]:
    """Show on stderr, above the bars, what modules of the package tell the log.

    Args:
        modules: their names, or those of rooms, e.g. ``baselines.systems``.
    """
    handler = logging.StreamHandler()
    loggers = [logging.getLogger(f"msshift_bench.{module}") for module in modules]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
