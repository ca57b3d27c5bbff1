"""Outputs that hold what a user typed are never replaced: sheets, descriptions, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.annotation import SIMILARITY, write_sheet
from msshift_bench.cli import app
from msshift_bench.errors import UsageError
from msshift_bench.leaderboard.submit import submit_system
from tests.conftest import Build
from tests.support.fabricated import write_runs, write_system
from tests.support.sheets import IDS, PAIRS, fill


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini", "length")


def run(*words: str | Path) -> str:
    """Run a command that must refuse, and return what it says."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code != 0, done.output
    assert isinstance(done.exception, UsageError), repr(done.exception)
    return str(done.exception)


@pytest.fixture
def world(tmp_path: Path, data: Path) -> Path:
    """A folder with runs, queries, variants, and a sheet that was filled in."""
    write_runs(tmp_path / "runs/mine", data)
    write_runs(tmp_path / "runs/other", data)
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("1\twhat is a cat\n2\twho is a cat\n")
    fill(tmp_path / "filled.csv", dict.fromkeys(IDS, "20"), SIMILARITY, "ann")
    fill(tmp_path / "second.csv", dict.fromkeys(IDS, "11"), SIMILARITY, "bob")
    return tmp_path


COMMANDS = {
    "annotate": "annotate --train {0}/train.tsv --test {0}/test.tsv --out {1}",
    "agree": "agree {0}/second.csv --disputed {1}",
    "evaluate": "evaluate {0}/runs --data {2} --output {1}",
    "compare": "compare {0}/runs --data {2} --output {1}",
    "score": "score {0}/runs/mine/length/short.run.gz --data {2} --test length-short --output {1}",
    "analyse": "analyse {0}/runs --data {2} --output {1}",
    "variants": "variants typos --queries {0}/test.tsv --out {1}",
}
"""A command that writes a file -> its words: the folder, the file, the data set."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sheet_that_was_filled_in_stays(
    world: Path, data: Path, command: str, ending: str
) -> None:
    sheet = world / f"filled{ending}"
    if ending == ".json":
        choice = {"from_name": "entity", "type": "choices", "value": {"choices": ["2"]}}
        write_sheet(PAIRS, SIMILARITY, sheet)
        tasks = json.loads(sheet.read_text())
        tasks[0]["annotations"] = [{"completed_by": 1, "result": [choice]}]
        sheet.write_text(json.dumps(tasks))
    before = sheet.read_bytes()
    said = run(*COMMANDS[command].format(world, sheet, data).split())
    assert f"{sheet} holds verdicts" in said or "is read, and would be overwritten" in said
    assert sheet.read_bytes() == before


def test_what_somebody_noted_in_a_sheet_is_work_too(world: Path, data: Path) -> None:
    sheet = world / "empty.csv"
    write_sheet(PAIRS, SIMILARITY, sheet)
    lines = sheet.read_text().splitlines()
    sheet.write_text("\n".join([f"{lines[0]},notes", f"{lines[1]},ask Ann", *lines[2:]]) + "\n")
    words = COMMANDS["annotate"].format(world, sheet, data).split()
    assert "holds verdicts or notes on 1 pairs, and would be lost" in run(*words)


def test_settings_stay(world: Path, data: Path) -> None:
    system = write_system(world / "system.toml", length="msshift")
    before = system.read_bytes()
    said = run(*COMMANDS["variants"].format(world, system, data).split())
    assert "system.toml is a file that people write, and would be lost" in said
    assert system.read_bytes() == before


def test_a_description_in_the_folder_that_is_replaced_stays(world: Path, data: Path) -> None:
    system = write_system(world / "system.toml", length="msshift")
    submit_system(world / "runs/mine", system, world / "out", data)
    inside = next((world / "out").rglob("system.toml"))
    inside.write_text("# what I thought\n" + inside.read_text())
    with pytest.raises(UsageError, match=r"is in .*out, which is replaced; choose another --out"):
        submit_system(world / "runs/mine", inside, world / "out", data)
    assert inside.read_text().startswith("# what I thought")


def test_what_was_computed_is_computed_again(world: Path, data: Path) -> None:
    for ending in (".csv", ".json"):
        words = COMMANDS["evaluate"].format(world, world / f"figures{ending}", data).split()
        for _ in range(2):
            assert CliRunner().invoke(app, words).exit_code == 0
