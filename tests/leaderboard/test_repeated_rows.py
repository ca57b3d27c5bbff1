"""The project's own rows that repeat to the last digit are made again: means and digests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from msshift_bench.data import open_dataset
from msshift_bench.leaderboard import submit_system
from msshift_bench.leaderboard.entries import entries_folder, load_entries
from msshift_bench.leaderboard.gate import check_entries
from tests.conftest import REPOSITORY, Build, Command
from tests.support.fabricated import write_system

SHIFTS = ("topics", "wh-words", "length")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("shifts", "means"), [(("length",), 9), pytest.param(SHIFTS, 39, marks=pytest.mark.extended)]
)
def test_bm25_on_mini_is_repeated_and_known_under_another_name(
    shifts: tuple[str, ...], means: int, build_once: Build, msshift: Command, tmp_path: Path
) -> None:
    shutil.copytree(build_once("mini", *shifts), tmp_path / "msshift")
    made = msshift("run", "bm25", "--collection", "mini", "--out", "runs")
    assert made.returncode == 0, made.stderr
    check = ("leaderboard", "check", "mini/bm25", "--runs", "runs", "--data", "msshift")
    again = msshift(*check)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{means} of {means} means repeat to the last digit" in again.stdout
    assert f"{len(shifts)} of {len(shifts)} rankings have the entry's digests" in again.stdout

    # The same system under another name, without its sidecars.
    for run in (tmp_path / "runs").rglob("*.gz"):
        target = tmp_path / "renamed/mine" / run.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run, target)
    system = write_system(tmp_path / "system.toml", "mine", **dict.fromkeys(shifts, "none"))
    submit_system(tmp_path / "renamed/mine", system, tmp_path / "submission", tmp_path / "msshift")
    board = tmp_path / "board"
    shutil.copytree(entries_folder() / "mini/bm25", board / "mini/bm25")
    shutil.copytree(tmp_path / "submission/entries", board, dirs_exist_ok=True)
    _, findings = check_entries(board)
    found = [one for one in findings if one.code == "same-ranking"]
    assert [one.severity for one in found] == ["error"] * len(shifts)
    assert all("mini/bm25" in one.message for one in found)


def test_rows_that_repeat_to_the_last_digit_have_digests_of_rankings() -> None:
    own = [entry for entry in load_entries() if entry.scores]
    assert len(own) == 19
    exact = {
        entry.description.name: all(entry.head["rankings"].values())
        for entry in own
        if entry.description.reproduction.tolerance == 0
    }
    boards = ("msmarco-pool-v2", "msmarco-pool", "mini")
    assert exact == {f"{board}/bm25": True for board in boards}


@pytest.mark.extended
@pytest.mark.realdata
def test_bm25_on_the_slice_is_repeated_on_data_with_the_digests_of_the_page(
    real_data: Path, build_once: Build, msshift: Command, tmp_path: Path
) -> None:
    slice_of = ("--collection", real_data / "msmarco-pool")
    digests = {open_dataset(build_once("mini", *SHIFTS)).manifest.content_digest[:12]}
    for name, shifts in (("msshift", SHIFTS), ("alone", ("topics",))):
        built = msshift("build", *shifts, *slice_of, "--encoder", "terms", "--out", name)
        assert built.returncode == 0, built.stderr
        digests.add(open_dataset(tmp_path / name).manifest.content_digest[:12])
    page = (REPOSITORY / "docs/experiments.md").read_text("utf-8")
    assert set(re.findall(r"content(?: of this data set is)? `([0-9a-f]{12})`", page)) == digests
    assert msshift("run", "bm25", *slice_of, "--out", "runs").returncode == 0
    check = ("leaderboard", "check", "msmarco-pool/bm25", "--runs", "runs", "--data", "msshift")
    again = msshift(*check)
    assert "39 of 39 means repeat to the last digit" in again.stdout
    assert "3 of 3 rankings have the entry's digests" in again.stdout
