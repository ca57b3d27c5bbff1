"""What ``msshift`` prints when nothing else is typed: five commands to start with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["FIRST_COMMANDS", "first_commands"]

FIRST_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "msshift demo": "all of it on a small generated world",
        "msshift build": "a data set: what to train on, what to test with",
        "msshift run bm25": "search with a reference system",
        "msshift evaluate runs": "what the systems in runs/ score and lose",
        "msshift doctor": "what may stand in your way on this machine",
    }
)
"""A command that runs as it stands, after those before it -> what it does."""


def first_commands() -> str:
    """Return the lines to print; they fit 80 columns."""
    wide = max(map(len, FIRST_COMMANDS))
    lines = (f"  {command:<{wide}}   {what}" for command, what in FIRST_COMMANDS.items())
    return "\n".join(
        (
            "MS-Shift: how much does a retriever lose outside its training distribution?",
            "",
            "Five commands to start with:",
            "",
            *lines,
            "",
            "All commands: msshift --help. One of them: msshift evaluate --help.",
        )
    )
