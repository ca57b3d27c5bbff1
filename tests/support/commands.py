"""The commands of the command line, and the examples that their help texts give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from msshift_bench.cli import app

__all__ = ["COMMANDS", "EXAMPLES", "leaves"]


def leaves(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, and the words that call it."""
    for name, below in command.commands.items():
        if hasattr(below, "commands"):
            yield from leaves(below, *words, name)
        else:
            yield (*words, *name.split()), below


COMMANDS = dict(leaves(typer.main.get_command(app)))
"""The words of a command -> the command."""

EXAMPLES = [
    example
    for command in COMMANDS.values()
    for example in re.findall(r"Example: `(.*?)`\n", f"{command.callback.__doc__}\n")
]
