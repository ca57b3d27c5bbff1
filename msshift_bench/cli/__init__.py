"""The `msshift` command: one module per sub-command.

Data goes to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 the data failed a check,
2 usage, 3 something needed is missing, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from msshift_bench import __version__
from msshift_bench.cli import (
    audit,
    baseline,
    build,
    compare,
    demo,
    evaluate,
    hydrate,
    install,
    irds,
    leaderboard,
    list_,
    push,
    submit,
    topics,
    triples,
    validate,
    verify,
)
from msshift_bench.cli.console import print_error
from msshift_bench.errors import MsShiftError

__all__ = ["app", "main"]

app = typer.Typer(
    name="msshift",
    help="MS-Shift: how much does a retriever lose outside its training distribution?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"msshift-bench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


for module in (
    demo,
    list_,
    build,
    topics,
    triples,
    hydrate,
    verify,
    audit,
    push,
    install,
    irds,
    baseline,
    evaluate,
    compare,
    validate,
    submit,
    leaderboard,
):
    module.register(app)


def main() -> None:
    """Run the command line; what the console script calls."""
    try:
        app()
    except MsShiftError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our stdout has gone, e.g. `| head`; nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
