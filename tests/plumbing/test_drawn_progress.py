from __future__ import annotations

import io
import logging
import os
import re
from contextlib import redirect_stderr
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from rich.progress import Progress

from msshift_bench.plumbing import (
    ProgressLog,
    counted,
    duration,
    progress_bars,
    progress_line,
    report_progress,
    reporting,
    shown_log,
)


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_has_a_line_every_ten_seconds_with_the_time_left() -> None:
    clock, lines = Clock(), list[str]()
    model = "splade without C2 of topics (3 of 5)"
    with reporting(ProgressLog(lines.append, clock).write_progress), progress_line(model):
        report_progress("index", 0, 0)
        for step in range(101):
            clock.now = step / 2
            report_progress("train", step, 100)
        report_progress("search", 3, 0)
        clock.now = 70
        report_progress("search", 1234, 0)
    begin = f"{model}: train"
    assert lines == [
        f"{begin} {step}/100, about {left} s left"
        for step, left in ((20, 40), (40, 30), (60, 20), (80, 10))
    ] + [f"{begin} 100/100", f"{model}: search 1,234"]


def test_a_log_has_fewer_lines_the_longer_it_takes() -> None:
    clock, times = Clock(), list[float]()
    log = ProgressLog(lambda _: times.append(clock.now), clock)
    for second in range(24 * 3600):
        clock.now = second
        log.write_progress("embed", second, 24 * 3600)
    assert times[:10] == [10 * n for n in range(1, 11)]
    assert len(times) < 90
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == sorted(gaps)


def test_the_work_of_an_earlier_process_does_not_change_the_pace() -> None:
    clock, lines = Clock(), list[str]()
    log = ProgressLog(lines.append, clock)
    log.write_progress("train", 5000, 10_000)
    clock.now = 10
    log.write_progress("train", 5050, 10_000)
    assert lines == ["train 5,050/10,000, about 16.5 min left"]


def drawn(*reports: tuple[str, int, int]) -> list[str]:
    """Return the lines of the last picture of the bars."""
    terminal = io.StringIO()
    with (
        mock.patch.object(terminal, "isatty", return_value=True),
        mock.patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": "90"}),
        redirect_stderr(terminal),
        progress_bars(),
    ):
        for report in reports:
            report_progress(*report)
    pictures = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    pictures = re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "\r", pictures).replace("\r\n", "\n")
    lines = [re.sub("[━╸╺]+", "", line).split() for line in re.split(r"[\r\n]", pictures)]
    return [" ".join(line) for line in lines if line]


def test_stages_of_a_line_share_a_bar_and_other_stages_have_one_each() -> None:
    told = drawn(("k-means", 3, 25), ("k-means", 19, 19), ("selection", 5, 9))
    assert told[-2:] == ["k-means 19/19 0:00:00", "selection 5/9 0:00:00"]
    told = drawn(("a model: index", 0, 0), ("a model: train", 7, 7), ("another: search", 1, 9))
    assert told[-1] == "another: search 1/9 0:00:00"
    assert not any(line.startswith("a model: index") and "100" in line for line in told)


def test_a_report_per_query_is_no_drawing_per_query(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[int] = []

    class Counting(Progress):
        def update(self, *arguments: Any, **changes: Any) -> None:
            updates.append(changes["completed"])
            super().update(*arguments, **changes)

    monkeypatch.setattr("rich.progress.Progress", Counting)
    reports = [("search", done, 10_000) for done in range(10_001)]
    assert drawn(*reports)[-1] == "search 10,000/10,000 0:00:00"
    assert (updates[0], updates[-1]) == (0, 10_000)
    assert len(updates) < 1000


def test_a_count_without_a_total_has_none() -> None:
    assert drawn(("passages", 20_000, 0))[-1] == "passages 20,000 0:00:00"


def test_items_are_counted_to_the_end() -> None:
    told: list[tuple[str, int, int]] = []
    with reporting(lambda *report: told.append(report)):
        assert sum(1 for _ in counted(range(25_000), "passages")) == 25_000
        with reporting(None):
            assert list(counted("ab", "passages")) == ["a", "b"]
    assert told == [("passages", done, 0) for done in (0, 10_000, 20_000)] + [
        ("passages", 25_000, 25_000)
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "1.5 min"), (5400, "1.5 h"), (250_000, "2.9 days")],
)
def test_a_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_log_of_a_model_is_shown_only_inside(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("msshift_bench.baselines.systems.plan")
    with shown_log("baselines.systems.plan"):
        logger.info("made")
    logger.info("not shown")
    assert capsys.readouterr().err == "made\n"
    assert logger.level == logging.NOTSET
