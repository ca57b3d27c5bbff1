"""Progress of long computations: bars on a terminal, else lines of a log.

`silence_libraries` hides the output of libraries.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as Bars, TaskID

_T = TypeVar("_T")
_Part = TypeVar("_Part", bound=Sized)

Progress = Callable[[str, int, int], None]
"""Function of ``(stage, done, total)``; the total is 0 if unknown. Successive stages named
``<line>: <stage>`` are shown in one line; see `progress_line`."""

_BETWEEN = ": "

_EVERY = 10_000
"""Number of items between two reports."""

# With a context variable, functions need no parameter for the listener. Threads of a pool have a
# context without listener: only the thread that waits for them reports.
_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


def report_progress(stage: str, done: int, total: int) -> None:
    """Report the progress of a stage to the listener (`reporting`, `progress_bars`), if any.

    Args:
        stage: the name of the stage.
        done: the number of items that are done.
        total: the total number; 0 if unknown.
    """
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def reporting(listener: Progress | None) -> Iterator[None]:
    """Context in which a function receives progress; an inner context replaces an outer one.

    Args:
        listener: called with ``(stage, done, total)``, in the thread of this context; `None` for no
            reports.

    Example:
        >>> with reporting(print):
        ...     passages = list(counted("ab", "passages", 2))
        passages 0 2
        passages 2 2
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def counted(
    items: Iterable[_T], stage: str, total: int = 0, *, every: int = _EVERY
) -> Iterator[_T]:
    """Yield items, and report their number at the beginning, at intervals and at the end.

    Args:
        items: the items.
        stage: the name of the stage; ``""`` for no reports.
        total: the number of items; 0 if unknown. The last report has the actual number.
        every: number of items between two reports, at least 1.
    """
    if not stage:
        yield from items
        return
    report_progress(stage, 0, total)
    done = 0
    for done, item in enumerate(items, 1):
        yield item
        if done % every == 0:
            report_progress(stage, done, total)
    report_progress(stage, done, done)


def counted_parts(parts: Iterable[_Part], stage: str, total: int) -> Iterator[_Part]:
    """Yield parts, and report after each part the number of items so far.

    Args:
        parts: parts with a length, e.g. batches of queries.
        stage: the name of the stage.
        total: the number of items of all parts.
    """
    done = 0
    for part in parts:
        yield part
        done += len(part)
        report_progress(stage, done, total)


@contextmanager
def progress_line(line: str) -> Iterator[None]:
    """Context in which all stages, e.g. of one model, are reported in one line.

    Args:
        line: the line's name, without ``": "``.
    """
    listener = _listener.get()

    def report(stage: str, done: int, total: int) -> None:
        if listener is not None:
            listener(f"{line}{_BETWEEN}{stage}", done, total)

    with reporting(report):
        yield


def line_and_stage(reported: str) -> tuple[str, str]:
    """Return the line of a reported stage (``""`` without line) and the rest of its name."""
    line, between, stage = reported.partition(_BETWEEN)
    return (line, stage) if between else ("", reported)


def duration(seconds: float) -> str:
    """Return a duration as text, e.g. ``45 s``, ``3.5 min``, ``12.0 h`` or ``3.1 days``."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 48 * 3600)):
        if seconds < most:
            return f"{seconds / size:.{int(size > 1)}f} {unit}"
    return f"{seconds / 86_400:,.1f} days"


_PAUSE = 10
"""Minimum number of seconds between two lines of a log."""

_REFRESH = 0.1
"""Seconds between two updates of a bar, as in rich; reports can be more frequent."""

_SHARE = 0.1
"""Minimum interval between two lines of a log, as a share of the time so far."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """The first report of a stage: its time in seconds, and the items done, e.g. before a kill."""

    name: str
    began: float
    first: int

    def count_and_left(self, done: int, total: int, now: float) -> tuple[str, str]:
        """Return the number done and the remaining time as texts; each is ``""`` if unknown."""
        count = f"{done:,}/{total:,}" if total else f"{done:,}"
        if not self.first < done < total:
            return count if done or total else "", ""
        seconds = (now - self.began) / (done - self.first) * (total - done)
        return count, f"about {duration(seconds)} left"


class ProgressLog:
    """Progress as lines of a log; the longer a command runs, the fewer lines are written.

    Args:
        write: function that writes a line.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._began = self._last = clock()
        self._stage = _Stage("", self._began, 0)

    def write_progress(self, stage: str, done: int, total: int) -> None:
        """Write a line, unless the last is newer than 10 s, or than a tenth of the time so far."""
        now = self._clock()
        if self._stage.name != stage:
            self._stage = _Stage(stage, now, done)
        if now - self._last >= max(_PAUSE, _SHARE * (now - self._began)):
            self._last = now
            count, left = self._stage.count_and_left(done, total, now)
            self._write(f"{stage} {count}".rstrip() + (left and f", {left}"))


@contextmanager
def progress_bars() -> Iterator[None]:
    """Context that shows progress on stderr: bars on a terminal, else a `ProgressLog`.

    A line of several stages (`progress_line`) has one bar, removed at the end of the line. Every
    other stage has a separate bar.
    """
    console = None
    if sys.stderr.isatty():
        from rich.console import Console  # slow: a tenth of the time of a short command

        console = Console(stderr=True)
    if console is None or not console.is_terminal or console.is_dumb_terminal:
        with reporting(ProgressLog(partial(print, file=sys.stderr, flush=True)).write_progress):
            yield
        return
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
        with reporting(drawn.write_progress):
            yield
        drawn.end_line()


class _Bars:
    """Bars of rich: one for the current line, and one for each stage outside lines."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._lock = threading.RLock()  # Reports of other processes arrive in a thread.
        self._line, self._drawn = "", 0.0
        self._stages: dict[str, tuple[TaskID, _Stage]] = {}

    def write_progress(self, reported: str, done: int, total: int) -> None:
        """Update the bar for a report: for a new stage immediately, otherwise at intervals."""
        with self._lock:
            now, (line, _) = time.monotonic(), line_and_stage(reported)
            if line != self._line:
                self.end_line()
                self._line = line
            key = line or reported
            if key not in self._stages:
                task = self._bars.add_task(reported, count="", left="")
                self._stages[key] = task, _Stage("", now, 0)
            task, current = self._stages[key]
            if current.name != reported:
                current = _Stage(reported, now, done)
                self._stages[key] = task, current
                self._bars.reset(task, description=reported)
            elif now - self._drawn < _REFRESH and done != total:
                return
            self._drawn = now
            count, left = current.count_and_left(done, total, now)
            is_new = done == current.first
            self._bars.update(
                task, completed=done, total=total or None, count=count, left=left, refresh=is_new
            )

    def end_line(self) -> None:
        if self._line:
            task, _ = self._stages.pop(self._line)
            self._bars.remove_task(task)


@contextmanager
def shown_log(*modules: str) -> Iterator[None]:
    """Context that shows the package's log messages, from INFO, on stderr above the bars.

    Args:
        modules: names of modules or packages below `msshift_bench`, e.g. ``baselines.systems``.
    """
    handler = logging.StreamHandler()
    with ExitStack() as afterwards:
        for module in modules:
            logger = logging.getLogger(f"msshift_bench.{module}")
            afterwards.callback(logger.setLevel, logger.level)
            afterwards.callback(logger.removeHandler, handler)
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
        yield


@contextmanager
def silence_libraries(*libraries: ModuleType) -> Iterator[None]:
    """Context that hides the progress bars and messages of libraries.

    Args:
        libraries: the modules ``datasets``, whose progress bars are hidden, or ``transformers``,
            whose progress bars are hidden; only errors of it and of sentence_transformers are
            shown.
    """
    logger = logging.getLogger("sentence_transformers")
    with ExitStack() as afterwards:
        for library in libraries:
            if library.__name__ == "datasets":
                if not library.are_progress_bars_disabled():
                    library.disable_progress_bars()
                    afterwards.callback(library.enable_progress_bars)
                continue
            settings = library.utils.logging
            if settings.is_progress_bar_enabled():
                settings.disable_progress_bar()
                afterwards.callback(settings.enable_progress_bar)
            afterwards.callback(settings.set_verbosity, settings.get_verbosity())
            settings.set_verbosity_error()
            afterwards.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
