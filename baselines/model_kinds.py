"""The kinds of neural systems, and which of them a saved model is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.backbones import not_loaded
from msshift_bench.baselines.biencoder import BiEncoder
from msshift_bench.baselines.colbert import ColBert
from msshift_bench.baselines.duet import Duet
from msshift_bench.baselines.knrm import Knrm
from msshift_bench.baselines.monobert import MonoBert
from msshift_bench.baselines.monot5 import MonoT5
from msshift_bench.baselines.pacrr import Pacrr
from msshift_bench.baselines.splade import Splade
from msshift_bench.data import ask_only_if_it_answers
from msshift_bench.errors import UsageError, require

__all__ = ["ARCHITECTURES", "architecture_of", "kind_of_model", "named_kind"]

ARCHITECTURES: Mapping[str, type[Architecture]] = MappingProxyType(
    {kind.name: kind for kind in (BiEncoder, Splade, ColBert, MonoBert, MonoT5, Knrm, Duet, Pacrr)}
)
"""Every kind of neural system by name."""

_MODULES = "modules.json"
"""The file in which sentence-transformers names a model's modules."""

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
    found = named_kind(model)
    if found is not None:
        return found
    raise UsageError(
        f"{model} does not say what kind of model it is; name it with --as (in Python, kind): "
        + ", ".join(ARCHITECTURES)
    )


def named_kind(model: str) -> str | None:
    """Return what `kind_of_model` does; `None` if the settings name no kind."""
    file = _settings(model)
    try:
        settings = json.loads(file.read_bytes()) if file else {}
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise UsageError(f"{file} is not a JSON object, as a model's settings are; copy it again")
    found = architecture_of(str(settings.get("model_type")), _first_module(Path(model) / _MODULES))
    return None if found is None else found.name


def architecture_of(model_type: str, module_name: str) -> type[Architecture] | None:
    """Return the architecture of a model; `None` if it is none of ours.

    Args:
        model_type: the name of its class in sentence-transformers.
        module_name: the name of its first module's class.
    """
    for name in (module_name, ""):
        for architecture in ARCHITECTURES.values():
            if (architecture.model_type, architecture.module_name) == (model_type, name):
                return architecture
    return None


def _first_module(file: Path) -> str:
    """Return the name of the class of a model's first module; "" where no file says it."""
    if not file.is_file():
        return ""
    try:
        return str(json.loads(file.read_bytes())[0]["type"]).rpartition(".")[2]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise UsageError(
            f"{file} does not name a model's modules as sentence-transformers does; copy it again"
        ) from None


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
    ask_only_if_it_answers(model, "a published model")
    try:
        return Path(hub.hf_hub_download(model, _SETTINGS))
    except errors.RemoteEntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise not_loaded("model", model, error) from error
