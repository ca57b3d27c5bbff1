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


@cache
def help_of(words: tuple[str, ...]) -> str:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(NARROW)})
    assert shown.exit_code == 0
    return shown.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_as_it_was_and_easy_to_read(words: tuple[str, ...]) -> None:
    """Half of 80 columns is left to words, and all fits two screens and ends with examples."""
    shown = help_of(words)
    GOLDEN.check(f"{'-'.join(words)}.txt", shown)
    lines = shown.strip().splitlines()
    assert len(lines) <= MOST_LINES
    command: Any = COMMANDS[words]
    for option in (one for one in command.params if one.param_type_name == "option"):
        (line,) = (one for one in lines if re.match(rf"│ [ *]*{option.opts[0]} ", one))
        first = re.sub(r"[`*]", "", option.help).split()[0]
        assert line.index(f" {first}") <= MOST_BEFORE_WORDS, line
        assert option.secondary_opts == [], "a switch has no twin"
    panels = shown.split("╭─ ")[1:]
    assert max(len(re.findall(r"(?m)^│ [ *]*--", panel)) for panel in panels) <= MOST_IN_PANEL
    _, _, end = shown.rpartition("╯")
    assert re.match(rf"\s+Examples?:\s+(• )?msshift {' '.join(words)}\b", end)


def test_help_says_how_data_are_found_and_which_recipe_is_used() -> None:
    shown = re.sub(r"[\s│]+", " ", help_of(("run",)))
    for place in ("MSSHIFT_HOME,", "that of msshift.toml,", "./msshift,", "msshift install."):
        assert place in shown
    assert "Default: mini, which is made for the collection mini." in shown


@pytest.mark.extended
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


@pytest.mark.extended
def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "msshift_bench", "build", "lenght"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "did you mean 'length'?" in done.stderr) == (2, True)


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


@pytest.mark.extended
def test_bash_completes_with_the_script_that_is_shown(msshift_script: Path) -> None:
    program = (
        'eval "$(msshift --show-completion bash)"; COMP_WORDS=(msshift lead); COMP_CWORD=1\n'
        '_msshift_completion msshift; echo "${COMPREPLY[@]}"'
    )
    path = f"{msshift_script.parent}{os.pathsep}{os.environ['PATH']}"
    command, env = ["bash", "--norc", "-c", program], {**os.environ, "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "leaderboard"), done.stderr
