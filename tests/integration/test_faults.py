"""Commands with a fault; `scripts/bench faults` draws faults of every kind for every command."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.support.fault_table import FAULTS, Trial, make_trial, trial
from benchmarks.support.outcomes import judge
from benchmarks.support.scenarios import SCENARIOS
from benchmarks.support.trial_folders import Done, Trials
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs, write_system
from tests.support.file_bytes import file_bytes
from tests.support.kills import Killed, changes_below


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file be larger than `size`, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def data(build_copy: Build) -> Path:
    return build_copy("mini", "length")


@pytest.fixture
def runs(data: Path, tmp_path: Path) -> Path:
    return write_runs(tmp_path / "runs" / "made-up", data)


EVALUATE = (
    "evaluate",
    "runs",
    "--data",
    "msshift",
    "--output",
    "r.json",
    "--per-query",
    "s.parquet",
)


def test_a_command_that_is_killed_at_any_change_of_files_leaves_them_in_the_end(
    msshift: Command, runs: Path, tmp_path: Path
) -> None:
    before = file_bytes(tmp_path)
    with changes_below(tmp_path) as changes:
        assert msshift(*EVALUATE).returncode == 0
    after, number = file_bytes(tmp_path), len(changes)
    assert set(after) - set(before) == {"r.json", "s.parquet"}
    assert number >= 4
    for kill_at in range(1, number + 1):
        for name in ("r.json", "s.parquet"):
            (tmp_path / name).unlink(missing_ok=True)
        with pytest.raises(Killed), changes_below(tmp_path, kill_at):
            msshift(*EVALUATE)
        for name, content in file_bytes(tmp_path).items():
            assert name.endswith(".partial") or content == after[name], (kill_at, name)
        assert msshift(*EVALUATE).returncode == 0
        assert file_bytes(tmp_path) == after, changes[kill_at - 1]


@pytest.mark.extended
def test_a_full_disk_leaves_the_files_as_they_were_and_the_next_check_gives_badges(
    msshift: Command, runs: Path, tmp_path: Path
) -> None:
    system = write_system(tmp_path / "system.toml", length="msshift")
    submit = ("submit", runs, "--system", system, "--data", "msshift")
    assert msshift(*submit).returncode == 0
    before = file_bytes(tmp_path)
    options = ("--entries", "submission/entries", "--data", "msshift", "--runs", "submission/runs",
               "--write-badges")  # fmt: skip
    for command in (("leaderboard", "check", *options), EVALUATE, submit):
        with largest_file(0):
            done = msshift(*command)
        assert done.returncode == 3, done.stderr
        assert "File too large; raise the limit" in done.stderr
        assert file_bytes(tmp_path) == before
    assert msshift("leaderboard", "check", *options).returncode == 0
    assert [*(tmp_path / "submission").rglob("rescored.csv")]


def test_new_files_and_folders_obey_the_umask(msshift: Command, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert msshift("build", "length", "--collection", "mini:60").returncode == 0
    finally:
        os.umask(before)
    made = [*(tmp_path / "msshift").rglob("*"), tmp_path / "msshift"]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o750}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o640}


# ---- the script ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    return Trials(tmp_path_factory.mktemp("faults"))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("fault", "scenario"),
    [
        ("SIGKILL before a change", "build over a build"),
        ("SIGINT at a moment", "leakage clean"),
        ("disk full", "leakage clean"),
        ("bit flipped", "leakage clean"),
        ("two at once", "leakage clean"),
    ],
)
def test_a_command_with_a_fault_leaves_its_outputs_in_the_end(
    trials: Trials, fault: str, scenario: str
) -> None:
    if not FAULTS[fault].is_possible():
        pytest.skip("needs root's rights")
    _, outcome = make_trial(trials, Trial(fault, scenario, "12"))
    assert outcome.wrong == []


@pytest.mark.extended
def test_lost_and_wrong_files_are_noticed(trials: Trials) -> None:
    folder = trials.prepare("leakage clean", finished=True)
    (folder / "clean" / "queries.tsv").write_text("half a fi")
    (folder / "clean" / ".queries.tsv.partial").touch()
    outcome = judge(trials, "leakage clean", folder, Done(0, ""))
    assert outcome.ended == "wrong"
    assert outcome.wrong == [
        "clean/queries.tsv is neither old nor new",
        "clean/.queries.tsv.partial is left",
        "clean/queries.tsv is different",
    ]
    folder = trials.prepare("leakage clean")
    outcome = judge(trials, "leakage clean", folder, Done(1, "Traceback\nKeyError: 3"))
    assert outcome.wrong == ["it ends with 1: Traceback\nKeyError: 3"]


def test_a_series_has_every_fault_and_every_command_and_is_reproducible() -> None:
    series = [trial(0, number) for number in range(100)]
    assert series == [trial(0, number) for number in range(100)]
    assert series != [trial(1, number) for number in range(100)]
    assert {one.fault for one in series} == FAULTS.keys()
    assert {one.scenario for one in series} == SCENARIOS.keys()
