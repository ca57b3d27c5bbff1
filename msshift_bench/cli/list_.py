"""``msshift list``: what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from msshift_bench.cli.console import new_table, print_json, stdout

__all__ = ["register"]


def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the shifts with their groups, and the baselines.

    Example: `msshift list --json`
    """
    from msshift_bench.baselines import BASELINES
    from msshift_bench.shifts import SHIFTS

    if as_json:
        print_json(
            {
                "shifts": {
                    shift.name: {
                        "title": shift.title,
                        "groups": dict(shift.groups),
                        "configs": [shift.name, *shift.configs],
                        "rules": list(shift.rules),
                        "builder": bool(shift.builder),
                    }
                    for shift in SHIFTS.values()
                },
                "baselines": {name: system.description for name, system in BASELINES.items()},
            }
        )
        return
    console = stdout()
    for shift in SHIFTS.values():
        made = f"rules: {', '.join(shift.rules)}" if shift.builder else "run sets only"
        table = new_table(f"{shift.name}: {shift.description} ({made})", "group", "queries")
        table.columns[1].justify = "left"
        for group, about in shift.groups.items():
            table.add_row(group, about)
        console.print(table)
    table = new_table("baselines", "system", "what")
    table.columns[1].justify = "left"
    for name, system in BASELINES.items():
        table.add_row(name, system.description)
    console.print(table)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_)
