"""Options that several commands share, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str, typer.Option(help="The built data set; MSSHIFT_HOME or ./msshift by default.")
]
Shifts = Annotated[list[str] | None, typer.Option(help="Only this shift; may be repeated.")]
Qrels = Annotated[str | None, typer.Option(help="Another qrels file of a folder collection.")]

Encoder = Annotated[
    str | None,
    typer.Option(
        help="What embeds the queries for the topics: an id of the Hugging Face Hub, a folder, or "
        "`terms` (no neural network). By default distilbert-base-uncased; for `mini`, terms."
    ),
]

Test = Annotated[
    str | None, typer.Option(help="The test set of run files: a config, e.g. length-short.")
]
TestQrels = Annotated[
    Path | None, typer.Option(help="The test set of run files: any qrels file (TREC's columns).")
]
RunFormat = Annotated[
    str, typer.Option("--run-format", help="trec, msmarco or parquet; detected by default.")
]
Strict = Annotated[bool, typer.Option(help="Make warnings about a run file errors.")]

Measures = Annotated[
    str, typer.Option(help="Measures as ir_measures names them, separated by spaces or commas.")
]
Ties = Annotated[
    str, typer.Option(help="How equal scores are ordered: trec, rank, doc-id-ascending, expected.")
]
Missing = Annotated[
    str, typer.Option(help="Test queries that a run does not hold: zero, skip or error.")
]
Correction = Annotated[
    str, typer.Option(help="Of the p-values across groups: holm or benjamini-hochberg.")
]
Average = Annotated[
    str | None,
    typer.Option(
        help="Over groups: macro (each group counts alike) or pooled (each query does); each "
        "shift's own by default."
    ),
]
SeedVariance = Annotated[
    str,
    typer.Option(
        help="Where the variance of seeds comes from: own (the system's seeds), or pooled (all its "
        "models are taken to vary alike: narrower, and too narrow if they do not)."
    ),
]

ForceData = Annotated[
    bool,
    typer.Option(
        "--force-data", help="Score runs although their sidecars say that they are of other data."
    ),
]
AllowIdentical = Annotated[
    bool,
    typer.Option("--allow-identical", help="Two models of a system may have given the same file."),
]

Output = Annotated[Path | None, typer.Option(help="Write everything as JSON to this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
