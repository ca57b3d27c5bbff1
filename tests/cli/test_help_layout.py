"""Help texts: every option has one, no word is lost, and they are easy to read at 80 columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.conftest import Command
from tests.support.command_line import run_msshift, run_python
from tests.support.commands import COMMANDS, EXAMPLES

MOST_BEFORE_WORDS = 38
"""The column at which an option's help text begins at the latest; it ends at column 78."""
MOST_IN_PANEL = 9
MOST_LINES = 80

EACH = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


@cache
def help_of(words: tuple[str, ...], columns: int = 80) -> str:
    shown = run_msshift([*words, "--help"], Path.cwd(), {"COLUMNS": str(columns)})
    assert (shown.returncode, shown.stderr) == (0, "")
    return shown.stdout


@EACH
def test_help_is_easy_to_read_at_80_columns(words: tuple[str, ...]) -> None:
    """Half of 80 columns is left to words, and all fits two screens and ends with examples."""
    shown = help_of(words)
    lines = shown.strip().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(cell_len, lines)) <= 80
    command: Any = COMMANDS[words]
    assert f"Usage: msshift {' '.join(words)} " in shown
    for option in (one for one in command.params if one.param_type_name == "option"):
        (line,) = (one for one in lines if re.match(rf"│ [ *]*{option.opts[0]} ", one))
        first = re.sub(r"[`*]", "", option.help).split()[0]
        assert line.index(f" {first}") <= MOST_BEFORE_WORDS, line
        assert option.secondary_opts == [], "a switch has no twin"
    panels = shown.split("╭─ ")[1:]
    assert max(len(re.findall(r"(?m)^│ [ *]*--", panel)) for panel in panels) <= MOST_IN_PANEL
    _, _, end = shown.rpartition("╯")
    assert re.match(rf"\s+Examples?:\s+(• )?msshift {' '.join(words)}\b", end)


@EACH
def test_every_argument_has_help_and_no_word_of_it_is_lost(words: tuple[str, ...]) -> None:
    command: Any = COMMANDS[words]
    texts = [command.callback.__doc__, *(one.help for one in command.params)]
    assert all(texts)
    shown = help_of(words, columns=500)
    for text in texts:
        for word in re.sub(r"[`*]|Example:|\[default.*", "", text).split():
            assert word in shown, f"{word!r} of {text!r}"
    own = [one for one in EXAMPLES if one in command.callback.__doc__]
    assert own
    assert all(one.split()[1 : len(words) + 1] == list(words) for one in own)


def test_help_shows_how_data_are_found_and_which_recipe_is_used() -> None:
    shown = re.sub(r"[\s│]+", " ", help_of(("run",)))
    for place in ("MSSHIFT_HOME", "msshift.toml", "./msshift", "msshift install", "Default: mini"):
        assert place in shown


@pytest.mark.parametrize("arguments", ["", "evaluate"])
def test_help_is_light(arguments: str, tmp_path: Path) -> None:
    program = (
        "import sys; from msshift_bench import __main__, cli\n"
        "try:\n    __main__.main()\n"
        "finally:\n    print(*{one.split('.')[0] for one in sys.modules}, file=sys.stderr)"
    )
    done = run_python(program, tmp_path, arguments=[*arguments.split(), "--help"])
    assert "Usage" in done.stdout
    loaded = set(done.stderr.split())
    assert "msshift_bench" in loaded
    assert not {"numpy", "pyarrow", "scipy", "torch", "datasets"} & loaded


def test_scores_with_intervals_import_few_modules(tmp_path: Path) -> None:
    """A run's imports take a quarter of the time of scoring seven million lines."""
    (tmp_path / "my.run").write_text("q1 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\nq2 Q0 d1 1 2 t\n")
    (tmp_path / "qrels").write_text("q1 0 d2 1\nq2 0 d1 1\n")
    program = (
        "import sys; from msshift_bench import __main__, cli\n"
        "try:\n    __main__.main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = run_python(program, tmp_path, arguments=["score", "my.run", "--qrels", "qrels"])
    assert "75.0 [0.0, 100.0]" in done.stdout
    loaded = set(done.stderr.split())
    assert not {"scipy.stats", "scipy.optimize", "pandas", "torch"} & loaded


@pytest.mark.extended
def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "msshift_bench", "build", "lenght"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "'lenght'" in done.stderr) == (2, True)


@pytest.mark.every(3)
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
    assert (done.stdout.split(), done.stderr) == (found, "")


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
