"""Files that a user wrote are never replaced by outputs: sheets, descriptions, settings."""

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
def inputs(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, runs, queries and a sheet of verdicts; it is only read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "data").symlink_to(build_once("mini", "length"))
    for name in ("mine", "other"):
        write_runs(folder / "runs" / name, folder / "data")
    for name in ("train", "test"):
        (folder / f"{name}.tsv").write_text("1\twhat is a cat\n2\twho is a cat\n")
    fill(folder / "second.csv", dict.fromkeys(IDS, "11"), SIMILARITY, "bob")
    return folder


def refusal(command: str, inputs: Path, output: Path) -> str:
    """Run a command that must refuse to write a file, and return its message."""
    before = output.read_bytes()
    words = COMMANDS[command].format(inputs, output).split()
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError), done.output
    assert done.exception.exit_code == 2
    assert output.read_bytes() == before
    return str(done.exception)


COMMANDS = {
    "annotate": "annotate --train {0}/train.tsv --test {0}/test.tsv --out {1}",
    "agree": "agree {0}/second.csv --disputed {1}",
    "evaluate": "evaluate {0}/runs --data {0}/data --output {1}",
    "compare": "compare {0}/runs --data {0}/data --output {1}",
    "score": "score {0}/runs/mine/length/short.run.gz --data {0}/data --test length-short "
    "--output {1}",
    "analyse": "analyse {0}/runs --data {0}/data --output {1}",
    "variants": "variants typos --queries {0}/test.tsv --out {1}",
}
"""A command that writes a file -> its words, with the folder of inputs and the file."""


@pytest.mark.every(4)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sheet_with_verdicts_is_not_replaced(
    inputs: Path, tmp_path: Path, command: str, ending: str
) -> None:
    sheet = tmp_path / f"filled{ending}"
    if ending == ".csv":
        fill(sheet, dict.fromkeys(IDS, "20"), SIMILARITY, "ann")
    else:
        choice = {"from_name": "entity", "type": "choices", "value": {"choices": ["2"]}}
        write_sheet(PAIRS, SIMILARITY, sheet)
        tasks = json.loads(sheet.read_text())
        tasks[0]["annotations"] = [{"completed_by": 1, "result": [choice]}]
        sheet.write_text(json.dumps(tasks))
    assert f"{sheet} holds verdicts" in refusal(command, inputs, sheet)


def test_a_sheet_with_notes_is_not_replaced(inputs: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "empty.csv"
    write_sheet(PAIRS, SIMILARITY, sheet)
    lines = sheet.read_text().splitlines()
    sheet.write_text("\n".join([f"{lines[0]},notes", f"{lines[1]},ask Ann", *lines[2:]]) + "\n")
    assert "notes on 1 pairs" in refusal("annotate", inputs, sheet)


def test_a_description_of_a_system_is_not_replaced(inputs: Path, tmp_path: Path) -> None:
    system = write_system(tmp_path / "system.toml", length="msshift")
    assert "system.toml is a TOML file" in refusal("variants", inputs, system)
    submit_system(inputs / "runs/mine", system, tmp_path / "out", inputs / "data")
    inside = next((tmp_path / "out").rglob("system.toml"))
    inside.write_text("# what I thought\n" + inside.read_text())
    with pytest.raises(UsageError, match=r"is in .*out, which is replaced; choose another --out"):
        submit_system(inputs / "runs/mine", inside, tmp_path / "out", inputs / "data")
    assert inside.read_text().startswith("# what I thought")


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_computed_figures_are_replaced(inputs: Path, tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"figures{ending}"
    words = COMMANDS["evaluate"].format(inputs, output).split()
    contents = []
    for _ in range(2):
        assert CliRunner().invoke(app, words).exit_code == 0
        contents.append(output.read_bytes())
    assert contents[0] == contents[1] != b""
