"""Options that several commands share, each worded once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from msshift_bench.cli.console import note, print_json, warn
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.shifts import SHIFTS

if TYPE_CHECKING:
    from msshift_bench.evaluation import Result, Settings


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return what the shell's completion calls: from the begin of a word to the names for it."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


WHERE_DATA = (
    "A built data set: its folder. Default: the one that MSSHIFT_HOME names, else that of "
    "`msshift.toml`, else ./msshift, else the one that `msshift install` installed."
)
Data = Annotated[str, typer.Option(help=WHERE_DATA, show_default=False)]
BuiltFolder = Annotated[str, typer.Argument(help=WHERE_DATA, show_default=False)]
Shifts = Annotated[
    list[str] | None,
    typer.Option(
        help="Only this shift; repeat it for several. Default: all.",
        autocompletion=completing(lambda: SHIFTS),
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        help="The collection that the data set was built from; not needed for `mini`. Default: the "
        "one that MSSHIFT_COLLECTION or `msshift.toml` names."
    ),
]
CollectionQrels = Annotated[
    str | None,
    typer.Option(help="Read this qrels file instead of the one in the collection's folder."),
]

TopicEncoder = Annotated[
    str | None,
    typer.Option(
        help="The encoder that embeds the queries for `topics` and `resttest`: an id of the "
        "Hugging Face Hub, a folder, or `terms` (no neural network). Default: "
        "distilbert-base-uncased, or `terms` for `mini`."
    ),
]

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Carry tasks out on this Ray cluster: host:port, or auto for the one on this machine.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="Keep the results of finished tasks in this folder, or at this URL, such as "
        "s3://bucket/name, to which a cluster's machines write. Default: with the rest of the "
        "unfinished work."
    ),
]

Nano = Annotated[
    bool,
    typer.Option("--nano", help="Write a small part of every split, e.g. 300 queries per group."),
]
IdsOnly = Annotated[
    bool,
    typer.Option("--ids-only", help="Leave the texts out; `msshift import` adds them again."),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace an earlier build even if that loses shifts, triples, files that are no "
        "part of it, or the data set of another collection.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a field of the system or its recipe, e.g. seed=3 or search.depth=100 (a "
        "value is read as TOML); repeat it for several. `msshift list SYSTEM` shows all.",
    ),
]

TestConfig = Annotated[
    str | None,
    typer.Option(
        help="Score run files on this config's test set, e.g. length-short.",
        autocompletion=completing(lambda: [name for s in SHIFTS.values() for name in s.configs]),
    ),
]
TestQrels = Annotated[
    Path | None, typer.Option(help="Score run files on this qrels file (TREC's four columns).")
]


AlsoTest = Annotated[
    list[str] | None,
    typer.Option(
        "--also-test",
        metavar="NAME=PATH",
        help="An extra test set: a name, and a folder of queries.tsv and qrels.tsv, or a file of "
        "variants of the shifts' test queries (see `msshift variants`); repeat it for several.",
    ),
]


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the whole numbers, 0 or more, that an option lists; none if it is empty.

    Raises:
        UsageError: if it lists anything else.
    """
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{option} is {text!r}; give whole numbers, e.g. 1,2,3")
    return [int(part) for part in parts]


def extra_folders(given: Sequence[str] | None) -> dict[str, Path]:
    """Return name -> folder or file of the extra test sets that ``--also-test`` names.

    Raises:
        UsageError: if a value has no name or no path, or a name is there twice.
    """
    folders: dict[str, Path] = {}
    for text in given or ():
        name, _, folder = text.partition("=")
        if not (name and folder):
            raise UsageError(f"--also-test is {text!r}; give NAME=PATH, e.g. dl19=./trec-dl-2019")
        if name in folders:
            raise UsageError(f"--also-test names {name} twice; give each test set its own name")
        folders[name] = Path(folder)
    return folders


WithoutLeaked = Annotated[
    Path | None,
    typer.Option(
        help="Also print every figure without the test queries that leaked, and the difference: "
        "what `msshift leakage find` wrote, its folder or `candidates.parquet`."
    ),
]
PerQuery = Annotated[
    Path | None, typer.Option(help="Also write every query's scores to this Parquet file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def with_values(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes every field of its dataclasses as an option of its own.

    The panel of the options in the help text is what the docstring of the dataclass says before its
    colon.
    """
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    values: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in values:
            parameters += _fields_as_parameters(values[name])
        else:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=keyword))

    def command(**typed: Any) -> None:
        made = {
            name: kind(**{field.name: typed.pop(field.name) for field in fields(kind)})
            for name, kind in values.items()
        }
        function(**typed, **made)

    command.__doc__, command.__name__ = function.__doc__, function.__name__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _fields_as_parameters(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    parameters = []
    for field in fields(kind):
        base, (declared,) = hints[field.name].__origin__, hints[field.name].__metadata__
        option = copy(declared)
        option.rich_help_panel = kind.__doc__.partition(":")[0]
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[base, option],
            )
        )
    return parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """Statistics: how runs are scored, and how losses are inferred from the scores."""

    measures: Annotated[
        str,
        typer.Option(
            help="Measures by ir_measures' names, separated by spaces or commas; tables and "
            "pictures show the first one first."
        ),
    ] = "RR@10"
    ties: Annotated[
        str,
        typer.Option(help="The order of equal scores: trec, rank, doc-id-ascending or expected."),
    ] = "trec"
    missing: Annotated[
        str,
        typer.Option(
            help="A test query that a run lacks: scores zero, skip it, or stop with error."
        ),
    ] = "zero"
    correction: Annotated[
        str, typer.Option(help="How p-values are corrected: holm, bonferroni, benjamini-hochberg.")
    ] = "holm"
    average: Annotated[
        str | None,
        typer.Option(
            help="How groups are averaged: macro (each group counts alike) or pooled (each query "
            "does). Default: as the shift's authors do."
        ),
    ] = None
    run_format: Annotated[
        str, typer.Option(help="The runs' format: auto, trec, msmarco or parquet.")
    ] = "auto"
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat warnings about a run file as errors.")
    ] = False

    def settings(self) -> Settings:
        """Return the settings of an evaluation."""
        from msshift_bench.evaluation import Settings

        return Settings(**{field.name: getattr(self, field.name) for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """Checks: what is let through although it looks wrong."""

    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Go on where run files, or a tenth of a group's queries, are missing (partial), "
            "two models gave the same run (identical), a model was trained on test queries "
            "(leaked), or runs were made on other data or passages (other-data); repeat it for "
            "several.",
            autocompletion=completing(lambda: ("partial", "identical", "leaked", "other-data")),
        ),
    ] = None


FORMATS = ("text", "markdown", "latex", "csv", "json")
"""The formats of results on stdout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing:
    """Output: how a result is printed, and where it is written."""

    format: Annotated[
        str,
        typer.Option(
            help=f"How results are printed: {', '.join(FORMATS)}. csv is one long table of "
            "numbers, a row per figure; its notes go to stderr."
        ),
    ] = "text"
    output: Annotated[
        Path | None,
        typer.Option(help="Also write all figures to this file: .json, .csv or .parquet."),
    ] = None

    def check(self) -> None:
        """Check the format, and the ending of the file.

        Raises:
            UnknownNameError: for a format or an ending that does not exist.
        """
        if self.format not in FORMATS:
            raise UnknownNameError("format", self.format, FORMATS)
        if self.output is not None and self.output.suffix not in (".json", ".csv", ".parquet"):
            ending = self.output.suffix or self.output.name
            raise UnknownNameError("ending of --output", ending, (".json", ".csv", ".parquet"))

    def show(self, result: Result, **view: bool) -> None:
        """Write a result, and print its figures, or its tables above their notes.

        The file comes first: whoever reads the tables may stop before their end.

        Args:
            result: the result.
            view: what its tables are to show, as its layout takes it.
        """
        from msshift_bench.cli.formats import print_tables
        from msshift_bench.plumbing import write_atomically, write_json, write_parquet

        if self.output is not None:
            if self.output.suffix == ".json":
                write_json(self.output, result.to_json())
            elif self.output.suffix == ".parquet":
                write_parquet(self.output, result.to_arrow())
            else:
                with write_atomically(self.output) as file:
                    file.write(result.to_csv().encode())
            note(f"wrote {self.output}")
        if self.format == "json":
            print_json(result.to_json())
        elif self.format == "csv":
            print(result.to_csv(), end="")
            for line in dict.fromkeys(line.text for line in result.notes if line.kind != "doubt"):
                note(line)
        else:
            for tables, notes in result.sections(**view):
                print_tables(tables, notes, self.format)
        warn(result.doubts)


def is_typed(context: typer.Context, name: str) -> bool:
    """Return whether an option was typed; values of `msshift.toml` were not."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def refuse_others(context: typer.Context, taken: Collection[str], what: str) -> None:
    """Check that no option was typed but those that are taken.

    Raises:
        UsageError: if one was.
    """
    others = [name for name in context.params if name not in taken and is_typed(context, name)]
    if others:
        typed = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise UsageError(f"{typed} and {what} do not go together; leave out {typed}")
