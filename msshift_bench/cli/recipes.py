"""``msshift recipes``: list, show and copy the recipes of the reference systems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table

__all__ = ["register"]

RecipeName = Annotated[
    str, typer.Argument(help="A recipe's name; `msshift recipes list` shows all.")
]


def list_(as_json: options.AsJson = False) -> None:
    """List the recipes that come with the package.

    A recipe's name is its system's name, a hyphen, and the name that `--recipe` takes.

    Example: `msshift recipes list`
    """
    from msshift_bench.baselines import recipe_files
    from msshift_bench.output import Table

    recipes = recipe_files()
    if as_json:
        print_json(
            {
                name: {"about": recipe.about, "sha256": recipe.sha256}
                for name, recipe in recipes.items()
            }
        )
        return
    rows = [(name, recipe.sha256[:12], recipe.about) for name, recipe in recipes.items()]
    print_table(Table.plain("recipes", ("recipe", "sha256", "what"), rows, names=3))


def show(name: RecipeName) -> None:
    """Print a recipe, with its comments.

    Example: `msshift recipes show splade-paper`
    """
    from msshift_bench.baselines.recipe_files import shipped_recipe

    sys.stdout.write(shipped_recipe(name).text)


def copy(
    name: RecipeName,
    file: Annotated[
        Path | None, typer.Argument(help="The file to write. Default: NAME.toml in this folder.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Copy a recipe into a file. Change it there, and train with `msshift baseline run --recipe`.

    A recipe that begins with pretrain- is for `msshift baseline pretrain --recipe`.

    Example: `msshift recipes copy bi-encoder-mini mine.toml`
    """
    from msshift_bench.baselines.recipe_files import copy_recipe
    from msshift_bench.baselines.registry import BASELINES

    target = copy_recipe(name, file, overwrite=overwrite)
    print(target)
    # The recipes of no system are those of pre-training.
    commands = [f"run {system}" for system in BASELINES if name.startswith(f"{system}-")]
    command = commands[0] if commands else "pretrain"
    note(f"change it, and train by it with: msshift baseline {command} --recipe {target}")


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(
        help="List, show and copy the recipes by which the reference systems train and search.",
        no_args_is_help=True,
    )
    group.command("list")(list_)
    group.command("show")(show)
    group.command("copy")(copy)
    app.add_typer(group, name="recipes")
