"""``msshift predict``: what will systems lose on queries that nobody has measured yet?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import warn
from msshift_bench.cli.formats import TableFormat, choose_format, print_tables, print_values
from msshift_bench.cli.layout import in_panels

__all__ = ["register"]


def predict(
    train: Annotated[
        Path, typer.Option(help="A file of the training queries: query_id, tab, text.")
    ],
    test: Annotated[Path, typer.Option(help="A file of the new test queries, likewise.")],
    link: Annotated[
        Path | None,
        typer.Option(
            help="The analysis that holds the fitted link: what `msshift analyse --output` wrote. "
            "Default: the link of the paper's own figures."
        ),
    ] = None,
    indicator: Annotated[
        str | None, typer.Option(help="Whose link to use. Default: that of the first indicator.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="Whose Rel Loss. Default: that of the first measure.")
    ] = None,
    shift: Annotated[
        str | None,
        typer.Option(help="Use the link over this shift's groups. Default: over most groups."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that the link was made with, for mean-cosine and nearest-query."
        ),
    ] = None,
    extrapolate: Annotated[
        bool,
        typer.Option(
            "--extrapolate",
            help="Continue the line where the queries are less or more similar than any group "
            "that it was fitted to. Without this, that is an error (exit code 1).",
        ),
    ] = False,
    table_format: TableFormat = "text",
    as_json: options.AsJson = False,
) -> None:
    """Predict what systems lose on new queries, with an interval, from a link that was fitted.

    The indicator of the link is computed for the two files. Each system's line then says which Rel
    Loss to expect, and the prediction interval how far it may be off.

    Example: `msshift predict --train train.tsv --test test.tsv --link analysis.json`
    """
    from msshift_bench.analysis import predict_losses, prediction_panel

    chosen = choose_format(table_format, as_json=as_json)
    said: Any = {} if encoder is None else {"encoder": encoder}
    if link is None:
        from msshift_bench.analysis import analyse_published
    found = predict_losses(
        analyse_published() if link is None else link,
        train,
        test,
        indicator=indicator,
        measure=measure,
        shift=shift,
        extrapolate=extrapolate,
        **said,
    )
    tables, lines = prediction_panel(found)
    if not print_values(found, chosen, lines):
        print_tables(tables, lines, chosen)
    warn(found.remarks)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Link": ("link", "indicator", "measure", "shift", "encoder", "extrapolate"),
        "Output": ("table_format", "as_json"),
    }
    app.command("predict", cls=in_panels(panels))(predict)
