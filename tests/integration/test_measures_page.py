"""The page on measures: its files, its commands, and what it says they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.conftest import REPOSITORY, Command

PAGE = (REPOSITORY / "docs" / "measures.md").read_text(encoding="utf-8")


def test_its_commands_print_what_it_shows(msshift: Command, tmp_path: Path) -> None:
    qrels, run, shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "graded.txt").write_text(qrels)
    (tmp_path / "graded.run").write_text(run)
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    printed: list[str] = []
    for line in block.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "msshift"
        done = msshift(*arguments)
        assert done.returncode == 0, done.stderr
        printed += [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert [line for line in printed if line in shown.splitlines()] == shown.splitlines()
