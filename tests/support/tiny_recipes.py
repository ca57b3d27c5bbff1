"""Recipes that train in a second: the packaged ``mini``, with smaller models and fewer steps."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msshift_bench.baselines import recipe_files

__all__ = ["NEURAL", "tiny_pretraining", "tiny_recipe", "write_recipes"]

Values = Mapping[str, Any]

NEURAL = ("bi-encoder", "splade", "colbert", "monobert")
"""The trained systems of MS-Shift."""

_SHAPE = {"layers": 1, "hidden": 16, "heads": 2, "inner": 32, "vocabulary": 500, "dropout": 0}
"""The encoder; its weights are drawn by the recipe's seed."""

_TRAINING: Values = {
    "passage_length": 40, "batch_size": 8, "steps": 7, "checkpoint_every": 3, "seed": 5,
    "learning_rate": 1e-3, "warmup_steps": 2, "schedule": "cosine", "weight_decay": 0.01,
}  # fmt: skip

_SYSTEM: Values = {
    "query_length": 16, "search": {"depth": 20, "batch_size": 32},
    "negatives_per_query": 2, "negatives_pool": 4, "negatives_depth": 20,
}  # fmt: skip

_WORDS: Values = {"loss": "hinge", "words": {"vocabulary": 300, "dimensions": 8, "window": 3}}

_OWN: Mapping[str, Values] = {
    "bi-encoder": {"pooling": "cls", "normalize": False, "loss_scale": 1},
    "splade": {"query_flops": 1e-3, "passage_flops": 1e-3, "flops_steps": 4},
    "colbert": {"dimensions": 8, "in_batch_negatives": False, "search": {"candidates": "bm25:25"}},
    "monobert": {"loss": "binary"},
    "monot5": {"loss": "binary"},
    "knrm": {**_WORDS, "finetune": True},
    "duet": {**_WORDS, "filters": 3, "hidden": 4, "pooled": 5, "dropout": 0.2},
    "pacrr": {**_WORDS, "longest": 2, "filters": 3, "hidden": 4},
}

_PRETRAINING: Values = {
    "random": {"layers": 2, "dropout": 0.1},
    "masked_words": {"share": 0.2},
    "late_head": {"layers": 1},
    "spans": {
        "short_least": 2, "short_most": 8, "long_least": 10, "long_most": 30,
        "mean": 1, "tokens": 1, "loss_scale": 10,
    },
}  # fmt: skip


def tiny_recipe(system: str, **changes: Any) -> str:
    """Return a recipe as TOML; tables are changed key by key, and `None` leaves a key out."""
    return _tiny(system, _TRAINING, _SYSTEM, _OWN[system], changes)


def tiny_pretraining(**changes: Any) -> str:
    """Return a recipe of a pre-training as TOML; see `tiny_recipe`."""
    return _tiny("pretrain", _TRAINING, _PRETRAINING, changes)


def write_recipes(folder: Path) -> Path:
    """Write the packaged recipes ``mini`` with tiny models and two steps; return the folder.

    It is for `MSSHIFT_RECIPES`: commands then train as a user types them, in a moment.
    """
    folder.mkdir(parents=True)
    for name, recipe in recipe_files().items():
        if name.endswith("-mini"):
            values = tomllib.loads(recipe.text)
            small: dict[str, Any] = {"steps": 2, "checkpoint_every": 2}
            if "random" in values:
                small["random"] = {"layers": 1, "hidden": 16, "inner": 32, "vocabulary": 300}
            (folder / f"{name}.toml").write_text(_changed(values, small))
    return folder


def _tiny(system: str, *changes: Values) -> str:
    values = tomllib.loads(recipe_files()[f"{system}-mini"].text)
    if "random" in values:
        values["random"] = _SHAPE
    return _changed(values, *changes)


def _changed(values: dict[str, Any], *changes: Values) -> str:
    for key, value in (pair for each in changes for pair in each.items()):
        old = values.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        values[key] = {**old, **value} if both else value
    left = {key: value for key, value in values.items() if value is not None}
    return "".join(f"{key} = {_toml(value)}\n" for key, value in left.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
