"""Blocks of sh, which no test runs: they take hours, the slice, the Hub, or work of one's own.

Each command in them is one that there is, with options that it has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.support.commands import COMMANDS

PAGES = [*sorted((REPOSITORY / "docs").glob("*.md")), REPOSITORY / "CONTRIBUTING.md"]


def lines_of_sh() -> Iterator[tuple[str, str]]:
    """Yield ``(page, line)`` of every block of sh."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                yield page.name, line.replace("$(which msshift)", "msshift")


def check_line(line: str) -> str:
    """Check one line, and return what it calls; "" for what is not ours.

    Click raises its own errors for options and arguments that a command does not have.
    """
    words = shlex.split(line.partition(" > ")[0], comments=True)
    if "msshift" in words:
        given = words[words.index("msshift") + 1 :]
        length = next((n for n in (3, 2, 1) if tuple(given[:n]) in COMMANDS), 0)
        assert length, f"no command: {line}"
        command: Any = COMMANDS[tuple(given[:length])]
        command.make_context(" ".join(given[:length]), given[length:])
        return "msshift"
    script = next((word for word in words if word.startswith("scripts/")), None)
    if script is None:
        return ""
    text = (REPOSITORY / script).read_text("utf-8")
    for module in re.findall(r"-m (scripts\.\w+)", text):
        folder = REPOSITORY / Path(*module.split("."))
        text += "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    for option in words:
        assert not option.startswith("--") or option in text, f"no option {option}: {line}"
    return script


@pytest.mark.parametrize("page", sorted({page for page, _ in lines_of_sh()}))
def test_every_line_of_sh_is_one_that_can_be_typed(page: str) -> None:
    called = [check_line(line) for name, line in lines_of_sh() if name == page]
    assert any(called)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("msshift evaluat runs", "no command: msshift evaluat"),
        ("msshift evaluate runs --alsotest a=b", "No such option: --alsotest"),
        ("msshift predict --train train.tsv", "Missing"),
        ("scripts/reproduce topics --quikc", "no option --quikc"),
        ("accelerate launch msshift baseline run splade --shfit topics", "No such option: --shfit"),
    ],
)
def test_a_line_that_cannot_be_typed_is_found(line: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        check_line(line)
