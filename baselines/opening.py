"""Opening a system by what a user calls it: a name, a class, a folder or a Hub id of a model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.in_memory import ModelSystem, search_by, unused_prompts
from msshift_bench.baselines.retrievers.biencoder import SIMILARITIES
from msshift_bench.baselines.systems.finding import (
    find_systems,
    kind_of_model,
    load_class,
    named_kind,
    neural_systems,
)
from msshift_bench.baselines.systems.recipe import TrainingSettings, nested, read_recipe, refusal
from msshift_bench.baselines.systems.system import System
from msshift_bench.baselines.training.backbones import quiet_libraries, require_libraries
from msshift_bench.checked import check_value
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from msshift_bench.libraries import torch

_logger = logging.getLogger(__name__)

_FIELDS = ("kind", "similarity", "search")
"""What can be said of a published model."""

_TEXTS = ["what is a word"], ["A word is what is said.", "Frogs live in ponds."]
"""A query, and passages, to see whether a model's scores are its own."""


def open_system(
    what: str, recipe: str | Path | None = None, changes: Mapping[str, Any] | None = None
) -> System:
    """Return a system, ready for a `Plan`.

    Args:
        what: the name of a system of this package or of another, ``module:Class`` of one that no
            package registers, or the folder or the id on the Hugging Face Hub of a model, which
            then ranks as it is.
        recipe: of a system that is trained: the name of a recipe that comes along, by default
            ``mini``, or a TOML file.
        changes: replaces fields: name -> value, for a field of a table ``table.name``. What can be
            replaced for a model, see `open_model`.

    Returns:
        The system; what `find_systems` holds tells its class.

    Raises:
        UnknownNameError: if there is no such system, recipe or field.
        UsageError: if a value is impossible, or a system that has no recipe is given one.
        NotFoundError: if there is no such file or model.

    Examples:
        >>> open_system("bm25", changes={"depth": 10}).depth
        10
    """
    values = dict(changes or {})
    systems = find_systems()
    if what in systems:
        kind = systems[what]
    elif ":" in what:
        kind = load_class(what)
    elif "/" in what or Path(what).is_dir():
        _refuse_recipe(what, recipe)
        return open_model(what, nested(values))
    else:
        raise UnknownNameError("system", what, systems)
    if issubclass(kind, TrainingSettings):
        system = read_recipe(kind, "mini" if recipe is None else recipe)
    else:
        _refuse_recipe(what, recipe)
        where = f"the fields of {kind.name}"
        kind.check_names(values, _who_has)
        return check_value(nested(values), kind, where, partial(refusal, where))
    return system.with_changes(values, _who_has)


def _refuse_recipe(what: str, recipe: str | Path | None) -> None:
    if recipe is not None:
        raise UsageError(f"{what} is not trained by a recipe; leave {str(recipe)!r} out")


def _who_has(name: str) -> str:
    """Say which systems have a field; "" if none does."""
    systems = [system.name for system in find_systems().values() if name in system.model_fields]
    return f"it is a field of {', '.join(systems)}" if systems else ""


def open_model(model: str, changes: Mapping[str, Any]) -> ModelSystem:
    """Return the system of a published model, which ranks without being trained.

    Args:
        model: a folder, or an id of the Hugging Face Hub.
        changes: ``kind``, a name in `neural_systems`, by default the one in its settings;
            ``similarity``, how a bi-encoder's vectors are compared, ``dot`` or ``cosine``, by
            default as its settings say (sentence-transformers takes the cosine for a model that
            does not); and ``search``, fields of ``[search]`` in the recipes of that kind, by
            default 1000 passages per ranking, 64 texts at a time, and exact search.

    Raises:
        UsageError: if the model's settings do not name its kind, or name another, if its files lack
            weights of that kind, or it cannot search like that.
        NotFoundError: if there is no such model.
        MissingExtraError: if the neural libraries are not installed.
    """
    for name in changes:
        if name not in _FIELDS:
            raise UnknownNameError("field of a published model", name, _FIELDS)
    kind, similarity = changes.get("kind"), changes.get("similarity")
    kinds = neural_systems()
    if kind not in (None, *kinds):
        raise UnknownNameError("kind of model", str(kind), kinds)
    chosen = kind or kind_of_model(model)
    system = kinds[chosen]
    search = search_by(system.searcher(), chosen, changes.get("search", {}))
    label = Path(model).name
    require_libraries(label)
    if similarity is not None and chosen != "bi-encoder":
        raise UsageError(f"similarity is of bi-encoders, and {model} is a model of {chosen}")
    if similarity not in (None, *SIMILARITIES):
        raise UnknownNameError("similarity", str(similarity), SIMILARITIES)
    named = chosen if kind is None else _named(model)
    if named not in (None, chosen):
        raise UsageError(
            f"{model} is a model of {named}, as its settings say, and not of {chosen}; leave kind "
            "out"
        )
    with quiet_libraries():
        loaded = _load(system, model) if named else _load_whole(system, search, model)
    if similarity is not None:
        loaded.similarity_fn_name = similarity
    idle = unused_prompts(loaded)
    if idle:
        _logger.warning("%s: its prompts %s stand before no text", model, ", ".join(idle))
    return ModelSystem(
        kind=chosen, model=loaded, search=search, label=label, origin=model, keeps=True
    )


def _named(model: str) -> str | None:
    """Return the kind that a model's settings name; `None` if they cannot be read, either."""
    try:
        return named_kind(model)
    except NotFoundError:  # To load the model says more, and may find it in the cache.
        return None


def _load_whole(system: Any, search: Any, model: str) -> Any:
    """Return a model whose settings name no kind, if its files hold all weights of this kind.

    sentence-transformers draws the weights that are missing, such as those of a head, without an
    error. Some take no part, such as BERT's pooler in a bi-encoder. So the scores decide.

    Raises:
        UsageError: if weights are missing that take part.
    """

    def scores(seed: int) -> tuple[Any, npt.NDArray[np.float32]]:
        loaded = _load(system, model, seed)
        found = search.score(loaded, *_TEXTS, [np.arange(len(_TEXTS[1]))])
        return loaded, np.concatenate(list(found))

    _, before = scores(1)
    loaded, after = scores(0)
    if not np.allclose(before, after, rtol=1e-3, atol=1e-6, equal_nan=True):
        raise UsageError(
            f"{model} lacks weights of a model of {system.name}: they would be random; take "
            "one that was trained as such, or name its kind with --set kind=KIND"
        )
    return loaded


def _load(system: Any, model: str, seed: int = 0) -> Any:
    """Load a model; weights that its files lack are the same each time, for one seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return system.load_model(model)
