"""The command line's output: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from msshift_bench.output import Table

__all__ = [
    "note",
    "print_json",
    "print_notes",
    "print_table",
    "stdout",
    "warn",
]


_WIDEST = 1000
"""Columns of the screen; no table is wider."""


def stdout() -> Console:
    """Return a console for results; 160 columns wide where stdout is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def _is_styled() -> bool:
    """Return whether stdout shows styles; loading rich takes a tenth of a short command's time."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def print_table(table: Table) -> None:
    """Print a table on stdout; a table wider than the screen is not folded."""
    from msshift_bench.output import to_rich, to_text

    if not _is_styled():
        # The rule is ours to draw, with what the environment's encoding has; names are not.
        rule = "─" if "─".encode(sys.stdout.encoding or "utf-8", "ignore") else "-"
        print(f"{table.title}\n{to_text(table, rule)}", end="")
        return
    console = stdout()
    console.print(table.title, style="bold", markup=False)
    # Where the screen is too narrow, rich would cut figures off.
    console.width = _WIDEST
    console.print(to_rich(table))


def print_notes(lines: Sequence[str]) -> None:
    """Print the notes below a table: policies, versions and doubts, one line each."""
    if not _is_styled():
        print("".join(f"  {line}\n" for line in lines), end="")
        return
    console = stdout()
    for line in lines:
        console.print(f"  {line}", style="dim", markup=False, soft_wrap=True)


def note(message: str) -> None:
    """Print a message on stderr."""
    print(message, file=sys.stderr, flush=True)


def warn(remarks: Sequence[str]) -> None:
    """Print each remark that makes figures doubtful on stderr, as a warning."""
    for remark in remarks:
        note(f"warning: {remark}")


def print_json(value: object) -> None:
    """Print a result as JSON on stdout."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
