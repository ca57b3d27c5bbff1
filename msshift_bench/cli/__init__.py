"""The `msshift` command: one module per panel of its help text.

Data goes to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 the data failed a check,
2 usage, 3 something needed is missing or the system refused, 130 interrupted. With MSSHIFT_DEBUG=1
every error comes with its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from msshift_bench._version import __version__
from msshift_bench.cli import analysis, begin, board, building, datasets, leakage, scoring, systems
from msshift_bench.cli.command import Command, CommandGroup, FlattenedCommand, text_and_examples
from msshift_bench.cli.failures import ready_streams, tell
from msshift_bench.cli.output import note
from msshift_bench.plumbing import check_locks

__all__ = ["app", "main", "make_app"]

_PANELS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Begin": {"demo": begin.demo, "list": begin.list_, "doctor": begin.doctor},
    "Data": {
        "build": building.build,
        "import": building.import_,
        "verify": datasets.verify,
        "triples": datasets.triples,
        "export": datasets.export,
        "variants": datasets.variants,
        "install": datasets.install,
        "push": datasets.push,
        "irds": datasets.irds,
    },
    "Systems": {"run": systems.run, "pretrain": systems.pretrain},
    "Evaluation": {
        "score": scoring.score,
        "evaluate": scoring.evaluate,
        "compare": scoring.compare,
        "report": scoring.report,
    },
    "Analysis": {
        "similarity": analysis.similarity,
        "leakage find": leakage.find,
        "leakage clean": leakage.clean,
        "leakage experiment": leakage.experiment,
        "annotate": analysis.annotate,
        "agree": analysis.agree,
        "analyse": analysis.analyse,
    },
    "Leaderboard": {
        "submit": board.submit,
        "leaderboard check": board.check,
        "leaderboard build": board.build,
    },
}
"""A panel of the help text -> the words of a command -> its function."""

_GROUPS: Mapping[str, str] = {
    "leakage": "Find training queries that are the test queries, or nearly.",
    "leaderboard": "The leaderboard: check entries, repeat a row, build the pages.",
}
"""The first word of several commands -> what they are about."""

_PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""Settings of `msshift irds`: what follows a command of ir_datasets is for that."""

_INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

_GO_ON = "interrupted; type the same command again: finished parts are kept"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"msshift-bench {__version__}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def make_app(word: str = "") -> typer.Typer:
    """Return the command line, with only those commands that a first word calls, if it does.

    To make the parser of every command takes longer than to parse a short run.
    """
    app = typer.Typer(
        name="msshift",
        cls=CommandGroup,
        help="MS-Shift: how much does a retriever lose outside its training distribution?",
        epilog="Begin with `msshift demo`; or with `msshift build`, `msshift run bm25` and "
        "`msshift evaluate runs`, one after the other. Exit codes: 0 ok, 1 the data failed a "
        "check, 2 usage, 3 something needed is missing or the system refused. `MSSHIFT_DEBUG=1` "
        "shows where an error came from.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    first = {words.partition(" ")[0] for commands in _PANELS.values() for words in commands}
    called = {word} if word in first else first
    groups: dict[str, typer.Typer] = {}
    for panel, commands in _PANELS.items():
        for words, function in commands.items():
            above, _, name = words.rpartition(" ")
            if (above or name) not in called:
                continue
            if above and above not in groups:
                groups[above] = typer.Typer(
                    cls=CommandGroup, help=_GROUPS[above], no_args_is_help=True
                )
                app.add_typer(groups[above], name=above, rich_help_panel=panel)
            text, examples = text_and_examples(function)
            groups.get(above, app).command(
                name,
                cls=Command,
                help=text,
                epilog=examples,
                rich_help_panel=None if above else panel,
                context_settings=_PASSED_ON if words == "irds" else None,
            )(FlattenedCommand(function))
    return app


app = make_app()


def main() -> None:
    """Run the command line; the console script calls this."""
    try:
        ready_streams()
        check_locks()
        for argument in sys.argv:
            argument.encode()  # Or reports cannot quote it; `tell` says so.
        try:
            make_app("".join(sys.argv[1:2]))(prog_name="msshift")
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
