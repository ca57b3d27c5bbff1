"""Options that several commands share: dataclasses of options, and single options."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli.output import note, print_answers, print_json, print_tables, warn
from msshift_bench.errors import UnknownNameError, UsageError, check_name
from msshift_bench.plumbing import write_atomically, write_json, write_parquet
from msshift_bench.shifts import DATASET_NAME, SHIFTS

if TYPE_CHECKING:
    from msshift_bench.data import Collection, Dataset
    from msshift_bench.encoders import EncoderSpec
    from msshift_bench.evaluation import Result, Settings


def completing(names: Iterable[str] | str) -> Callable[[str], list[str]]:
    """Return a shell completion: a function from the start of a word to the names that match.

    Args:
        names: the names; or ``module:name`` in this package of the names, or of a function that
            returns them. The module is imported only when the shell asks.
    """

    def complete(incomplete: str) -> list[str]:
        known = resolve_name(f"msshift_bench.{names}") if isinstance(names, str) else names
        return [
            name for name in (known() if callable(known) else known) if name.startswith(incomplete)
        ]

    return complete


MEASURES = ("RR@10", "nDCG@10", "R@100", "R@1000", "AP", "P@10", "ASL@100")
"""Measures that shell completion offers; docs/measures.md explains all measures."""

WHERE_DATA = (
    "A built data set. Default: from MSSHIFT_HOME, else from `msshift.toml`, else ./msshift, else "
    "from `msshift install`."
)
Data = Annotated[str, typer.Option(help=WHERE_DATA, show_default=False)]
BuiltFolder = Annotated[str, typer.Argument(help=WHERE_DATA, show_default=False)]
RunSets = Annotated[
    list[str],
    typer.Argument(
        help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems)."
    ),
]
Shifts = Annotated[
    list[str] | None,
    typer.Option(help="Only this shift (repeatable).", autocompletion=completing(SHIFTS)),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Print results by the labels in this file (lines of query_id, tab, label), or by "
        "the groups of a shift, e.g. wh-words."
    ),
]
SourceName = Annotated[
    str | None,
    typer.Option(
        help="The collection of the data set. Default: from MSSHIFT_COLLECTION, else from "
        "`msshift.toml`, else the collection that the build read on this machine."
    ),
]
CollectionQrels = Annotated[
    str | None, typer.Option(help="Judgements to read instead of the collection's.")
]
Nano = Annotated[bool, typer.Option("--nano", help="Write a sample, e.g. 300 queries per group.")]
IdsOnly = Annotated[
    bool, typer.Option("--ids-only", help="Write no texts; `msshift import` adds them.")
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace an earlier build even if this loses shifts, triples, files, or data of "
        "another collection.",
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(
        help="Passages to ignore: own-id (with the query's own id), or a file of lines `query_id "
        "doc_id`.",
        autocompletion=completing(("own-id",)),
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a field of the system or its recipe, e.g. seed=3 or search.depth=100 (a "
        "value is read as TOML). Repeatable; `msshift list SYSTEM` lists the fields.",
    ),
]

Words = Annotated[
    str,
    typer.Option(
        help="Split words by whitespace (default), characters (Chinese, Japanese, Thai), or "
        "unicode.",
        autocompletion=completing("words:WORDS"),
        show_default=False,
    ),
]

EncoderSet = Annotated[
    list[str] | None,
    typer.Option("--encoder-set", help="A setting, e.g. truncate_dim=256 (repeatable)."),
]

ExtraTest = Annotated[
    list[str] | None,
    typer.Option(
        "--extra-test",
        metavar="NAME=PATH",
        help="An extra test set (repeatable): a folder with or without passages, an ir_datasets "
        "id, or a file of variants.",
    ),
]


Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="Accept: partial (runs, or over a tenth of a group's queries, missing), identical "
        "(two models with equal runs), leaked (model trained on test queries), other-data (other "
        "data or passages). Repeatable.",
        autocompletion=completing(("partial", "identical", "leaked", "other-data")),
        rich_help_panel="Checks",
    ),
]
WithoutLeaked = Annotated[
    Path | None,
    typer.Option(
        help="Also print figures without leaked test queries: the folder or `candidates.parquet` "
        "of `msshift leakage find`."
    ),
]
PerQuery = Annotated[
    Path | None, typer.Option(help="Also write every query's scores to this Parquet file.")
]


def chosen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the user set: the values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def named_collection(collection: str | None) -> str | None:
    """Return `collection`, or else the collection in ``MSSHIFT_COLLECTION``, or else `None`."""
    from msshift_bench.data import COLLECTION_VARIABLE

    return collection or os.environ.get(COLLECTION_VARIABLE)


def files_of_collection(collection: str | None) -> list[Path]:
    """Return the entries of a collection's folder; `[]` if the collection is not a folder."""
    name = named_collection(collection)
    folder = Path(name).expanduser() if name else None
    return list(folder.iterdir()) if folder and folder.is_dir() else []


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the whole numbers, 0 or more, in a comma-separated option; `[]` if it is empty.

    Raises:
        UsageError: if a part is not a whole number.
    """
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{option} is {text!r}; give whole numbers, e.g. 1,2,3")
    return [int(part) for part in parts]


def pairs(
    option: str, texts: Iterable[str] | None, form: str, *, repeated: bool = False
) -> list[tuple[str, str]]:
    """Return the names and values in an option's texts ``NAME=VALUE``, in their order.

    Args:
        option: the option's name, for messages.
        texts: the texts; `None` if the option was not given.
        form: the expected form, for messages, e.g. ``"NAME=PATH, e.g. dl19=./trec-dl-2019"``.
        repeated: whether a name may have several values.

    Raises:
        UsageError: if a text has no name or no value, or a name occurs twice.
    """
    values: list[tuple[str, str]] = []
    for text in texts or ():
        name, _, value = (part.strip() for part in text.partition("="))
        if not (name and value):
            raise UsageError(f"{option} is {text!r}; give {form}")
        if name in dict(values) and not repeated:
            raise UsageError(f"{option} names {name} twice; give it one value")
        values.append((name, value))
    return values


def extra_folders(texts: Sequence[str] | None) -> dict[str, Path]:
    """Return the extra test sets of ``--extra-test``: name -> folder or file."""
    return {
        name: Path(path)
        for name, path in pairs("--extra-test", texts, "NAME=PATH, e.g. dl19=./trec-dl-2019")
    }


def replacements(
    texts: Iterable[str] | None, option: str = "--set", example: str = "seed=3"
) -> dict[str, Any]:
    """Return the fields that an option such as ``--set`` replaces: name -> value.

    Values are parsed as TOML: a number, true, false, a list, a table. A value that is not TOML
    stays a string, so a word or a path needs no quotes.

    Raises:
        UsageError: see `pairs`.
    """
    values: dict[str, Any] = dict(pairs(option, texts, f"KEY=VALUE, e.g. {example}"))
    for name, text in values.items():
        with suppress(tomllib.TOMLDecodeError):
            values[name] = tomllib.loads(f"value = {text}")["value"]
    return values


def with_settings(
    encoder: str | None, texts: Sequence[str] | None, pooling: str | None = None
) -> str | EncoderSpec | None:
    """Return an encoder with its ``--encoder-set`` settings; else its name or `None`."""
    if not texts:
        return encoder
    from msshift_bench.encoders import EncoderSpec, ModelSettings

    values = replacements(texts, "--encoder-set", "truncate_dim=256")
    return EncoderSpec(
        encoder or "",
        pooling or "cls",
        settings=ModelSettings.with_defaults(values, "--encoder-set"),
    )


def _format_of(*formats: str, more: str = "") -> Any:
    """Return the option ``--format``, which is checked before anything is computed."""

    def check(chosen: str) -> str:
        return check_name("format", chosen, formats)

    return typer.Option(
        "--format",
        callback=check,
        help=f"Print as {', '.join(formats)}.{more}",
        autocompletion=completing(formats),
    )


TextOrJson = Annotated[str, _format_of("text", "json")]
Intervals = Annotated[bool, typer.Option("--intervals", help="Add intervals to --format latex.")]
TableFormat = Annotated[str, _format_of("text", "markdown", "latex", "json")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The data set, and the shifts to use."""

    data: Data = DATASET_NAME
    shift: Shifts = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The collection that a data set was built from."""

    collection: SourceName = None
    qrels: CollectionQrels = None

    def open(self, dataset: Dataset) -> Collection:
        """Return the opened collection; see `msshift_bench.data.open_source`."""
        from msshift_bench.data import open_source

        return open_source(dataset, self.collection, self.qrels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Encoder: the model that embeds queries."""

    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder: a Hub id, a folder, or `terms`. Default: distilbert-base-uncased; "
            "for `mini` `terms`."
        ),
    ] = None
    pooling: Annotated[
        str | None,
        typer.Option(
            help="How to pool tokens: cls (default), mean, or own, for a saved model of "
            "sentence-transformers."
        ),
    ] = None
    encoder_set: EncoderSet = None

    def chosen(self) -> dict[str, Any]:
        """Return the options that the user set: argument name -> value."""
        encoder = with_settings(self.encoder, self.encoder_set, self.pooling)
        return chosen({"encoder": encoder, "pooling": self.pooling})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cluster: where tasks run, and where their results are stored."""

    ray: Annotated[
        str | None,
        typer.Option(help="Run tasks on this Ray cluster: host:port, or auto for this machine's."),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            help="Keep finished tasks in this folder or at this URL, e.g. s3://bucket/name. "
            "Default: with unfinished work."
        ),
    ] = None

    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for a node with enough processors or GPUs. Default: stop with an error "
            "before anything starts.",
        ),
    ] = False

    def used(self) -> AbstractContextManager[object]:
        """Return the context in which tasks run with these options.

        Raises:
            UsageError: if `--wait` is given without a cluster.
            MissingExtraError: if a cluster is given and Ray is not installed.
        """
        from msshift_bench.engine import Engine, using_engine

        if self.wait and self.ray is None:
            raise UsageError("--wait works only with a Ray cluster; add --ray, or remove --wait")
        return using_engine(Engine(self.ray, self.store, self.wait))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """Statistics: how runs are scored, and how statistics of losses are computed."""

    measures: Annotated[
        str,
        typer.Option(
            help="Measures (ir_measures), separated by space or comma; the first is primary.",
            autocompletion=completing(MEASURES),
        ),
    ] = "RR@10"
    ties: Annotated[
        str,
        typer.Option(
            help="How ties are ordered: trec, rank, doc-id-ascending or expected.",
            autocompletion=completing("runs:TIE_POLICIES"),
        ),
    ] = "trec"
    missing: Annotated[
        str,
        typer.Option(
            help="A test query that a run lacks: score it zero, skip it, or stop with error.",
            autocompletion=completing(("zero", "skip", "error")),
        ),
    ] = "zero"
    correction: Annotated[
        str,
        typer.Option(
            help="How p-values are corrected: holm, bonferroni, benjamini-hochberg; or none.",
            autocompletion=completing(("holm", "bonferroni", "benjamini-hochberg", "none")),
        ),
    ] = "holm"
    average: Annotated[
        str | None,
        typer.Option(
            help="Average over groups (macro) or queries (pooled). Default: the shift authors' "
            "choice.",
            autocompletion=completing("stats:AVERAGES"),
        ),
    ] = None
    run_format: Annotated[
        str,
        typer.Option(
            help="The format of runs, e.g. trec or json; see docs/evaluate-runs.md.",
            autocompletion=completing("runs:RUN_FORMATS"),
        ),
    ] = "auto"
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat warnings about a run file as errors.")
    ] = False
    exclude: Exclude = None

    def settings(self) -> Settings:
        """Return the settings of an evaluation, with the errors of `Settings`."""
        from msshift_bench.evaluation import Settings

        return Settings(**asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing:
    """Output: how a result is printed, and where it is written."""

    format: Annotated[
        str,
        _format_of(
            *("text", "markdown", "latex", "latex-full", "csv", "json"),
            more=" csv has a row per figure.",
        ),
    ] = "text"
    output: Annotated[
        Path | None, typer.Option(help="Also write all figures: .json, .csv or .parquet.")
    ] = None
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print all notes below tables, not three lines.")
    ] = False

    def __post_init__(self) -> None:
        """Check the ending of the file before anything is computed; raise UnknownNameError."""
        if self.output is not None and self.output.suffix not in (".json", ".csv", ".parquet"):
            ending = self.output.suffix or self.output.name
            raise UnknownNameError("ending of --output", ending, (".json", ".csv", ".parquet"))

    def check_intervals(self, *, intervals: bool, delta: bool = False) -> None:
        """Check that intervals are wanted only where the table has none.

        Raises:
            UsageError: if they are wanted for another format, or with ``--delta``.
        """
        if intervals and (self.format != "latex" or delta):
            raise UsageError(
                f"--intervals is for the one table of --format latex, got --format {self.format}"
                + " --delta" * delta
                + "; leave it out: other tables have intervals"
            )

    def show(self, result: Result, **view: bool) -> None:
        """Write a result, and print its figures, or its tables above their notes.

        The file is written first, because the reader of a pipe may stop before the tables' end.

        Args:
            result: the result.
            view: arguments of the result's layout, e.g. ``delta``.
        """
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
            sections, warnings = result.sections(verbose=self.verbose), result.warnings
            for line in dict.fromkeys(line for _, notes in sections for line in notes):
                if line not in warnings:
                    note(line)
        else:
            if self.format == "latex" and result.kind in ("losses", "differences"):
                view["paper"] = not view.get("delta", False)
            print_answers(result.answers, self.format)
            for tables, notes in result.sections(verbose=self.verbose, **view):
                print_tables(tables, notes, self.format)
        warn(result.warnings)
