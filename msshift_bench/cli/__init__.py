"""The `msshift` command: one module per sub-command.

Data goes to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 the data failed a check,
2 usage, 3 something needed is missing or the system refused, 130 interrupted. With MSSHIFT_DEBUG=1
every error comes with its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Annotated

import typer

from msshift_bench._version import __version__
from msshift_bench.cli import (
    analyse,
    annotation,
    board,
    build,
    compare,
    demo,
    doctor,
    evaluate,
    import_,
    leakage,
    list_,
    pretrain,
    publishing,
    report,
    run,
    score,
    similarity,
    triples,
    variants,
    verify,
)
from msshift_bench.cli.console import note
from msshift_bench.cli.failures import check_arguments, ready_streams, tell
from msshift_bench.cli.layout import lay_out, panels_in_order, with_called
from msshift_bench.plumbing import check_locks

__all__ = ["app", "main"]

_PANELS: Mapping[str, Sequence[ModuleType]] = {
    "Begin": (demo, list_, doctor),
    "Data": (build, import_, verify, triples, variants, publishing),
    "Systems": (run, pretrain),
    "Evaluation": (score, evaluate, compare, report),
    "Analysis": (similarity, leakage, annotation, analyse),
    "Leaderboard": (board,),
}
"""A panel of the help text -> the modules of its commands."""

_INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

_GO_ON = "interrupted; type the same command again: finished parts are kept"

app = typer.Typer(
    name="msshift",
    cls=panels_in_order(_PANELS),
    help="MS-Shift: how much does a retriever lose outside its training distribution?",
    epilog="Begin with `msshift demo`; or with `msshift build`, `msshift run bm25` and `msshift "
    "evaluate runs`, one after the other. Exit codes: 0 ok, 1 the data failed a check, 2 usage, 3 "
    "something needed is missing or the system refused. `MSSHIFT_DEBUG=1` shows where an error "
    "came from.",
    no_args_is_help=True,
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


for panel, modules in _PANELS.items():
    for module in modules:
        module.register(app)
    lay_out(app, panel)


def main() -> None:
    """Run the command line; the console script calls this."""
    try:
        ready_streams()
        check_locks()
        check_arguments(sys.argv)
        try:
            with_called(app, sys.argv[1:])()
        except SystemExit as done:
            # When nobody reads the pipe, Typer and rich exit with the code of wrong data.
            if isinstance(done.__context__, BrokenPipeError):
                raise done.__context__ from None
            if done.code == _INTERRUPTED:
                note(_GO_ON)
            raise
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # Typer turns it into an exit code only once a command is at work.
        note(_GO_ON)
        sys.exit(_INTERRUPTED)
    except Exception as error:
        sys.exit(tell(error))
