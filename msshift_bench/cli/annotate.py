"""``msshift annotate``: sheets for people who judge how alike test and training queries are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.targets import check_outputs
from msshift_bench.plumbing import progress_bars

__all__ = ["register"]


def sheet(
    train: Annotated[
        Path, typer.Option(help="The training queries: lines of query_id, tab, text.")
    ],
    test: Annotated[Path, typer.Option(help="The test queries, likewise.")],
    encoder: Annotated[
        str,
        typer.Option(
            help="The encoder that recalls candidates beside BM25: an id of the Hugging Face Hub, "
            "a folder, or `terms`."
        ),
    ] = "terms",
    candidates: Annotated[
        int, typer.Option(min=1, help="Candidates of BM25, and of the encoder, per test query.")
    ] = 10,
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("sheet.csv"),
) -> None:
    """Write a sheet to annotate: test queries with the training queries nearest to them.

    Give every annotator a copy. They fill in the last two columns of each row with 0, 1 or 2:
    `entity` (no entity in common, some, exactly the same) and `intent` (dissimilar, similar,
    duplicate).

    Example: `msshift annotate sheet --train train.tsv --test test.tsv`
    """
    from msshift_bench.encoders import EncoderSpec
    from msshift_bench.plumbing import write_atomically
    from msshift_bench.similarity import annotation_sheet

    check_outputs(out, inputs=[train, test])
    with progress_bars() as progress:
        made = annotation_sheet(
            train, test, EncoderSpec(encoder), candidates=candidates, progress=progress
        )
    with write_atomically(out) as file:
        file.write(made.encode())
    note(
        f"wrote {out}: fill in entity and intent with 0, 1 or 2, a copy per annotator, then "
        "'msshift annotate labels COPY COPY ...'"
    )


def labels(
    sheets: Annotated[
        list[Path], typer.Argument(help="The sheets that were filled in, one per annotator.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Count how many test queries are like a training query, and how far annotators agree.

    Of each pair the median point counts, of each test query the highest point of its candidates.
    Agreement is Cohen's kappa on pairs, averaged over the annotators' pairs; its interval counts
    other test queries.

    Example: `msshift annotate labels sheet-a.csv sheet-b.csv sheet-c.csv`
    """
    from msshift_bench.similarity import read_annotations

    found = read_annotations(sheets)
    if as_json:
        print_json(found.to_json())
        return
    for table in found.tables():
        print_table(table)
    print_notes([f"{found.annotators} annotators, {found.pairs:,} pairs of queries"])


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(
        help="Let people judge how alike test and training queries are.", no_args_is_help=True
    )
    group.command("sheet")(sheet)
    group.command("labels")(labels)
    app.add_typer(group, name="annotate")
