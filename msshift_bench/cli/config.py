"""``msshift config``: the settings that are in effect, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.config_file import (
    CONFIG_NAME,
    CONFIG_TEMPLATE,
    CONFIG_VARIABLE,
    ConfigFile,
    find_config,
    find_setting,
    with_its_cache,
)
from msshift_bench.cli.console import print_json, print_notes, print_table
from msshift_bench.cli.layout import Command
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def config(
    template: Annotated[
        bool, typer.Option("--template", help=f"Print a {CONFIG_NAME} to fill in, and stop.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show which data set, collection, cache and shifts commands use, and what says so.

    A command takes each from the first place that has it: its option, the environment variable, the
    file `msshift.toml`, the default. The file is the one that MSSHIFT_CONFIG names, or else that of
    the working directory or of a folder above it, up to your home.

    Example: `msshift config`

    Example: `msshift config --template > msshift.toml`
    """
    from msshift_bench.output import Table

    if template:
        print(CONFIG_TEMPLATE, end="")
        return
    file = find_config()
    settings = dict(_settings(file))
    if as_json:
        shown = {name: {"value": value, "from": where} for name, (value, where) in settings.items()}
        print_json({"file": None if file is None else str(file.path), "settings": shown})
        return
    rows = [
        (name, " ".join(value) if isinstance(value, list) else value or "-", where)
        for name, (value, where) in settings.items()
    ]
    print_table(Table.plain("Settings", ("setting", "value", "from"), rows, names=3))
    print_notes(
        [
            f"read {file.path}"
            if file is not None
            else f"no {CONFIG_NAME} here or above, and no {CONFIG_VARIABLE}; "
            f"'msshift config --template > {CONFIG_NAME}' begins one"
        ]
    )


def _settings(file: ConfigFile | None) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield key -> value and what says so; the value of a setting that nothing says is `None`."""
    from msshift_bench.data import locate
    from msshift_bench.plumbing import cache_root

    with with_its_cache(file):
        folder = locate()
    found = "default" if folder == Path(DATASET_NAME) else "default: installed"
    unsaid = {
        "data": (str(folder), found if folder.exists() else "default; not there yet"),
        "collection": (None, "default: mini to build, else what the data set was built from"),
        "cache": (
            str(cache_root()),
            "XDG_CACHE_HOME" if os.environ.get("XDG_CACHE_HOME") else "default",
        ),
        "shifts": (None, "default: all"),
    }
    for key, default in unsaid.items():
        yield key, find_setting(key, file) or default


class _UnfilledCommand(Command):
    """A command that takes nothing from the configuration file."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return super(Command, self).invoke(ctx)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("config", cls=_UnfilledCommand)(config)
