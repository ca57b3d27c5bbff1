"""Recipes of the neural systems that train in a second, from random initialisation."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msshift_bench.baselines import recipe_files

__all__ = ["NEURAL", "tiny_pretraining", "tiny_recipe", "write_recipes"]

_RANDOM: Mapping[str, Any] = {
    "layers": 1,
    "hidden": 16,
    "heads": 2,
    "inner": 32,
    "vocabulary": 500,
    "dropout": 0,
}
"""The encoder's shape; weights are drawn by the recipe's seed."""

_COMMON: Mapping[str, Any] = {
    "encoder": "random",
    "query_length": 16,
    "passage_length": 40,
    "batch_size": 8,
    "accumulate": 1,
    "steps": 7,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "schedule": "cosine",
    "weight_decay": 0.01,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_gradient_norm": 1,
    "negatives": "bm25",
    "negatives_per_query": 2,
    "negatives_pool": 4,
    "negatives_depth": 20,
    "seed": 5,
    "precision": "fp32",
    "checkpoint_every": 3,
    "search": {"depth": 20, "batch_size": 32},
    "random": _RANDOM,
}

_OWN: Mapping[str, Mapping[str, Any]] = {
    "bi-encoder": {"pooling": "cls", "normalize": False, "loss_scale": 1},
    "splade": {
        "in_batch_negatives": "all",
        "query_flops": 1e-3,
        "passage_flops": 1e-3,
        "flops_steps": 4,
        "loss_scale": 1,
    },
    "colbert": {
        "dimensions": 8,
        "in_batch_negatives": False,
        "loss_scale": 1,
        "search": {"depth": 20, "batch_size": 32, "candidates": "bm25:25"},
    },
    "monobert": {"loss": "binary"},
}

_WORDS: Mapping[str, Any] = {
    "encoder": "collection",
    "random": None,
    "loss": "hinge",
    "words": {"vocabulary": 300, "dimensions": 8, "window": 3},
}

_RERANKERS: Mapping[str, Mapping[str, Any]] = {
    "monot5": {"loss": "binary"},
    "knrm": {**_WORDS, "finetune": True},
    "duet": {**_WORDS, "filters": 3, "hidden": 4, "pooled": 5, "dropout": 0.2},
    "pacrr": {**_WORDS, "longest": 2, "filters": 3, "kept": 2, "hidden": 4},
}

NEURAL = tuple(_OWN)
"""The systems of MS-Shift that have one."""

_PRETRAINING: Mapping[str, Any] = {
    "masked_words": {"share": 0.2},
    "late_head": {"layers": 1},
    "spans": {
        "short_least": 2,
        "short_most": 8,
        "long_least": 10,
        "long_most": 30,
        "mean": 1,
        "tokens": 1,
        "loss_scale": 10,
    },
}
"""The tasks of a pre-training."""

_FOR_SYSTEMS = {"encoder", "query_length", "search", *(key for key in _COMMON if "negat" in key)}
"""The keys that a pre-training has no use for."""


def tiny_recipe(system: str, **changes: Any) -> str:
    """Return a recipe as TOML; tables are changed key by key, and `None` leaves a key out."""
    return _changed({**_COMMON, **{**_OWN, **_RERANKERS}[system]}, changes)


def tiny_pretraining(**changes: Any) -> str:
    """Return a recipe of a pre-training as TOML; see `tiny_recipe`."""
    values = {key: value for key, value in _COMMON.items() if key not in _FOR_SYSTEMS}
    deeper = {"random": {"layers": 2, "dropout": 0.1}}
    return _changed({**values, **_PRETRAINING}, {**deeper, **changes})


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


def _changed(values: dict[str, Any], changes: Mapping[str, Any]) -> str:
    for key, value in changes.items():
        old = values.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        values[key] = {**old, **value} if both else value
    left = {key: value for key, value in values.items() if value is not None}
    return "".join(f"{key} = {_toml(value)}\n" for key, value in left.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
