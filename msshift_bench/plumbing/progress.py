"""How long work reports its progress: as bars on a terminal, else as lines of a log.

What libraries say beside it is hidden by `quieten`.
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
"""Called with ``(stage, done, total)``; the total is 0 if it is not known. Stages that are called
``<line>: <stage>`` follow each other and are shown in one line; see `in_line`."""

_BETWEEN = ": "

_EVERY = 10_000
"""Items between two reports."""

# Work of any depth reports here, so that no function passes a reporter on. A thread of a pool has
# a context of its own, in which nobody listens: the thread that waits for it reports.
_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


def report_progress(stage: str, done: int, total: int) -> None:
    """Report how far a stage is to whoever listens (`reporting`, `progress_bars`).

    Args:
        stage: its name.
        done: how much is done.
        total: how much there is to do; 0 if that is not known.
    """
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def reporting(listener: Progress | None) -> Iterator[None]:
    """Let a function listen to the progress of what is done inside.

    Args:
        listener: called with ``(stage, done, total)``, in the thread that entered; `None` for
            nobody.

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
    """Yield items, and report how many: at the beginning, at times, and at the end.

    Args:
        items: the items.
        stage: the stage; ``""`` is not reported.
        total: how many there are; 0 if that is not known. The last report has what there was.
        every: items between two reports.
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
    """Yield parts, and report after each how many items all parts so far have.

    Args:
        parts: e.g. batches of queries.
        stage: the stage.
        total: the items of all parts.
    """
    done = 0
    for part in parts:
        yield part
        done += len(part)
        report_progress(stage, done, total)


@contextmanager
def in_line(line: str) -> Iterator[None]:
    """Report the stages of what is done inside as those of one line, e.g. of one model.

    Args:
        line: the line's name; it holds no ``": "``.
    """
    listener = _listener.get()

    def report(stage: str, done: int, total: int) -> None:
        if listener is not None:
            listener(f"{line}{_BETWEEN}{stage}", done, total)

    with reporting(report):
        yield


def line_and_stage(reported: str) -> tuple[str, str]:
    """Return the line of a reported stage, ``""`` if it has none, and the rest of its name."""
    line, between, stage = reported.partition(_BETWEEN)
    return (line, stage) if between else ("", reported)


def duration(seconds: float) -> str:
    """Return a length of time to read, e.g. ``45 s``, ``3.5 min``, ``12.0 h`` or ``3.1 days``."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 48 * 3600)):
        if seconds < most:
            return f"{seconds / size:.{int(size > 1)}f} {unit}"
    return f"{seconds / 86_400:,.1f} days"


_PAUSE = 10
"""Seconds without a line in a log, at least."""

_MOMENT = 0.1
"""Seconds between two drawings of a bar: rich draws no oftener, and a report a query is a line."""

_SHARE = 0.1
"""The share of the time since the beginning that a log is silent, once that is longer."""


@dataclass(frozen=True, slots=True)
class _Pace:
    """How fast a stage goes.

    Attributes:
        stage: its name.
        began: the time of its first report.
        first: how much was done then, perhaps by an earlier process.
    """

    stage: str
    began: float
    first: int

    def count_and_left(self, done: int, total: int, now: float) -> tuple[str, str]:
        """Return how much is done, and the time that is left, to read; ``""`` if it is not known.

        Args:
            done: how much is done.
            total: how much there is to do; 0 if it is not known.
            now: the time.
        """
        count = f"{done:,}/{total:,}" if total else f"{done:,}"
        if not self.first < done < total:
            return count if done or total else "", ""
        seconds = (now - self.began) / (done - self.first) * (total - done)
        return count, f"about {duration(seconds)} left"


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
        self._pace = _Pace("", self._began, 0)

    def tell(self, stage: str, done: int, total: int) -> None:
        """Take a report, and write a line if the last one is old."""
        now = self._clock()
        if self._pace.stage != stage:
            self._pace = _Pace(stage, now, done)
        if now - self._last >= max(_PAUSE, _SHARE * (now - self._began)):
            self._last = now
            count, left = self._pace.count_and_left(done, total, now)
            self._write(f"{stage} {count}".rstrip() + (left and f", {left}"))


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show the progress of what is done inside on stderr: bars on a terminal, else a `ProgressLog`.

    A line of several stages (`plumbing.in_line`) has one bar, which leaves when the line is over.
    Any other stage has a bar of its own.
    """
    console = None
    if sys.stderr.isatty():
        from rich.console import Console  # takes a tenth of a short command's time

        console = Console(stderr=True)
    if console is None or not console.is_terminal or console.is_dumb_terminal:
        with reporting(ProgressLog(partial(print, file=sys.stderr, flush=True)).tell):
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
        with reporting(drawn.tell):
            yield
        drawn.end_line()


class _Bars:
    """Bars of rich: one for the current line, and one for each stage that is in no line."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._lock = threading.RLock()  # A thread hears what other processes report.
        self._line, self._drawn = "", 0.0
        self._paces: dict[str, tuple[TaskID, _Pace]] = {}

    def tell(self, reported: str, done: int, total: int) -> None:
        """Take a report; a new stage is drawn at once, and what follows from time to time."""
        with self._lock:
            now, (line, _) = time.monotonic(), line_and_stage(reported)
            if line != self._line:
                self.end_line()
                self._line = line
            key = line or reported
            if key not in self._paces:
                task = self._bars.add_task(reported, count="", left="")
                self._paces[key] = task, _Pace("", now, 0)
            task, pace = self._paces[key]
            if pace.stage != reported:
                pace = _Pace(reported, now, done)
                self._paces[key] = task, pace
                self._bars.reset(task, description=reported)
            elif now - self._drawn < _MOMENT and done != total:
                return
            self._drawn = now
            count, left = pace.count_and_left(done, total, now)
            is_new = done == pace.first
            self._bars.update(
                task, completed=done, total=total or None, count=count, left=left, refresh=is_new
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
    with ExitStack() as afterwards:
        for module in modules:
            logger = logging.getLogger(f"msshift_bench.{module}")
            afterwards.callback(logger.setLevel, logger.level)
            afterwards.callback(logger.removeHandler, handler)
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
        yield


@contextmanager
def quieten(*libraries: ModuleType) -> Iterator[None]:
    """Hide the progress bars and the messages of libraries.

    Args:
        libraries: ``datasets``, whose bars are hidden, or ``transformers``, which then shows only
            errors, like sentence_transformers, which comes with it.
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
