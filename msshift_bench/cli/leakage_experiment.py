"""``msshift leakage experiment``: what models learn from leakage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels

__all__ = ["add_experiment"]


def experiment(
    collection: Annotated[
        str,
        typer.Option(
            help="The passages, and the training queries with their judgements: a folder, an id of "
            "ir_datasets, or `mini`."
        ),
    ],
    system: Annotated[
        list[str] | None,
        typer.Option(help="A neural baseline; repeat it for several. Default: knrm and pacrr."),
    ] = None,
    sizes: Annotated[
        str, typer.Option(help="Sizes of training sets, in instances: a query with one passage.")
    ] = "1000,2000,4000",
    leaked: Annotated[int, typer.Option(min=2, help="How many instances leak.")] = 200,
    seeds: Annotated[str, typer.Option(help="Seeds of the trainings.")] = "1,2,3",
    recipe: Annotated[
        str, typer.Option(help="The recipe's name, or the TOML file for one system.")
    ] = "mini",
    epochs: Annotated[
        int, typer.Option(min=1, help="How often a training meets each instance.")
    ] = 1,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the test topics: queries.tsv and qrels.tsv. Without it, some of "
            "the collection's queries are the topics."
        ),
    ] = None,
    topics: Annotated[
        int, typer.Option(min=2, help="How many topics are drawn, without --test.")
    ] = 50,
    found: Annotated[
        Path | None,
        typer.Option(
            help="What `msshift leakage find` wrote for these topics and training queries. "
            "Leaking queries that are lacking are planted."
        ),
    ] = None,
    tier: Annotated[
        str, typer.Option(help="Queries leak that were found at this tier or a stricter one.")
    ] = "near-duplicate",
    depth: Annotated[
        int, typer.Option(min=1, help="How many of BM25's first passages are re-ranked.")
    ] = 100,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("leakage-experiment"),
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Train models with and without leakage, and measure what that changes.

    Training sets of each size come in three kinds: without leakage; with training queries that
    leak; with the test topics themselves. The tables show effectiveness with five-fold choice of
    the size, by size, and what became of the leaked passages (Froebe et al., SPIRE 2022, Tables 3
    to 8). The folder keeps the training sets, all scores, and `result.json`. It may be killed, and
    goes on.

    Example: `msshift leakage experiment --collection mini:300 --sizes 20 --leaked 8 --seeds 1`
    """
    from msshift_bench.baselines.leakage_experiment import run_leakage_experiment
    from msshift_bench.plumbing import progress_bars, shown_log

    chosen = choose_format(table_format, as_json=as_json)
    with shown_log(), progress_bars() as progress:
        result = run_leakage_experiment(
            collection,
            out,
            systems=system or ["knrm", "pacrr"],
            sizes=options.whole_numbers("--sizes", sizes),
            leaked=leaked,
            seeds=options.whole_numbers("--seeds", seeds),
            recipe=recipe,
            epochs=epochs,
            test=test,
            found=found,
            tier=tier,
            topics=topics,
            depth=depth,
            progress=progress,
        )
    note(f"wrote {out}")
    notes = result.notes()
    if not print_values(result, chosen, notes):
        print_tables(result.tables(), notes, chosen)


def add_experiment(group: typer.Typer) -> None:
    """Add the command to `msshift leakage`."""
    panels = {
        "Topics": ("test", "topics", "found", "tier"),
        "Training": ("system", "recipe", "sizes", "leaked", "seeds", "epochs"),
        "Search and output": ("depth", "out", "table_format", "as_json"),
    }
    group.command("experiment", cls=in_panels(panels))(experiment)
