"""What a submission is made of is opened once, on its way from runs to an entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from benchmarks.support.fabricated import write_meta
from msshift_bench.leaderboard import submission as submissions
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.making import make_submission
from msshift_bench.plumbing import streams


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each run file was decompressed, and a submission validated."""
    counts: Counter[str] = Counter()

    def decompressed(file: BinaryIO, wrapped: Callable[..., Any] = streams.decompressed) -> Any:
        counts[Path(file.name).name] += 1
        return wrapped(file)

    def validate(value: Any, place: Any, wrapped: Any = submissions.SUBMISSION) -> None:
        counts["submission.json"] += 1
        wrapped(value, place)

    monkeypatch.setattr(streams, "decompressed", decompressed)
    monkeypatch.setattr(submissions, "SUBMISSION", validate)
    return counts


ONCE = {"short.run.gz": 1, "long.run.gz": 1, "submission.json": 1}


def test_when_it_is_made(
    good: Path, mini_length: Path, tmp_path: Path, opened: Counter[str]
) -> None:
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    make_submission(good / "runs" / "made-up", meta, tmp_path / "submission", mini_length)
    assert opened == ONCE


def test_when_it_is_checked(good: Path, mini_length: Path, opened: Counter[str]) -> None:
    assert check_submission(good, data=mini_length).rescored == ("length",)
    assert opened == ONCE


def test_when_it_is_added(
    good: Path, mini_length: Path, tmp_path: Path, opened: Counter[str]
) -> None:
    _, verdict = add_submission(good, tmp_path / "entries", mini_length)
    assert verdict.rescored == ("length",)
    assert opened == ONCE
