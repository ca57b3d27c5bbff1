"""Where the command line's output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from msshift_bench.errors import MsShiftError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["new_table", "note", "print_error", "print_json", "stderr", "stdout"]


def stdout() -> Console:
    """Return a console for results; 160 columns wide where stdout is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def stderr() -> Console:
    """Return a console for progress and messages."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def new_table(title: str, *columns: str) -> Table:
    """Return an empty table whose first column is text and whose others are figures."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def note(message: str) -> None:
    """Tell the user something on stderr."""
    print(message, file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """Print a result as JSON on stdout."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def print_error(error: MsShiftError) -> None:
    """Print an error on stderr, without a traceback."""
    note(f"error: {error}")
