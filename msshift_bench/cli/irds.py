"""``msshift irds``: run ir_datasets' command line with this data set registered."""

from __future__ import annotations

from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.errors import MissingError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def irds(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A command of ir_datasets and its arguments: `export`, `lookup`, `list`, "
            "`doc_fifos` or `generate_metadata`.",
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    collection: Annotated[
        str | None,
        typer.Option(
            help="The collection that holds the passages: a folder, an ir_datasets id or `mini`. "
            "Default: the one that MSSHIFT_COLLECTION or `msshift.toml` names."
        ),
    ] = None,
) -> None:
    """Run a command of ir_datasets that knows the data set as msshift/SHIFT/GROUP/SPLIT.

    Give this command's options first; ir_datasets gets everything from COMMAND on.

    Example: `msshift irds export msshift/length/short/test queries`
    """
    from msshift_bench.data import IR_DATASETS_FAILURES, reason_of
    from msshift_bench.irds import register as register_entries

    register_entries(data, collection)
    import ir_datasets

    try:
        ir_datasets.main(arguments or [])
    except KeyError as error:
        # Some of its commands say this themselves; others let the registry's error through.
        if error.args[0] not in (arguments or []):
            raise
        note(f"Dataset {error.args[0]} not found.")
        raise typer.Exit(1) from None
    except BrokenPipeError:
        raise
    except IR_DATASETS_FAILURES as error:
        # What it could not write is named with its place.
        reason = reason_of(error) if isinstance(error, RuntimeError) else str(error)
        raise MissingError(f"ir_datasets did not get what it needs: {reason}") from None


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    passed_on = {"allow_interspersed_args": False, "ignore_unknown_options": True}
    app.command("irds", context_settings=passed_on)(irds)
