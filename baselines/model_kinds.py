"""The kinds of neural systems, and which of them a saved model is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.backbones import not_loaded
from msshift_bench.baselines.biencoder import BiEncoder
from msshift_bench.baselines.colbert import ColBert
from msshift_bench.baselines.monobert import MonoBert
from msshift_bench.baselines.splade import Splade
from msshift_bench.errors import UsageError, require

__all__ = ["ARCHITECTURES", "kind_of_model"]

ARCHITECTURES: Mapping[str, Architecture[Any]] = MappingProxyType(
    {one.name: one for one in (BiEncoder(), Splade(), ColBert(), MonoBert())}
)
"""Every kind of neural system by name."""

_SETTINGS = "config_sentence_transformers.json"
"""The file in which sentence-transformers names a model's class."""


def kind_of_model(model: str) -> str:
    """Return the kind of architecture that a model's settings name, a key of `ARCHITECTURES`.

    Args:
        model: a folder, or an id of the Hugging Face Hub.

    Raises:
        UsageError: if they name none, or are no JSON object.
        NotFoundError: if there is no such model, or the Hub cannot be reached.
    """
    file = _settings(model)
    try:
        settings = json.loads(file.read_bytes()) if file else {}
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise UsageError(f"{file} is not a JSON object, as a model's settings are; copy it again")
    model_type = settings.get("model_type")
    for name, architecture in ARCHITECTURES.items():
        if architecture.model_type == model_type:
            return name
    raise UsageError(
        f"{model} does not say what kind of model it is; name it with --as (in Python, kind): "
        + ", ".join(ARCHITECTURES)
    )


def _settings(model: str) -> Path | None:
    """Return the file of a model's settings; `None` if the model has none.

    Raises:
        NotFoundError: if there is no such model, or the Hub cannot be reached.
    """
    if Path(model).is_dir():
        file = Path(model) / _SETTINGS
        return file if file.is_file() else None
    hub = require("huggingface_hub", "neural", "a published model")
    errors = require("huggingface_hub.errors", "neural", "a published model")
    try:
        return Path(hub.hf_hub_download(model, _SETTINGS))
    except errors.RemoteEntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise not_loaded("model", model, error) from error
