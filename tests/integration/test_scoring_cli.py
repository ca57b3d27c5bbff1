"""``msshift score``, ``evaluate`` and ``compare`` as typed: what they take and check.

What they print in every format is compared with golden files in tests/evaluation, which has the
checks of runs that do not belong together, too.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Build, Command
from tests.support.command_line import run_python
from tests.support.fabricated import write_run, write_runs
from tests.support.figures import read_figures


@pytest.fixture(scope="module")
def made(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three systems on a data set: one with seeds, one with a single seed, and one run for all."""
    folder = tmp_path_factory.mktemp("compared")
    data = build_once("mini:300", "length", "wh-words")
    write_runs(folder / "runs" / "splade", data, seeds=(1, 2, 3))
    write_runs(folder / "runs" / "dense", data)
    write_runs(folder / "runs" / "dense", data, "wh-words")
    write_runs(folder / "runs" / "bm25", data, one=True)
    (folder / "msshift").symlink_to(data)
    return folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    """The test's folder, in which commands run, with the three systems and runs of one query."""
    for name in ("runs", "msshift"):
        (tmp_path / name).symlink_to(made / name)
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    (tmp_path / "a.run").write_text("1 Q0 a 1 3.0 t\n")
    return tmp_path


QRELS = "--qrels qrels.txt"


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_measures_with_commas_in_brackets(msshift: Command, work: Path, command: str) -> None:
    measures = "RR@10,RR(rel=1, judged_only=False)@10,AP(rel=1, judged_only=False)@5"
    done = msshift(command, "runs", "--output", "out.json", "--measures", measures)
    assert done.returncode == 0, done.stderr
    settings = json.loads((work / "out.json").read_text())["settings"]
    assert settings["measures"] == ["RR@10", "AP@5"]


def test_runs_and_qrels_may_come_from_pipes(msshift_script: Path, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("1 Q0 b 1 9 me\n1 Q0 a 2 8 me\n")
    (tmp_path / "qrels.txt").write_bytes(gzip.compress(b"1 0 a 1\n"))
    runs = "- <(cat my.run) --allow identical <my.run"
    command = f"{msshift_script} score --format json --qrels <(cat qrels.txt) {runs}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [row.value for row in read_figures(done.stdout).where(figure="score")] == [0.5, 0.5]


@pytest.mark.extended
def test_scoring_a_run_imports_no_heavy_library(made: Path) -> None:
    program = (
        "import sys\n"
        "from msshift_bench import score_runs\n"
        "score_runs(['runs/bm25/length.run.gz'], 'length-short', data='msshift')\n"
        "heavy = {'datasets', 'ir_datasets', 'matplotlib', 'pandas', 'scipy.stats', 'torch'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = run_python(program, made)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_runs_are_only_checked(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "good.run").write_text("1 Q0 a 1 3.0 t\n9 Q0 b 1 2.0 t\n")
    (tmp_path / "bad.run").write_text("1 Q0 a 1 3.0 t\n1 Q0 a 2 2.0 t\n1 Q0 b 3 nan t\n1 Q0 c\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    done = msshift("score", "good.run", "--check")
    assert (done.returncode, done.stdout) == (0, "")
    assert "good.run: 2 lines, 2 queries, 0 warnings; it can be scored" in done.stderr
    text = msshift("score", "good.run", "bad.run", "--check", "--format", "json").stdout
    checked = json.loads(text)
    assert (checked["good.run"]["ok"], checked["bad.run"]["ok"]) == (True, False)
    assert [finding["line"] for finding in checked["bad.run"]["errors"]] == [2, 3, 4]
    of_bad = msshift("score", "bad.run", "--check")
    assert of_bad.returncode == 1
    assert all(f"bad.run:{line}: " in of_bad.stderr for line in (2, 3, 4))
    against = ("score", "good.run", "--check", *QRELS.split())
    done = msshift(*against)
    assert done.returncode == 0
    assert "good.run:2:" in done.stderr
    assert msshift(*against, "--strict").returncode == 1


@pytest.mark.parametrize("reference", ["bm25", "runs/bm25", "./runs/bm25"])
def test_a_reference_is_a_name_or_any_folder(msshift: Command, work: Path, reference: str) -> None:
    # A folder with the name of a system does no harm.
    (work / "bm25").mkdir()
    runs = ["runs"] if reference == "bm25" else ["runs/splade"]
    arguments = ("compare", *runs, "--shift", "length", "--reference", reference)
    done = msshift(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = read_figures(done.stdout)
    assert set(figures.names("against")) == {"", "bm25"}
    leads = {"lead_in", "lead_out", "lead_difference_in", "lead_difference_out"}
    assert {row.figure for row in figures if row.against} == {"avg_in", "out", *leads}


def test_a_system_whose_runs_are_not_complete_is_left_out(msshift: Command, work: Path) -> None:
    shutil.copytree(work / "runs", work / "part")
    (work / "part" / "dense" / "length" / "short.run.gz").unlink()
    arguments = ("compare", "part", "--reference", "bm25")
    assert "continue without it (--allow partial)" in msshift(*arguments).stderr
    done = msshift(*arguments, "--allow", "partial")
    assert done.returncode == 0, done.stderr
    assert "splade - bm25" in done.stdout
    assert "dense -" not in done.stdout
    assert (
        "warning: length: dense is left out, because some of its run files are missing"
        in done.stderr
    )
    assert "wh-words: not compared, because bm25 has no runs for it" in done.stderr


def test_runs_that_lack_queries_are_compared_on_shared_queries(
    msshift: Command, tmp_path: Path
) -> None:
    ids = range(1, 9)
    (tmp_path / "qrels.txt").write_text("".join(f"{n} 0 r{n} 1\n" for n in ids))
    (tmp_path / "good.run").write_text("".join(f"{n} Q0 r{n} 1 9 t\n" for n in ids))
    lines = [f"{n} Q0 x 1 9 t\n{n} Q0 r{n} 2 {8 - n / 10} t\n" for n in ids]
    (tmp_path / "worse.run").write_text("".join(lines[1:]))
    arguments = ("score", "good.run", *QRELS.split(), "--reference", "worse.run")
    for missing, value, queries in (("zero", 1 - 7 / 16, 8), ("skip", 0.5, 7)):
        done = msshift(*arguments, "--missing", missing, "--format", "json")
        (lead,) = read_figures(done.stdout).where(against="worse.run")
        assert (lead.value, lead.queries) == (pytest.approx(value), queries)
        assert ("differences: on the 7 queries in all runs" in done.stdout) == (queries < 8)
    assert msshift(*arguments, "--missing", "error").returncode == 1


@pytest.fixture
def answered(data: Path, tmp_path: Path) -> Path:
    """Run sets of two systems on a built data set."""
    for system in "ab":
        write_runs(tmp_path / "runs" / system, data)
    return tmp_path / "runs"


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_commands_refuse_and_continue_with_allow(
    msshift: Command, answered: Path, data: Path, tmp_path: Path, command: str
) -> None:
    folder = answered / "b" / "length"
    shutil.copy(folder / "short.run.gz", folder / "long.run.gz")
    (folder / "long.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    arguments = (command, answered, "--data", data)
    done = msshift(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[other-data]" in done.stderr
    assert "accept it with --allow other-data" in done.stderr
    done = msshift(*arguments, "--allow", "other-data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[identical-runs]" in done.stderr
    output = tmp_path / "report.json"
    done = msshift(*arguments, "--allow", "other-data", "--allow", "identical", "--output", output)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    notes = json.loads(output.read_text())["notes"]
    texts = [note["text"] for note in notes if note["kind"] == "doubt"]
    assert [f"warning: {text}" for text in texts] == warnings
    assert all(text in done.stdout for text in texts)


def test_a_check_refuses_what_scoring_refuses(
    msshift: Command, answered: Path, data: Path, tmp_path: Path
) -> None:
    """A well-formed run of other queries or other data cannot be scored on the test set."""
    run = write_run(tmp_path / "other.run", [("1048585", ["d1"]), ("2", ["d1"])])
    made_elsewhere = answered / "a" / "length" / "short.run.gz"
    made_elsewhere.with_name("short.run.json").write_text(json.dumps({"data_digest": "a" * 64}))
    arguments = ("score", "--check", run, made_elsewhere)
    arguments += ("--test", "length-short", "--data", data)
    done = msshift(*arguments)
    assert done.returncode == 1
    assert "it can be scored" not in done.stderr
    assert f"{run}: it holds none of the" in done.stderr
    assert "[no-query-answered]" in done.stderr
    assert "short.run.gz was made on the data set aaaaaaaaaaaa" in done.stderr
    found = json.loads(msshift(*arguments, "--format", "json").stdout)
    assert [one["ok"] for one in found.values()] == [False, False]
    assert found[str(made_elsewhere)]["counts"] == {"other-data": 1}
    assert found[str(run)]["errors"][0]["code"] == "no-query-answered"
    assert msshift("score", "--check", run).returncode == 0


def test_systems_that_searched_other_passages_are_not_compared(
    msshift: Command, answered: Path, data: Path
) -> None:
    """What each loses is sound, and how far they are apart is not."""
    for system, digest in (("a", "a" * 64), ("b", "b" * 64)):
        for group in ("short", "long"):
            sidecar = answered / system / "length" / f"{group}.run.json"
            sidecar.write_text(json.dumps({"passages": {"sha256": digest}}))
    assert msshift("evaluate", answered, "--data", data).returncode == 0
    first, second = (answered / system / "length" / "short.run.gz" for system in "ab")
    runs = ("score", first, "--reference", second, "--test", "length-long")
    for line, name in ((("compare", answered), "length"), (runs, "length-long")):
        done = msshift(*line, "--data", data)
        assert (done.returncode, done.stdout) == (1, "")
        assert "[other-passages]" in done.stderr
        done = msshift(*line, "--data", data, "--allow", "other-data")
        assert done.returncode == 0, done.stderr
        assert f"in {name} (--allow other-data)" in done.stderr
