"""Recipes: everything that decides how a model is trained and searched with, in one TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError

__all__ = ["RANDOM", "RandomEncoder", "Recipe", "load_recipe", "recipe_names"]

RANDOM = "random"
"""The name of the encoder that is built from nothing; its shape is the table ``[random]``."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "pooling": ("cls", "mean"),
    "schedule": ("constant", "linear", "cosine"),
    "precision": ("fp32", "bf16", "fp16"),
}

_AT_LEAST: Mapping[str, float] = {
    "query_length": 3,
    "passage_length": 3,
    "batch_size": 2,
    "steps": 1,
    "learning_rate": 0,
    "warmup_steps": 0,
    "weight_decay": 0,
    "loss_scale": 0,
    "negatives": 1,
    "negatives_depth": 1,
    "seed": 0,
    "checkpoint_every": 1,
    "depth": 1,
    "encode_batch_size": 1,
    "layers": 1,
    "hidden": 1,
    "heads": 1,
    "inner": 1,
    "vocabulary": 100,
    "dropout": 0,
}


@dataclass(frozen=True, slots=True)
class RandomEncoder:
    """The shape of a BERT that is trained from random initialisation.

    Attributes:
        layers: transformer layers.
        hidden: size of the hidden states, and so of the embeddings; a multiple of `heads`.
        heads: attention heads.
        inner: size of the feed-forward layers.
        vocabulary: most word pieces; they are learnt from the collection's passages.
        dropout: probability, 0 or more and below 1, on hidden states and attention.
    """

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int
    dropout: float

    def __post_init__(self) -> None:
        _check_ranges(self)
        if self.hidden % self.heads:
            raise UsageError(f"hidden is {self.hidden}, which is no multiple of heads {self.heads}")
        if self.dropout >= 1:
            raise UsageError(f"dropout is {self.dropout}; it must be below 1")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained, and how passages are searched with it.

    Attributes:
        encoder: a folder or an id of the Hugging Face Hub, or ``random``.
        pooling: how token states become one vector: ``cls`` or ``mean``.
        normalize: whether vectors are scaled to length 1, so that dot products are cosines.
        query_length: most tokens of a query, special tokens included.
        passage_length: most tokens of a passage, special tokens included.
        batch_size: queries per step; the passages of the others are each query's negatives.
        steps: optimizer steps.
        learning_rate: at its highest; the optimizer is AdamW.
        warmup_steps: steps in which the learning rate rises from 0.
        schedule: how it goes on from there: ``constant``, ``linear`` or ``cosine`` to 0.
        weight_decay: of AdamW, not applied to biases and layer norms.
        loss_scale: what dot products are multiplied by in the softmax (the inverse of the
            temperature).
        negatives: passages per query drawn from BM25's ranking.
        negatives_depth: how far down that ranking they are drawn from.
        seed: of the initial weights, the dropout, the order of the queries and their negatives.
        precision: of training on a GPU or CPU: ``fp32``, ``bf16`` or ``fp16``.
        checkpoint_every: steps between checkpoints, from which a killed training goes on.
        depth: passages per ranking.
        encode_batch_size: texts encoded together when searching.
        random: the shape of the encoder, if and only if that is ``random``.
    """

    encoder: str
    pooling: str
    normalize: bool
    query_length: int
    passage_length: int
    batch_size: int
    steps: int
    learning_rate: float
    warmup_steps: int
    schedule: str
    weight_decay: float
    loss_scale: float
    negatives: int
    negatives_depth: int
    seed: int
    precision: str
    checkpoint_every: int
    depth: int
    encode_batch_size: int
    random: RandomEncoder | None = None

    def __post_init__(self) -> None:
        for name, valid in _CHOICES.items():
            if getattr(self, name) not in valid:
                raise UnknownNameError(name, getattr(self, name), valid)
        _check_ranges(self)
        if (self.encoder == RANDOM) != (self.random is not None):
            raise UsageError(
                f"the encoder is {self.encoder!r}; a table [{RANDOM}] goes with "
                f"encoder = {RANDOM!r} and with no other"
            )

    def parameters(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)

    def changed(
        self, *, encoder: str | None = None, seed: int | None = None, depth: int | None = None
    ) -> Recipe:
        """Return the recipe with what the command line replaces; `None` replaces nothing."""
        new: dict[str, Any] = {"seed": seed, "depth": depth}
        recipe = replace(self, **{name: value for name, value in new.items() if value is not None})
        if encoder is None or encoder == self.encoder:
            return recipe
        return replace(recipe, encoder=encoder, random=None)


def _check_ranges(shape: RandomEncoder | Recipe) -> None:
    for item in fields(shape):
        value = getattr(shape, item.name)
        lowest = _AT_LEAST.get(item.name)
        if lowest is not None and not (math.isfinite(value) and value >= lowest):
            raise UsageError(f"{item.name} is {value}; it must be {lowest} or more")


def recipe_names(system: str) -> tuple[str, ...]:
    """Return the names of the recipes that come with the package for a system."""
    folder = files("msshift_bench.baselines") / "recipes"
    prefix, suffix = f"{system}-", ".toml"
    return tuple(
        sorted(
            entry.name.removeprefix(prefix).removesuffix(suffix)
            for entry in folder.iterdir()
            if entry.name.startswith(prefix) and entry.name.endswith(suffix)
        )
    )


def load_recipe(system: str, recipe: str | Path) -> Recipe:
    """Load a recipe that comes with the package, or one from a file.

    Args:
        system: the system that it is for.
        recipe: a name such as ``mini``, or the path of a file that ends in ``.toml``.

    Raises:
        UnknownNameError: if the system has no recipe of that name.
        NotFoundError: if there is no such file.
        UsageError: if it is not TOML, or a key is unknown, missing, of the wrong type or out of
            range; the message names the file and the key.
    """
    if str(recipe).endswith(".toml"):
        path = Path(recipe).expanduser()
        try:
            return _parse(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise NotFoundError(f"no recipe {path}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8: {error}") from None
    names = recipe_names(system)
    if recipe not in names:
        raise UnknownNameError(f"recipe of {system}", str(recipe), names)
    name = f"{system}-{recipe}.toml"
    text = (files("msshift_bench.baselines") / "recipes" / name).read_text(encoding="utf-8")
    return _parse(text, name)


def _parse(text: str, source: str) -> Recipe:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}") from None
    try:
        table = values.pop(RANDOM, None)
        if table is not None:
            if not isinstance(table, dict):
                raise UsageError(f"{RANDOM} is {table!r}; it must be a table")
            values[RANDOM] = RandomEncoder(**_checked(RandomEncoder, table, f"[{RANDOM}]"))
        return Recipe(**_checked(Recipe, values, "recipe"))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _checked(kind: type, values: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the values with whole numbers made floats where floats are wanted."""
    wanted = {item.name: item for item in fields(kind)}
    checked = {}
    for name, value in values.items():
        if name not in wanted:
            raise UnknownNameError(f"key of the {what}", name, wanted)
        type_name = str(wanted[name].type)
        if type_name == "float" and type(value) is int:
            value = float(value)
        if type(value).__name__ not in type_name:
            raise UsageError(f"{name} is {value!r}; it must be of type {type_name}")
        checked[name] = value
    missing = [
        name for name, item in wanted.items() if name not in values and item.default is MISSING
    ]
    if missing:
        raise UsageError(f"the {what} lacks {', '.join(missing)}")
    return checked
