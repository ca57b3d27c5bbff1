"""Options that several commands share, each worded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.errors import UsageError
from msshift_bench.shifts import SHIFTS


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

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where shards of the work are carried out: local (here), ray (a Ray cluster) or slurm "
        "(a job array: its script is written).",
        autocompletion=completing(lambda: ("local", "ray", "slurm")),
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="ray: the cluster's address, host:port. Default: the one on this machine."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="local: processes (default: 1); ray: most shards under way; slurm: most jobs at once.",
    ),
]
ShardFolder = Annotated[
    str | None,
    typer.Option(
        "--shards",
        help="Keep finished shards in this folder, or below this URL, such as s3://bucket/shards, "
        "to which workers write. Default: with the rest of the unfinished work.",
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
RunFormat = Annotated[
    str, typer.Option("--run-format", help="The runs' format: auto, trec, msmarco or parquet.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Treat warnings about a run file as errors.")
]

Measures = Annotated[
    str, typer.Option(help="Measures by ir_measures' names, separated by spaces or commas.")
]
Ties = Annotated[
    str,
    typer.Option(help="The order of equal scores: trec, rank, doc-id-ascending or expected."),
]
Missing = Annotated[
    str,
    typer.Option(help="A test query that a run lacks: scores zero, skip it, or stop with error."),
]
Correction = Annotated[
    str,
    typer.Option(help="How p-values are corrected for several groups: holm, benjamini-hochberg."),
]
Average = Annotated[
    str | None,
    typer.Option(
        help="How groups are averaged: macro (each group counts alike) or pooled (each query "
        "does). Default: as the shift's authors do."
    ),
]
SeedVariance = Annotated[
    str,
    typer.Option(
        help="How the variance over seeds is estimated: own (from each figure's own values), or "
        "pooled (from all models of the system: narrower, and too narrow if they do not vary "
        "alike)."
    ),
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
    if not all(part.isdecimal() for part in parts):
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


ForceData = Annotated[
    bool,
    typer.Option(
        "--force-data",
        help="Score runs even if their sidecars name another data set, or other passages than each "
        "other's.",
    ),
]
AllowPartial = Annotated[
    bool,
    typer.Option(
        "--allow-partial", help="Go on where run files are missing, with those that are there."
    ),
]
AllowIdentical = Annotated[
    bool,
    typer.Option("--allow-identical", help="Accept the same run file under two models."),
]

Output = Annotated[Path | None, typer.Option(help="Also write all results as JSON to this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
