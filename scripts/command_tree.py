"""The commands of a command line, for the reference pages and for the tests of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["leaves"]


def leaves(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, and the words that call it."""
    for name, below in command.commands.items():
        if hasattr(below, "commands"):
            yield from leaves(below, *words, name)
        else:
            yield (*words, *name.split()), below
