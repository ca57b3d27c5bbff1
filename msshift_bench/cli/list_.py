"""``msshift list``: list the shifts and the baselines."""

from __future__ import annotations

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import print_json, print_table

__all__ = ["register"]


def list_(
    as_json: options.AsJson = False,
) -> None:
    """List the shifts with their groups, and the baselines.

    Example: `msshift list --json`
    """
    from msshift_bench.baselines import find_baselines
    from msshift_bench.output import Table
    from msshift_bench.shifts import SHIFTS

    systems = {name: system.description for name, system in find_baselines().items()}
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
                "baselines": systems,
            }
        )
        return
    for shift in SHIFTS.values():
        rules = f"rules: {', '.join(shift.rules)}" if shift.builder else "run sets only"
        title = f"{shift.name}: {shift.description} ({rules})"
        print_table(Table.plain(title, ("group", "queries"), shift.groups.items(), names=2))
    print_table(Table.plain("baselines", ("system", "what"), systems.items(), names=2))


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_)
