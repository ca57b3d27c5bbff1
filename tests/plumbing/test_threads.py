"""Processors that a process may use: affinity, quota of a container, and neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.plumbing import threads


@pytest.mark.parametrize(
    ("quota", "processors", "count"),
    [("max 100000", 4, 4), ("150000 100000", 1.5, 1), ("50000 100000", 0.5, 1)],
)
def test_processors_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, processors: float, count: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert threads.allowed_processors() == processors
    assert threads.thread_count() == count


def test_all_processors_count_where_no_process_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(threads.os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(threads, "_QUOTA", Path("none"))
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 3)
    assert threads.allowed_processors() == 3
