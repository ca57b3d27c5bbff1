"""What long commands report, and what is seen of it in a log."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from msshift_bench.evaluation import compare_run_sets, evaluate_run_sets
from msshift_bench.leaderboard.site import build_site
from msshift_bench.plumbing import reporting
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.making import make_runs
from tests.support.synthetic_entries import hostile_entries


class Told:
    """Reports, taken by a function to give for progress."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.reports.append((stage, done, total))

    def ends(self) -> dict[str, tuple[int, int]]:
        """Return the last report of each stage; none may be begun again."""
        by_stage = groupby(self.reports, lambda report: report[0])
        found = [(stage, list(reports)[-1]) for stage, reports in by_stage]
        assert len({stage for stage, _ in found}) == len(found)
        return {stage: (done, total) for stage, (_, done, total) in found}


def test_a_system_s_stages_fill_their_bars(data: Path, tmp_path: Path) -> None:
    told = Told()
    make_runs("bm25", data=data, out=tmp_path, progress=told)
    ends = told.ends()
    assert list(ends) == ["bm25 on length: index", "bm25 on length: search"]
    assert ends["bm25 on length: index"] == (300, 300)
    assert all(done == total > 0 for done, total in ends.values())


def test_run_files_are_counted_over_all_run_sets(data: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "runs" / "one", data)
    write_runs(tmp_path / "runs" / "other", data, one=True)
    for work in (evaluate_run_sets, compare_run_sets):
        told = Told()
        with reporting(told):
            work([tmp_path / "runs"], data)
        assert told.reports == [("run files", done, 3) for done in (1, 2, 3)]


@pytest.mark.extended
def test_a_board_s_stages_fill_their_bars(tmp_path: Path) -> None:
    told = Told()
    hostile_entries(tmp_path / "entries")
    with reporting(told):
        build_site(tmp_path / "site", tmp_path / "entries")
    ends = told.ends()
    assert set(ends) == {"tables"}
    assert all(done == total for done, total in ends.values())


def test_a_log_reports_finished_skipped_and_remaining_runs(
    build_once: Build, tmp_path: Path, msshift: Command
) -> None:
    data = build_once("mini:300", "length", "wh-words")
    command = ("run", "bm25", "--data", data)
    first = msshift(*command, "--shift", "length").stderr.splitlines()
    assert first[0].startswith("bm25 on length: made in ")
    second = msshift(*command).stderr.splitlines()
    assert second[0] == "bm25 on length: complete already, skipped"
    assert second[1].startswith("bm25 on wh-words: made in ")
    told = msshift(*command, "--out", tmp_path / "again").stderr.splitlines()
    assert "; 1 left to make, about " in told[0]
    assert "left to make" not in told[1]
