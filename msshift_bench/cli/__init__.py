"""The `msshift` command: one module per panel of its help text.

Data goes to stdout, progress and messages to stderr. Exit codes: 0 success, 1 the data failed a
check, 2 wrong usage, 3 something required is missing or the system refused, 130 interrupted.
``MSSHIFT_DEBUG=1`` adds a traceback to every error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from msshift_bench._version import __version__
from msshift_bench.cli import analysis, begin, board, building, datasets, leakage, scoring, systems
from msshift_bench.cli.command import Command, CommandGroup, FlattenedCommand, text_and_examples
from msshift_bench.cli.failures import open_missing_streams, report_error
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
"""Panel of the help text -> words of a command -> its function."""

_GROUPS: Mapping[str, str] = {
    "leakage": "Find and remove training queries that are equal or similar to test queries.",
    "leaderboard": "Check the leaderboard's entries, repeat a row, and build the pages.",
}
"""First word of a group of commands -> the group's help text."""

_PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""Parser settings of `msshift irds`: ir_datasets parses all arguments from COMMAND on."""

_INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""

_RESUME_HINT = "interrupted; run the same command again to continue: finished parts are kept"


def _print_version(requested: bool) -> None:
    if requested:
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
    """Return the Typer app; if `word` is a first word of commands, with only these, else all.

    Building the parsers of all commands takes longer than parsing a short run.
    """
    app = typer.Typer(
        name="msshift",
        cls=CommandGroup,
        help="MS-Shift: how much does a retriever lose outside its training distribution?",
        epilog="Begin with `msshift demo`; or with `msshift build`, then `msshift run bm25`, then "
        "`msshift evaluate runs`. Exit codes: 0 success, 1 the data failed a check, 2 wrong usage, "
        "3 something required is missing or the system refused. `MSSHIFT_DEBUG=1` adds a "
        "traceback to every error.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    first = {words.partition(" ")[0] for commands in _PANELS.values() for words in commands}
    selected = {word} if word in first else first
    groups: dict[str, typer.Typer] = {}
    for panel, commands in _PANELS.items():
        for words, function in commands.items():
            group, _, name = words.rpartition(" ")
            if (group or name) not in selected:
                continue
            if group and group not in groups:
                groups[group] = typer.Typer(
                    cls=CommandGroup, help=_GROUPS[group], no_args_is_help=True
                )
                app.add_typer(groups[group], name=group, rich_help_panel=panel)
            text, examples = text_and_examples(function)
            groups.get(group, app).command(
                name,
                cls=Command,
                help=text,
                epilog=examples,
                rich_help_panel=None if group else panel,
                context_settings=_PASSED_ON if words == "irds" else None,
            )(FlattenedCommand(function))
    return app


app = make_app()


def main() -> None:
    """Run the command line for `sys.argv`; it ends with SystemExit, and a bug's error is raised."""
    try:
        open_missing_streams()
        check_locks()
        for argument in sys.argv:
            argument.encode()  # Reports cannot quote an argument that is not UTF-8.
        try:
            make_app("".join(sys.argv[1:2]))(prog_name="msshift")
        except SystemExit as done:
            # After a broken pipe, Typer and rich exit with 1, the code for failed checks.
            if isinstance(done.__context__, BrokenPipeError):
                raise done.__context__ from None
            if done.code == _INTERRUPTED:
                note(_RESUME_HINT)
            raise
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # Typer returns an exit code only while a command runs.
        note(_RESUME_HINT)
        sys.exit(_INTERRUPTED)
    except Exception as error:
        sys.exit(report_error(error))
