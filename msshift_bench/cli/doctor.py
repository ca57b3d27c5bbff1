"""``msshift doctor`` and ``msshift cache``: what may stand in the way, and the cache."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table, stdout

if TYPE_CHECKING:
    from msshift_bench.doctor import CachedItem, Diagnosis

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
    as_json: options.AsJson = False,
) -> None:
    """Look at what may stand in your way: versions, extras, threads, disk, GPU, caches, Hub, data.

    Each line that is not "ok" says what to do. The command exits with 1 if data are damaged, and
    with 3 if something that is needed is missing.

    Example: `msshift doctor --offline`
    """
    from msshift_bench.doctor import State, examine

    found: list[Diagnosis] = []
    for one in examine(data or (), collection, ask_hub=not offline):
        found.append(one)
        if not as_json:
            _show(one)
    if as_json:
        print_json({"found": [asdict(one) for one in found]})
    states = Counter(one.state for one in found)
    rest = ", ".join(f"{count} {state}" for state, count in states.items() if state != State.OK)
    note(f"{states[State.OK]} of {len(found)} ok" + (f"; {rest}" if rest else ""))
    for state, code in ((State.DAMAGED, 1), (State.MISSING, 3)):
        if states[state]:
            raise typer.Exit(code)


def _show(one: Diagnosis) -> None:
    from msshift_bench.doctor import State

    console = stdout()
    style = {"ok": "green", "note": "dim", "warning": "yellow"}.get(one.state, "red")
    console.print(f"{one.state:<8}", style=style, end="")
    console.print(f" {one.code}: {one.found}", markup=False, soft_wrap=True)
    if one.cure and one.state != State.OK:
        console.print(f"         cure: {one.cure}", markup=False, soft_wrap=True)


_Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="Only this: data, embeddings, indexes or passages. May be given several times.",
    ),
]


def list_cache(kind: _Kinds = None, as_json: options.AsJson = False) -> None:
    """Show what the cache holds: kind, name, size, and when it was last changed.

    Example: `msshift cache list`
    """
    from msshift_bench.doctor import cached
    from msshift_bench.plumbing import cache_root

    items = cached(kind or ())
    _print_items(f"The cache in {cache_root()}", items, as_json=as_json)


def prune_cache(
    kind: _Kinds = None,
    days: Annotated[
        float, typer.Option(min=0, help="Only what was last changed so many days ago.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and keep it.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove embeddings, indexes and passages from the cache; commands make them again when needed.

    What a process is writing stays, and so does an installed data set, unless `--kind data` is
    given.

    Example: `msshift cache prune --days 30 --dry-run`
    """
    from msshift_bench.doctor import prune

    items = prune(*((kind,) if kind else ()), days=days, dry_run=dry_run)
    _print_items("Would be removed" if dry_run else "Removed", items, as_json=as_json)


def _print_items(title: str, items: list[CachedItem], *, as_json: bool) -> None:
    from msshift_bench.output import Table
    from msshift_bench.plumbing import duration

    if as_json:
        print_json({"items": [{**asdict(item), "folder": str(item.folder)} for item in items]})
    else:
        rows = [
            (
                item.kind,
                item.folder.name,
                f"{item.bytes / 1024**2:,.1f} MB",
                f"{duration(item.age)} ago" + (", in use" if item.in_use else ""),
            )
            for item in items
        ]
        print_table(Table.plain(title, ("kind", "name", "size", "changed"), rows, names=2))
    total = sum(item.bytes for item in items)
    note(f"{len(items)} folders, {total / 1024**2:,.1f} MB")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("doctor")(doctor)
    group = typer.Typer(help="Show and empty the cache.", no_args_is_help=True)
    group.command("list")(list_cache)
    group.command("prune")(prune_cache)
    app.add_typer(group, name="cache")
