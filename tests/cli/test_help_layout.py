"""Help texts at 80 columns, the command as a module, and what the shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from tests.conftest import Command
from tests.support.commands import COMMANDS
from tests.support.golden import Golden

NARROW = 80
MOST_BEFORE_WORDS = 38
"""The column at which an option's help text begins at the latest; it ends at column 78."""
MOST_IN_PANEL = 9
MOST_LINES = 80
GOLDEN = Golden(Path(__file__).with_name("golden"))


def options_of(words: tuple[str, ...]) -> list[Any]:
    command: Any = COMMANDS[words]
    return [one for one in command.params if one.param_type_name == "option"]


@cache
def help_of(words: tuple[str, ...]) -> str:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(NARROW)})
    assert shown.exit_code == 0
    return shown.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_half_of_80_columns_is_left_to_words(words: tuple[str, ...]) -> None:
    lines = help_of(words).splitlines()
    for option in options_of(words):
        (line,) = (one for one in lines if re.match(rf"│ [ *]*{option.opts[0]} ", one))
        first = re.sub(r"[`*]", "", option.help).split()[0]
        assert line.index(f" {first}") <= MOST_BEFORE_WORDS, line


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_as_it_was(words: tuple[str, ...]) -> None:
    GOLDEN.check(f"{'-'.join(words)}.txt", help_of(words))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_two_screens_and_ends_with_examples(words: tuple[str, ...]) -> None:
    lines = help_of(words).strip().splitlines()
    assert len(lines) <= MOST_LINES
    _, _, end = help_of(words).rpartition("╯")
    assert re.match(rf"\s+Examples?:\s+(• )?msshift {' '.join(words)}\b", end)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_panel_is_long(words: tuple[str, ...]) -> None:
    panels = help_of(words).split("╭─ ")[1:]
    assert panels
    assert max(len(re.findall(r"(?m)^│ [ *]*--", panel)) for panel in panels) <= MOST_IN_PANEL


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_switch_has_no_twin(words: tuple[str, ...]) -> None:
    assert [option.secondary_opts for option in options_of(words) if option.secondary_opts] == []


def test_help_says_how_data_are_found_and_which_recipe_is_used() -> None:
    shown = re.sub(r"[\s│]+", " ", help_of(("run",)))
    for place in ("MSSHIFT_HOME,", "that of msshift.toml,", "./msshift,", "msshift install."):
        assert place in shown
    assert "Default: mini, which is made for the collection mini." in shown


def test_help_is_light() -> None:
    script = (
        "import sys; from msshift_bench.cli import app\n"
        "app(['evaluate', '--help'], standalone_mode=False)\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "Usage" in done.stdout
    assert not {"numpy", "pyarrow", "scipy", "torch", "datasets"} & set(done.stderr.split())


@pytest.mark.slow
def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "msshift_bench", "build", "lenght"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "did you mean 'length'?" in done.stderr


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("msshift eval", ["evaluate"]),
        ("msshift verify --topics re", ["replay", "retrain"]),
        ("msshift evaluate --shift le", ["length"]),
        ("msshift score x --test length-s", ["length-short"]),
        ("msshift run bi", ["bi-encoder"]),
        ("msshift run bm25 --held-out sh", ["short"]),
        ("msshift list pretrain-m", ["pretrain-mini"]),
        ("msshift evaluate --ties t", ["trec"]),
        ("msshift score --measures nD", ["nDCG@10"]),
        ("msshift evaluate --average m", ["macro"]),
        ("msshift compare --format m", ["markdown"]),
        ("msshift analyse --indicator nea", ["nearest-query"]),
        ("msshift leakage find --fail-on near", ["near-duplicate"]),
        ("msshift build --test-si", ["--test-size"]),
    ],
)
def test_the_shell_completes(msshift: Command, line: str, found: list[str]) -> None:
    words = str(len(line.split()) - 1)
    done = msshift(_MSSHIFT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=words)
    assert done.stdout.split() == found
    assert done.stderr == ""


@pytest.mark.slow
def test_bash_completes_with_the_script_that_is_shown(msshift_script: Path) -> None:
    program = (
        'eval "$(msshift --show-completion bash)"; COMP_WORDS=(msshift lead); COMP_CWORD=1\n'
        '_msshift_completion msshift; echo "${COMPREPLY[@]}"'
    )
    path = f"{msshift_script.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "leaderboard"), done.stderr
