"""The commands of the command line, and the examples that their help texts give."""

from __future__ import annotations

import re

import typer

from msshift_bench.cli import app
from scripts.command_tree import leaves

__all__ = ["COMMANDS", "EXAMPLES", "leaves"]


COMMANDS = dict(leaves(typer.main.get_command(app)))
"""The words of a command -> the command."""

EXAMPLES = [
    example
    for command in COMMANDS.values()
    for example in re.findall(r"Example: `(.*?)`\n", f"{command.callback.__doc__}\n")
]
