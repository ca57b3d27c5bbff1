"""Arguments of a command that do not go together are refused in words that say what to type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.cli.options import replacements
from msshift_bench.data import open_dataset
from msshift_bench.errors import UsageError
from tests.conftest import Build


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("submit --out entry", "give the folder of a system's run sets and --system FILE"),
        ("import one two --check", "--check counts in one checkout; give it alone"),
        ("verify DATA --topics sideways", "'sideways'"),
    ],
)
def test_what_does_not_go_together(line: str, words: str, build_once: Build) -> None:
    data = str(build_once("mini:300", "length"))
    done = CliRunner().invoke(app, [word.replace("DATA", data) for word in line.split()])
    assert words in str(done.exception)
    assert done.exit_code


def test_topics_grow_as_far_as_the_command_says(tmp_path: Path) -> None:
    out = tmp_path / "msshift"
    line = f"build topics --collection mini:500 --encoder terms --topic-size 40 --out {out}"
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 0, done.output
    parameters = open_dataset(out).manifest.shifts["topics"]["parameters"]
    assert parameters["clustering"]["target"] == 40


def test_values_are_read_as_toml_and_what_is_none_as_a_text() -> None:
    settings = ["seed=3", "k1 = 0.9", "a.b=true", "c=[1, 2]", "d=some/model", 'e="3"', "f=x=y"]
    values = {"seed": 3, "k1": 0.9, "a.b": True, "c": [1, 2], "d": "some/model"}
    assert replacements(settings) == {**values, "e": "3", "f": "x=y"}
    for wrong, message in (
        (["seed"], "--set is 'seed'; give KEY=VALUE"),
        (["=3"], "--set is '=3'"),
        (["seed="], "--set is 'seed='"),
        (["seed=1", "seed=2"], "--set names seed twice"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            replacements(wrong)
