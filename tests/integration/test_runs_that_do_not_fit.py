"""Runs and data that do not belong together, as commands tell; tests/evaluation has the checks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from msshift_bench.data.dataset import open_dataset
from msshift_bench.runs import write_run
from msshift_bench.shifts import SHIFTS
from tests.conftest import Command

LENGTH = SHIFTS["length"]


ODD = ("counts no passage behind rank 2", "no relevant passage is among those of any")
"""What is remarked about every run here."""


def about_fit(lines: list[str]) -> list[str]:
    """Return what is doubted beside what is remarked about every run here."""
    kept = [line for line in lines if not any(remark in line for remark in ODD)]
    assert len(kept) < len(lines)
    return kept


def write(path: Path, queries: list[str], score: float = 1.0) -> Path:
    """Write a run that finds nothing relevant; every score gives it another ranking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(path, {query: {"d1": score, f"d{score}": 0.5} for query in queries}, "tag")
    return path


@pytest.fixture
def answered(mini_length: Path, tmp_path: Path) -> Path:
    """Run sets of two systems on a built data set."""
    tests = open_dataset(mini_length).test_sets(LENGTH)
    queries = list(dict.fromkeys(row.query_id for rows in tests.values() for row in rows))
    for system, first in (("a", 1.0), ("b", 2.0)):
        for number, group in enumerate(LENGTH.groups):
            write(
                tmp_path / "runs" / system / "length" / f"{group}.run", queries, first + number / 4
            )
    return tmp_path / "runs"


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_commands_refuse_and_go_on_when_told_to(
    msshift: Command, answered: Path, mini_length: Path, tmp_path: Path, command: str
) -> None:
    folder = answered / "b" / "length"
    shutil.copy(folder / "short.run", folder / "long.run")
    (folder / "long.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    arguments = (command, answered, "--data", mini_length)
    done = msshift(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[other-data]" in done.stderr
    assert "go on with --allow other-data" in done.stderr
    done = msshift(*arguments, "--allow", "other-data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[identical-runs]" in done.stderr
    output = tmp_path / "report.json"
    done = msshift(*arguments, "--allow", "other-data", "--allow", "identical", "--output", output)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(about_fit(warnings)) == 2
    notes = json.loads(output.read_text())["notes"]
    doubts = [note["text"] for note in notes if note["kind"] == "doubt"]
    assert [f"warning: {doubt}" for doubt in doubts] == warnings
    assert all(doubt in done.stdout for doubt in doubts)


def test_a_check_refuses_what_scoring_refuses(
    msshift: Command, answered: Path, mini_length: Path, tmp_path: Path
) -> None:
    """A well-formed run of other queries or other data cannot be scored on the test set."""
    run = write(tmp_path / "other.run", ["1048585", "2"])
    made_elsewhere = answered / "a" / "length" / "short.run"
    made_elsewhere.with_name("short.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    arguments = ("score", "--check", run, made_elsewhere)
    arguments += ("--test", "length-short", "--data", mini_length)
    done = msshift(*arguments)
    assert done.returncode == 1
    assert "it can be scored" not in done.stderr
    assert f"{run}: it answers none of the" in done.stderr
    assert "[no-query-answered]" in done.stderr
    assert "short.run was made on the data set aaaaaaaaaaaa" in done.stderr
    found = json.loads(msshift(*arguments, "--format", "json").stdout)
    assert [one["ok"] for one in found.values()] == [False, False]
    assert found[str(made_elsewhere)]["counts"] == {"other-data": 1}
    assert found[str(run)]["errors"][0]["code"] == "no-query-answered"
    assert msshift("score", "--check", run).returncode == 0


def test_systems_that_searched_other_passages_are_not_compared(
    msshift: Command, answered: Path, mini_length: Path
) -> None:
    """What each loses is sound, and how far they are apart is not."""
    for system, digest in (("a", "a" * 64), ("b", "b" * 64)):
        for group in ("short", "long"):
            sidecar = answered / system / "length" / f"{group}.run.json"
            sidecar.write_text(json.dumps({"passages": {"sha256": digest}}))
    assert msshift("evaluate", answered, "--data", mini_length).returncode == 0
    first, second = (answered / system / "length" / "short.run" for system in "ab")
    runs = ("score", first, "--reference", second, "--test", "length-long")
    for line, name in ((("compare", answered), "length"), (runs, "length-long")):
        done = msshift(*line, "--data", mini_length)
        assert (done.returncode, done.stdout) == (1, "")
        assert "error: runs that are compared are of different passages:" in done.stderr
        assert "[other-passages]" in done.stderr
        done = msshift(*line, "--data", mini_length, "--allow", "other-data")
        assert done.returncode == 0, done.stderr
        assert f"warning: {name}: its runs are of 2 different collections" in done.stderr
