"""Every row says how to repeat it; the commands of mini's cheapest row give its figures."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench.baselines.recipe_files import find_recipe
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.leaderboard.reproduction import (
    compare_with_entry,
    find_entry,
    how_closely,
    why_not_reproducible,
)
from msshift_bench.leaderboard.submission import Reproduction
from tests.conftest import Command

COMMANDS = ("build", "baseline run", "evaluate", "leaderboard reproduce")
MATERIAL = ("triples build", "baseline pretrain")
"""What some systems make between the first two."""


@pytest.mark.slow
def test_the_cheapest_row_is_made_again_to_the_last_digit(
    msshift: Command, script: Command
) -> None:
    told = find_entry("mini/bm25").submission.reproduction
    assert told is not None
    for command in told.commands:
        # A forked 'baseline run' would start with torch, which BM25 does without.
        run = script if "baseline" in command else msshift
        done = run(*shlex.split(command)[1:])
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    # Ten groups by three measures, once each, as nothing was trained per group.
    assert done.stdout.endswith("30 of 30 means repeat to the last digit\n")


def test_every_row_has_its_commands_or_says_why_not() -> None:
    for entry in load_entries():
        submission, system = entry.submission, entry.submission.system.name
        told, reason = submission.reproduction, why_not_reproducible(submission)
        if submission.reported is not None:
            assert told is None
            assert submission.reported["source"] in reason
            continue
        assert reason == ""
        assert told is not None
        lines = [line.removeprefix("msshift ") for line in told.commands if line[0] != "#"]
        while lines[1].startswith(MATERIAL):
            del lines[1]
        assert [line.startswith(name) for line, name in zip(lines, COMMANDS, strict=True)] == (
            [True] * len(COMMANDS)
        )
        assert f"{entry.board.id}/{system}" in lines[-1]
        assert told.tolerance == 0 if system == "bm25" else 0 < (told.tolerance or 0) <= 0.02
        if recipe := re.search(r"--recipe (\S+)", lines[1]):
            assert find_recipe(system, recipe[1]).sha256
            seeds = ",".join(map(str, submission.training.seeds))
            assert f"--seeds {seeds} " in lines[1]


def test_a_row_s_commands_and_figures_are_printed(msshift: Command) -> None:
    done = msshift("leaderboard", "reproduce", "mini/splade")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("msshift build topics wh-words length --collection mini")
    assert re.search(r"Query topics +63\.3 +43\.0 +32\.2%", done.stdout)
    assert "come within 2 points of this row's" in done.stdout
    paper = msshift("leaderboard", "reproduce", "ms-marco/colbert")
    assert paper.returncode == 0
    assert "Reported from a paper (MS-Shift, ECIR 2023, Tables 2 and 3)" in paper.stdout
    assert "msshift" not in paper.stdout
    other_figures = msshift("leaderboard", "reproduce", "ms-marco/zhan2022-dr")
    assert other_figures.returncode == 0
    assert other_figures.stdout.strip().startswith("Reported from a paper (Zhan et al.")
    unknown = msshift("leaderboard", "reproduce", "mini/bm52")
    assert unknown.returncode == 2
    assert "did you mean 'mini/bm25'" in unknown.stderr


def test_new_runs_are_compared_with_the_row(
    good: Path, mini_length: Path, one_entry: Path, tmp_path: Path
) -> None:
    entry = find_entry("mini/made-up", one_entry)
    same = compare_with_entry(entry, good / "runs", mini_length)
    # Two groups by three measures, Avg In and Out.
    assert len(same) == 12
    assert all(mean.within(0) for mean in same)
    drawn_again = write_runs(tmp_path / "other", mini_length)
    other = compare_with_entry(entry, drawn_again, mini_length)
    furthest = max(mean.difference for mean in other)
    assert furthest > 1e-3
    assert all(mean.within(furthest) for mean in other)
    assert not all(mean.within(furthest / 2) for mean in other)


def test_runs_that_give_other_figures_are_counted_and_fail(
    mini_length: Path, msshift: Command, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs" / "bm25", mini_length, one=True)
    done = msshift("leaderboard", "reproduce", "mini/bm25", "--runs", runs, "--data", mini_length)
    assert done.returncode == 1
    # Two groups by three measures; under R@100 both find every relevant passage.
    assert done.stdout.endswith("2 of 6 means repeat to the last digit\n")
    assert f"{runs} holds no runs of topics, wh-words" in done.stderr


def test_what_cannot_be_compared(
    good: Path, mini_length: Path, first: Path, one_entry: Path, tmp_path: Path
) -> None:
    entry = find_entry("mini/made-up", one_entry)
    with pytest.raises(UsageError, match="has other test queries of length than mini"):
        compare_with_entry(entry, good / "runs", first)
    seeds = write_runs(tmp_path / "seeds", mini_length, seeds=(3,))
    with pytest.raises(UsageError, match="are of the seeds 3, and the entry's of no seed"):
        compare_with_entry(entry, seeds, mini_length)
    others = write_runs(tmp_path / "others", first, "wh-words")
    with pytest.raises(NotFoundError, match="holds no runs on the entry's shifts: length"):
        compare_with_entry(entry, others, mini_length)
    for name in ("another", "one-more"):
        shutil.copytree(good / "runs" / "made-up", tmp_path / "several" / name)
    with pytest.raises(UsageError, match="holds runs of another, one-more, and none of made-up"):
        compare_with_entry(entry, tmp_path / "several", mini_length)
    with pytest.raises(UsageError, match="Reported from a paper"):
        compare_with_entry(find_entry("ms-marco/colbert"), good / "runs", mini_length)
    with pytest.raises(UnknownNameError, match="valid are mini/made-up"):
        find_entry("made-up", one_entry)


def test_rows_of_others_may_give_no_commands(
    good: Path, mini_length: Path, one_entry: Path, msshift: Command
) -> None:
    submission = find_entry("mini/made-up", one_entry).submission
    assert why_not_reproducible(submission).startswith("Its authors give no commands")
    assert "do not say how closely" in how_closely(submission)
    silent = replace(submission, reproduction=Reproduction(("make",), None))
    assert why_not_reproducible(silent) == ""
    assert "do not say how closely" in how_closely(silent)
    done = msshift(
        *("leaderboard", "reproduce", "mini/made-up", "--entries", one_entry),
        *("--runs", good / "runs", "--data", mini_length),
    )
    assert done.returncode == 0
    assert "do not say how closely" in done.stderr
