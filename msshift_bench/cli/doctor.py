"""``msshift doctor``: what may stand in the way, the settings in effect, and the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.config_file import CONFIG_NAME, find_config, find_setting
from msshift_bench.cli.console import note, print_json, stdout
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.doctor import Diagnosis

__all__ = ["register"]


def doctor(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets to verify. Default: ./msshift, MSSHIFT_HOME, the installed one.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(help="A collection to count and name, e.g. a local copy of MS MARCO."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the Hugging Face Hub.")
    ] = False,
    prune: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="DAYS",
            help="First remove from the cache what was last changed so many days ago or earlier: "
            "embeddings, indexes, passages; not the installed data set, nor what is being written.",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Look at what may stand in your way: settings, extras, threads, disk, GPU, cache, Hub, data.

    Each line that is not "ok" says what to do. A setting is the data set, collection, cache or
    shifts that commands use, and what says so: the environment variable, the file `msshift.toml`
    or the default; an option wins. The command exits with 1 if data are damaged, and with 3 if
    something that is needed is missing.

    Example: `msshift doctor --offline`

    Example: `msshift doctor --prune 30`
    """
    from msshift_bench.doctor import State, examine, prune_cache

    def looked_at() -> Iterator[Diagnosis]:
        yield from () if prune is None else prune_cache(prune)
        yield from _settings()
        yield from examine(data or (), collection, ask_hub=not offline)

    diagnoses: list[Diagnosis] = []
    for diagnosis in looked_at():
        diagnoses.append(diagnosis)
        if not as_json:
            _show(diagnosis)
    if as_json:
        print_json({"diagnoses": [asdict(diagnosis) for diagnosis in diagnoses]})
    states = Counter(diagnosis.state for diagnosis in diagnoses)
    rest = ", ".join(f"{count} {state}" for state, count in states.items() if state != State.OK)
    note(f"{states[State.OK]} of {len(diagnoses)} ok" + (f"; {rest}" if rest else ""))
    for state, code in ((State.DAMAGED, 1), (State.MISSING, 3)):
        if states[state]:
            raise typer.Exit(code)


def _show(diagnosis: Diagnosis) -> None:
    from msshift_bench.doctor import State

    console = stdout()
    style = {"ok": "green", "note": "dim", "warning": "yellow"}.get(diagnosis.state, "red")
    console.print(f"{diagnosis.state:<8}", style=style, end="")
    console.print(f" {diagnosis.code}: {diagnosis.text}", markup=False, soft_wrap=True)
    if diagnosis.cure and diagnosis.state != State.OK:
        console.print(f"         cure: {diagnosis.cure}", markup=False, soft_wrap=True)


def _settings() -> Iterator[Diagnosis]:
    """Say which data set, collection, cache and shifts commands use, and what says so."""
    from msshift_bench.data import locate
    from msshift_bench.doctor import Diagnosis, State
    from msshift_bench.plumbing import cache_root

    folder = locate()
    usual = "default" if folder == Path(DATASET_NAME) else "installed"
    defaults = {
        "data": (folder, usual if folder.exists() else f"{usual}; not there yet"),
        "collection": ("mini to build, else what the data set was built from", "default"),
        "cache": (cache_root(), "default"),
        "shifts": ("all", "default"),
    }
    file = find_config()
    for key, default in defaults.items():
        value, origin = find_setting(key, file) or default
        shown = ", ".join(value) if isinstance(value, list) else value
        yield Diagnosis("setting", State.OK, f"{key} = {shown} ({origin})")
    if file is None:
        cure = f"see docs/configuration.md for a {CONFIG_NAME}"
        yield Diagnosis("setting", State.NOTE, f"no {CONFIG_NAME} here or above", cure)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("doctor")(doctor)
