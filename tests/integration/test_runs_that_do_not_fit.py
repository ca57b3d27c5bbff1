"""Runs and data that do not belong together, from the library and from the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from msshift_bench.data.dataset import open_dataset
from msshift_bench.data.manifest import DataInfo
from msshift_bench.errors import RunError
from msshift_bench.evaluation import single
from msshift_bench.evaluation.run_set_report import evaluate_run_sets
from msshift_bench.evaluation.settings import Settings
from msshift_bench.runs import write_run
from msshift_bench.shifts import SHIFTS
from tests.conftest import Command

LENGTH = SHIFTS["length"]


def write(path: Path, queries: list[str], score: float = 1.0) -> Path:
    """Write a run that finds nothing relevant."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(path, {query: {"d1": score, "d2": 0.5} for query in queries}, "tag")
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


def test_reports_carry_what_makes_them_doubtful(answered: Path, mini_length: Path) -> None:
    assert evaluate_run_sets([answered], mini_length).to_json()["remarks"] == []
    folder = answered / "b" / "length"
    shutil.copy(answered / "a" / "length" / "short.run", folder / "short.run")
    (folder / "long.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    with pytest.raises(RunError, match=r"long\.run was made on the data set aaaaaaaaaaaa"):
        evaluate_run_sets([answered], mini_length)
    report = evaluate_run_sets([answered], mini_length, force_data=True)
    other, same = report.to_json()["remarks"]
    assert "long.run was made on other data: aaaaaaaaaaaa" in other
    assert f"{folder / 'short.run'} is the same file, byte for byte, as {answered / 'a'}" in same


def test_single_runs_too(answered: Path, mini_length: Path) -> None:
    test_set = single.JudgedQueries.of_config("length-short", mini_length)
    run = answered / "a" / "length" / "short.run"
    run.with_name("short.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    with pytest.raises(RunError, match=r"go on with --force-data"):
        single.evaluate_runs([run], test_set, Settings())
    rest = write(run.with_name("rest.run"), ["2"])
    with pytest.raises(RunError, match=r"short\.run was made on the data set aaaaaaaaaaaa"):
        single.evaluate_runs([(rest, run)], test_set, Settings())
    found = single.evaluate_runs([str(run)], test_set, Settings(), force_data=True)
    assert found.to_json()["remarks"] == list(found.remarks)
    assert "was made on other data" in found.notes()[-1]
    plain = replace(test_set, data=DataInfo())
    kept = list(test_set.judgements.query_ids)[: int(len(test_set.judgements) * 0.9)]
    few = write(run.with_name("few.run"), kept)
    (remark,) = single.evaluate_runs([few], plain, Settings()).remarks
    lacked = len(test_set.judgements) - len(kept)
    expected = f"{lacked} of {len(test_set.judgements)} of length-short"
    assert remark == f"{few}: test queries that the run does not hold: {expected}"


# ---- the command line -----------------------------------------------------------------------


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
    assert "go on with --force-data" in done.stderr
    done = msshift(*arguments, "--force-data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[identical-runs]" in done.stderr
    output = tmp_path / "report.json"
    done = msshift(*arguments, "--force-data", "--allow-identical", "--output", output)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    remarks = json.loads(output.read_text())["remarks"]
    assert [f"warning: {remark}" for remark in remarks] == warnings
    assert all(remark in done.stdout for remark in remarks)


def test_a_run_of_another_data_set(msshift: Command, mini_length: Path, tmp_path: Path) -> None:
    run = write(tmp_path / "other.run", ["1048585", "2"])
    done = msshift("evaluate", run, "--test", "length-short", "--data", mini_length)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{run}: it answers none of the" in done.stderr
    assert "it holds 2 others (1048585, 2) [no-query-answered]" in done.stderr


def test_validate_refuses_what_evaluate_refuses(
    msshift: Command, answered: Path, mini_length: Path, tmp_path: Path
) -> None:
    """A well-formed run of other queries or other data cannot be evaluated on the test set."""
    run = write(tmp_path / "other.run", ["1048585", "2"])
    made_elsewhere = answered / "a" / "length" / "short.run"
    made_elsewhere.with_name("short.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    arguments = (run, made_elsewhere, "--test", "length-short", "--data", mini_length)
    done = msshift("validate", *arguments)
    assert done.returncode == 1
    assert "it can be evaluated" not in done.stderr
    assert f"{run}: it answers none of the" in done.stderr
    assert "[no-query-answered]" in done.stderr
    assert "short.run was made on the data set aaaaaaaaaaaa" in done.stderr
    found = json.loads(msshift("validate", *arguments, "--json").stdout)
    assert [one["ok"] for one in found.values()] == [False, False]
    assert found[str(made_elsewhere)]["counts"] == {"other-data": 1}
    assert found[str(run)]["errors"][0]["code"] == "no-query-answered"
    assert msshift("validate", run).returncode == 0


def test_missing_queries_are_one_line(msshift: Command, answered: Path, mini_length: Path) -> None:
    tests = open_dataset(mini_length).test_sets(LENGTH)
    short, long = ([row.query_id for row in tests[group]] for group in ("short", "long"))
    held = short[: len(short) // 2] + long
    write(answered / "a" / "length" / "long.run", held, 7.0)
    done = msshift("evaluate", answered, "--data", mini_length, "--json")
    assert done.returncode == 0, done.stderr
    counts = f"{len(short) - len(short) // 2} of {len(short)} of short, 0 of {len(long)} of long"
    assert done.stderr.splitlines() == [
        f"warning: a/length: test queries that a run does not hold: {counts}"
    ]


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_models_that_searched_other_passages(
    msshift: Command, answered: Path, mini_length: Path, command: str
) -> None:
    folder = answered / "b" / "length"
    for group, digest in (("short", "a" * 64), ("long", "b" * 64)):
        sidecar = folder / f"{group}.run.json"
        sidecar.write_text(json.dumps({"passages": {"sha256": digest}}))
    arguments = (command, answered, "--data", mini_length)
    done = msshift(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[other-passages]" in done.stderr
    done = msshift(*arguments, "--force-data")
    assert done.returncode == 0, done.stderr
    assert "warning: b/length: its runs are of 2 different collections" in done.stderr


def test_systems_that_searched_other_passages_are_not_compared(
    msshift: Command, answered: Path, mini_length: Path
) -> None:
    """What each loses is sound, and how far they are apart is not."""
    for system, digest in (("a", "a" * 64), ("b", "b" * 64)):
        for group in ("short", "long"):
            sidecar = answered / system / "length" / f"{group}.run.json"
            sidecar.write_text(json.dumps({"passages": {"sha256": digest}}))
    assert msshift("evaluate", answered, "--data", mini_length).returncode == 0
    files = [answered / system / "length" / "short.run" for system in "ab"]
    for runs, name in (([answered], "length"), ([*files, "--test", "length-long"], "length-long")):
        done = msshift("compare", *runs, "--data", mini_length)
        assert (done.returncode, done.stdout) == (1, "")
        assert "error: runs that are compared are of different passages:" in done.stderr
        assert "[other-passages]" in done.stderr
        done = msshift("compare", *runs, "--data", mini_length, "--force-data")
        assert done.returncode == 0, done.stderr
        assert f"warning: {name}: its runs are of 2 different collections" in done.stderr
