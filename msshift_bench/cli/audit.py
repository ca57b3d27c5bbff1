"""``msshift audit``: count what is odd in the official release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import print_json, print_notes, print_table
from msshift_bench.errors import UnknownNameError

__all__ = ["register"]

AUDIT_FORMATS = ("text", "markdown", "json")


def audit(
    folder: Annotated[
        Path, typer.Argument(help="A checkout of the official release, with the folder EVAL.")
    ],
    table_format: Annotated[
        str, typer.Option("--format", help=f"How tables are printed: {', '.join(AUDIT_FORMATS)}.")
    ] = "text",
    as_json: options.AsJson = False,
) -> None:
    """Count what is odd in a checkout of the official release of 2022.

    It counts queries without text, queries in two groups, labels that break the stated rules, and
    overlaps between test sets and between training and test queries. It exits with 0 whatever it
    finds.

    Example: `msshift audit ms-marco-shift --format markdown`
    """
    from msshift_bench.dataset_builders.audit import audit_release
    from msshift_bench.output import render_notes, to_markdown

    chosen = "json" if as_json else table_format
    if chosen not in AUDIT_FORMATS:
        raise UnknownNameError("format", chosen, AUDIT_FORMATS)
    release_audit = audit_release(folder)
    if chosen == "json":
        print_json(release_audit.to_json())
    elif chosen == "markdown":
        for table in release_audit.tables():
            print(to_markdown(table))
        print(render_notes(release_audit.notes(), chosen), end="")
    else:
        for table in release_audit.tables():
            print_table(table)
        print_notes(release_audit.notes())


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("audit")(audit)
