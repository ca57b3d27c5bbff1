"""Find systems by name, in this and in other packages, and the kind of a saved model.

A package adds a system with an entry point of the group ``msshift_bench.baselines``, which names
a subclass of `System`::

    [project.entry-points."msshift_bench.baselines"]
    tf-idf = "my_package.systems:TfIdf"
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msshift_bench.baselines.systems.system import System
from msshift_bench.data import use_cache_if_offline
from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.libraries import Library

_logger = logging.getLogger(__name__)

_hub: Any = Library("huggingface_hub", "neural", "a published model")
_hub_errors: Any = Library("huggingface_hub.errors", "neural", "a published model")

ENTRY_POINTS = "msshift_bench.baselines"
"""The group of entry points through which other packages add systems."""

_HOME = "msshift_bench.baselines"

_LEXICAL = ("systems.lexical:Bm25System", "systems.lexical:TunedBm25System")

_NEURAL = (
    "retrievers.biencoder:BiEncoder",
    "retrievers.splade:Splade",
    "retrievers.colbert:ColBert",
    "rerankers.reranker:MonoBert",
    "rerankers.monot5:MonoT5",
    "rerankers.word_networks:Knrm",
    "rerankers.word_networks:Duet",
    "rerankers.word_networks:Pacrr",
)

_MODULES = "modules.json"
"""The file of sentence-transformers that lists a model's modules."""

_DENSE = "SentenceTransformer"

_SETTINGS = "config_sentence_transformers.json"
"""The file of sentence-transformers that contains the name of a model's class."""


@cache
def neural_systems() -> Mapping[str, Any]:
    """Return the kinds of models: name -> class, for the neural systems of this package."""
    return _by_name(_NEURAL)


@cache
def our_systems() -> Mapping[str, type[System]]:
    """Return name -> class for the systems of this package."""
    return MappingProxyType({**_by_name(_LEXICAL), **neural_systems()})


def _by_name(places: tuple[str, ...]) -> Mapping[str, type[System]]:
    kinds = (EntryPoint("", f"{_HOME}.{place}", ENTRY_POINTS).load() for place in places)
    return MappingProxyType({kind.name: kind for kind in kinds})


@cache
def find_systems() -> Mapping[str, type[System]]:
    """Return name -> class for all systems: first this package's, then other packages'.

    An entry point that cannot be used is omitted, with a warning and the reason in the log.
    """
    systems = dict(our_systems())
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            kind = _checked(point)
            if kind.name != point.name:
                raise UsageError(f"its class has the name {kind.name!r}; both must be equal")
            if kind.name in systems:
                raise UsageError("another system has this name; choose another name")
            systems[point.name] = kind
        except Exception as error:  # An error of another package must not stop our systems.
            reason = str(error) if isinstance(error, UsageError) else repr(error)
            _logger.warning(
                "the system %s is omitted: the entry point %s = %r of the group %s cannot be "
                "used: %s",
                *(point.name, point.name, point.value, ENTRY_POINTS, reason),
            )
    return MappingProxyType(systems)


def load_class(place: str) -> type[System]:
    """Return the class of a system that no package registers.

    Args:
        place: ``module:Class``, e.g. ``my_module:First``; the module is installed or in the
            working directory.

    Raises:
        UsageError: if the class cannot be imported, is no `System`, or is abstract.
    """
    if "" not in sys.path:
        sys.path.append("")
    try:
        return _checked(EntryPoint("", place, ENTRY_POINTS))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{place} cannot be used as a system: {error}") from error


def _checked(point: EntryPoint) -> type[System]:
    """Return the class that an entry point names.

    Raises:
        UsageError: if it is no `System`, or has no name, or an abstract method is not defined.
    """
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, System)):
        raise UsageError(f"{point.value} must be a subclass of System, got {kind!r}")
    lacking = [*([] if hasattr(kind, "name") else ["name"]), *sorted(kind.__abstractmethods__)]
    if lacking:
        raise UsageError(f"its class {kind.__name__} must define {', '.join(lacking)} in its body")
    return kind


def kind_of_model(model: str, revision: str | None = None) -> str:
    """Return the kind in a model's settings, a key of `neural_systems`.

    Args:
        model: a folder, or an id of the Hugging Face Hub.
        revision: the branch, tag or commit on the Hub.

    Raises:
        UsageError: if the settings contain no known kind, or are no JSON object.
        NotFoundError: if the model does not exist, or the Hub cannot be reached.
    """
    kind = named_kind(model, revision)
    if kind is None:
        raise UsageError(
            f"the settings of {model} contain no known kind of model; add --set kind=KIND with one "
            "of " + ", ".join(neural_systems())
        )
    return kind


def named_kind(model: str, revision: str | None = None) -> str | None:
    """Return the kind like `kind_of_model`; `None` if the settings contain no known kind."""
    file = _settings(model, revision)
    try:
        settings = json.loads(file.read_bytes()) if file else {}
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise UsageError(
            f"{file} must be a JSON object with a model's settings; copy the model again"
        )
    first = _first_module(Path(model) / _MODULES)
    # Older versions of sentence-transformers, and model2vec, write modules, but no model type.
    return kind_of(str(settings.get("model_type", _DENSE if first else "")), first)


def kind_of(model_type: str, module_name: str) -> str | None:
    """Return the kind of a model, a key of `neural_systems`; `None` if it has no such kind.

    Args:
        model_type: the name of the model's class in sentence-transformers.
        module_name: the name of the class of the model's first module; an unknown name matches a
            kind without one.
    """
    kinds = {(kind.model_type, kind.module_name): name for name, kind in neural_systems().items()}
    return kinds.get((model_type, module_name)) or kinds.get((model_type, ""))


def _first_module(file: Path) -> str:
    """Return the name of the class of a model's first module; "" if the file does not exist.

    A malformed file is a `UsageError`.
    """
    if not file.is_file():
        return ""
    try:
        return str(json.loads(file.read_bytes())[0]["type"]).rpartition(".")[2]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise UsageError(
            f"{file} must be sentence-transformers' list of a model's modules; copy the model again"
        ) from None


def _settings(model: str, revision: str | None) -> Path | None:
    """Return the path of a model's `_SETTINGS` file; `None` if the model has no such file.

    Raises:
        NotFoundError: if the model does not exist, or the Hub cannot be reached.
    """
    if Path(model).is_dir():
        file = Path(model) / _SETTINGS
        return file if file.is_file() else None
    use_cache_if_offline(model, "a published model")
    try:
        return Path(_hub.hf_hub_download(model, _SETTINGS, revision=revision))
    except _hub_errors.RemoteEntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise loading_error("model", model, error) from error


def loading_error(what: str, where: str | Path, error: Exception) -> NotFoundError:
    """Return the error for an encoder or a model that cannot be loaded.

    Args:
        what: ``encoder`` or ``model``.
        where: the folder, or the id.
        error: the library's error. The message contains its first line, unless `where` is a
            local path that does not exist.
    """
    first = str(error).strip().partition("\n")[0]
    if Path(where).is_dir():
        return NotFoundError(f"no {what} can be loaded from the folder {where}: {first}")
    if str(where).startswith((".", "/", "~")):
        return NotFoundError(f"no {what} {where}: the folder does not exist")
    return NotFoundError(
        f"no {what} {where}: {first} Give a folder that contains it, or an id of the Hugging Face "
        "Hub. The Hub must be reachable once; later the copy in the cache is used "
        "(HF_HUB_OFFLINE=1)"
    )
