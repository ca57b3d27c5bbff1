"""The reference pages, from the code: commands, names, shifts, indicators, recipes, rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer
from typer.testing import CliRunner

import msshift_bench
from msshift_bench.baselines.systems.recipe import recipe_files
from msshift_bench.cli import make_app
from msshift_bench.output import Table, to_markdown
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import INDICATORS
from scripts.command_tree import leaves
from scripts.site.messages import messages_page
from scripts.site.recipe_keys import key_tables

COLUMNS = "100"


def reference_pages() -> Mapping[str, str]:
    """Return name of a page -> its Markdown."""
    return {
        "commands.md": "\n".join(_commands()),
        "python.md": "\n".join(_names()),
        "shifts.md": "\n".join(_shifts()),
        "indicators.md": "\n".join(_indicators()),
        "recipes.md": "\n".join(_recipes()),
        "messages.md": messages_page(),
        "rooms.md": "\n".join(_rooms()),
    }


def _commands() -> Iterator[str]:
    yield "# Commands\n\nWhat `--help` prints, command by command.\n"
    runner = CliRunner()
    environment = {"COLUMNS": COLUMNS, "NO_COLOR": "1", "TERM": "dumb"}
    for words in [(), *dict(leaves(typer.main.get_command(make_app())))]:
        typed = [*words, "--help"]
        done = runner.invoke(make_app(typed[0]), typed, env=environment, prog_name="msshift")
        assert done.exit_code == 0, f"{words}: {done.output}"
        lines = "\n".join(line.rstrip() for line in done.output.strip().splitlines())
        yield f"## {' '.join(('msshift', *words))}\n\n```text\n{lines}\n```\n"


def _names() -> Iterator[str]:
    yield (
        "# Python\n\nEvery public name of `msshift_bench`, from its docstring. "
        "[From Python](../python.md) shows them at work.\n"
    )
    for name in sorted(msshift_bench.__all__, key=str.lower):
        if name != "__version__":
            yield f"::: msshift_bench.{name}\n"


def _shifts() -> Iterator[str]:
    yield "# Shifts\n"
    for shift in SHIFTS.values():
        yield f"## {shift.name}\n\n{shift.title}: {shift.description}.\n"
        yield to_markdown(Table.plain("Groups", ("group", "queries"), shift.groups.items())) + "\n"


def _indicators() -> Iterator[str]:
    yield (
        "# Indicators\n\nHow near test queries lie to training queries; "
        "[Why models lose](../analysis.md) explains them.\n"
    )
    rows = [
        (
            f"`{one.name}`",
            one.title,
            "each query" if one.per_query else "two sets of queries",
            one.needs or "-",
            one.higher,
            one.source,
        )
        for one in INDICATORS.values()
    ]
    header = ("name", "title", "value of", "needs", "a higher value says", "source")
    yield to_markdown(Table.plain("Indicators", header, rows, names=6)) + "\n"


def _recipes() -> Iterator[str]:
    yield (
        "# Recipes\n\nWhat does each key of a recipe mean, and which recipes are there? "
        "[Train the baselines](../baselines.md) shows how they are used.\n\n## Keys\n"
    )
    yield from key_tables()
    for name, file in recipe_files().items():
        yield f"## {name}\n\n```toml\n{file.text.strip()}\n```\n"


def _rooms() -> Iterator[str]:
    yield (
        "# Rooms\n\nThe purpose of each room of the package, from its docstring; "
        "[Architecture](../architecture.md) has their order.\n"
    )
    package = Path(msshift_bench.__file__).parent
    rooms = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    rows = []
    for path in sorted([*rooms, *package.glob("*/__init__.py")]):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        rows.append((name, docstring.partition("\n")[0]))
    yield to_markdown(Table.plain("Rooms", ("room", "purpose"), rows, names=2)) + "\n"
