"""The files of recipes: the package's, and the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from msshift_bench.baselines.recipe import TrainingSettings, refusal
from msshift_bench.checked import parse_toml
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError

__all__ = [
    "RecipeFile",
    "find_recipe",
    "load_recipe",
    "parse_recipe",
    "recipe_files",
    "recipe_names",
    "shipped_recipe",
]

_R = TypeVar("_R", bound=TrainingSettings)

_END = ".toml"


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe's file.

    Attributes:
        name: its name for `msshift run --recipe`, e.g. ``paper``.
        source: its file, as the user named it, or ``<system>-<name>.toml`` in the package.
        text: its content, TOML.
    """

    name: str
    source: str
    text: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file: 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def about(self) -> str:
        """Its purpose: the comment on top up to its first colon; "" if there is none."""
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.removeprefix("#").strip())
        return " ".join(lines).partition(":")[0]


def recipe_files() -> Mapping[str, RecipeFile]:
    """Return the recipes that come with the package, by ``<system>-<name>``, sorted."""
    recipes = {}
    for entry in (files("msshift_bench.baselines") / "recipes").iterdir():
        if entry.name.endswith(_END):
            full = entry.name.removesuffix(_END)
            text = entry.read_text(encoding="utf-8")
            recipes[full] = RecipeFile(full, entry.name, text)
    return dict(sorted(recipes.items()))


def shipped_recipe(name: str) -> RecipeFile:
    """Return a recipe that comes with the package.

    Args:
        name: ``<system>-<name>``.

    Raises:
        UnknownNameError: if there is none; the message lists them and the nearest.
    """
    recipes = recipe_files()
    if name not in recipes:
        raise UnknownNameError("recipe", name, recipes)
    return recipes[name]


def recipe_names(system: str) -> tuple[str, ...]:
    """Return the names of the recipes that come with the package for a system."""
    prefix = f"{system}-"
    return tuple(name.removeprefix(prefix) for name in recipe_files() if name.startswith(prefix))


def find_recipe(system: str, recipe: str | Path) -> RecipeFile:
    """Return a recipe that comes with the package, or one from a file.

    Args:
        system: the system's name.
        recipe: a name such as ``mini``, or the path of a file that ends in ``.toml``.

    Raises:
        UnknownNameError: if the system has no recipe of that name.
        NotFoundError: if there is no such file.
        UsageError: if it is not UTF-8.
    """
    if str(recipe).endswith(_END):
        path = Path(recipe).expanduser()
        try:
            return RecipeFile(path.stem, str(path), path.read_bytes().decode())
        except FileNotFoundError:
            raise NotFoundError(f"no recipe {path}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8: {error}") from None
    names = recipe_names(system)
    if recipe not in names:
        raise UnknownNameError(f"recipe of {system}", str(recipe), names)
    shipped = recipe_files()[f"{system}-{recipe}"]
    return RecipeFile(str(recipe), shipped.source, shipped.text)


def parse_recipe(kind: type[_R], file: RecipeFile) -> _R:
    """Return the recipe in a file.

    Args:
        kind: the system's class of recipes.
        file: the recipe.

    Raises:
        UsageError: if it is not TOML, or a key is unknown, missing, of the wrong type or out of
            range; the message names every such key with its file and line.
    """
    return parse_toml(file.text, kind, file.source, partial(refusal, file.source))


def load_recipe(kind: type[_R], system: str, recipe: str | Path) -> _R:
    """Load a recipe that comes with the package, or one from a file.

    It raises the errors of `find_recipe` and `parse_recipe`.
    """
    return parse_recipe(kind, find_recipe(system, recipe))
