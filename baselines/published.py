"""Searching with a published model, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.backbones import quiet_libraries, require_libraries
from msshift_bench.baselines.biencoder import SIMILARITIES
from msshift_bench.baselines.driver import run_system
from msshift_bench.baselines.model_kinds import ARCHITECTURES, kind_of_model, named_kind
from msshift_bench.baselines.model_system import ModelSystem
from msshift_bench.data import Collection, Dataset
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError, require
from msshift_bench.plumbing import Progress
from msshift_bench.shifts import DATASET_NAME

__all__ = ["search_published"]

_TEXTS = ["what is a word"], ["A word is what is said.", "Frogs live in ponds."]
"""A query, and passages, to see whether a model's scores are its own."""


def search_published(
    model: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    name: str | None = None,
    kind: str | None = None,
    similarity: str | None = None,
    also_test: Mapping[str, str | Path] = MappingProxyType({}),
    progress: Progress | None = None,
    **search: int | str | None,
) -> list[Path]:
    """Rank passages with a published model for the test queries of shifts.

    Args:
        model: a folder, or an id of the Hugging Face Hub.
        shifts: the shifts.
        collection: as in `run_baseline`.
        out: the folder of run sets; ``<out>/<name>/<shift>.run.gz`` is written.
        data: the built data set.
        name: the system's name; by default the last part of `model`.
        kind: the kind of model, a name in `ARCHITECTURES`; by default the one in its settings.
        similarity: how a bi-encoder's vectors are compared, ``dot`` or ``cosine``; by default as
            its settings say. sentence-transformers takes the cosine for a model that does not.
        also_test: extra test sets to search, as in `run_baseline`.
        progress: called with ``(stage, done, total)``.
        **search: fields of ``[search]`` in the recipes of that kind; `None` means 1000 passages
            per ranking, 64 texts at a time, and exact search. ColBERT's candidates ``tokens`` are
            found as in its recipe ``paper``.

    Returns:
        The run files, one per shift.

    Raises:
        UsageError: if the model's settings do not name its kind, or name another, if its files lack
            weights of that kind, or it cannot search like that.
        NotFoundError: if there is no such model, data set or collection.
        MissingExtraError: if the neural libraries are not installed.
    """
    if kind not in (None, *ARCHITECTURES):
        raise UnknownNameError("kind of model", str(kind), ARCHITECTURES)
    chosen = kind or kind_of_model(model)
    architecture = ARCHITECTURES[chosen]
    settings = architecture.search_by(search)
    name = name or Path(model).name
    require_libraries(name)
    if similarity is not None and chosen != "bi-encoder":
        raise UsageError(f"similarity is of bi-encoders, and {model} is a model of {chosen}")
    if similarity not in (None, *SIMILARITIES):
        raise UnknownNameError("similarity", str(similarity), SIMILARITIES)
    named = chosen if kind is None else _named(model)
    if named not in (None, chosen):
        raise UsageError(
            f"{model} is a model of {named}, as its settings say, and not of {chosen}; leave --as "
            "out (in Python, kind)"
        )
    with quiet_libraries():
        loaded = _load(architecture, model) if named else _load_whole(architecture, model)
    if similarity is not None:
        loaded.similarity_fn_name = similarity
    system = ModelSystem(architecture, loaded, settings, name, origin=model, keeps=True)
    runs = run_system(
        system,
        shifts,
        collection=collection,
        out=out,
        data=data,
        also_test=also_test,
        progress=progress,
    )
    system.forget()
    return runs


def _named(model: str) -> str | None:
    """Return the kind that a model's settings name; `None` if they cannot be read, either."""
    try:
        return named_kind(model)
    except NotFoundError:  # To load the model says more, and may find it in the cache.
        return None


def _load_whole(architecture: type[Architecture], model: str) -> Any:
    """Return a model whose settings name no kind, if its files hold all weights of this kind.

    sentence-transformers draws the weights that are missing, such as those of a head, without an
    error. Some take no part, such as BERT's pooler in a bi-encoder. So the scores decide.

    Raises:
        UsageError: if weights are missing that take part.
    """

    def scores(seed: int) -> tuple[Any, npt.NDArray[np.float32]]:
        loaded = _load(architecture, model, seed)
        found = architecture.score(loaded, *_TEXTS, [np.arange(len(_TEXTS[1]))], 1)
        return loaded, np.concatenate(list(found))

    _, before = scores(1)
    loaded, after = scores(0)
    if not np.allclose(before, after, rtol=1e-3, atol=1e-6, equal_nan=True):
        raise UsageError(
            f"{model} lacks weights of a model of {architecture.name}: they would be random; take "
            "one that was trained as such, or name its kind with --as (in Python, kind)"
        )
    return loaded


def _load(architecture: type[Architecture], model: str, seed: int = 0) -> Any:
    """Load a model; weights that its files lack are the same each time, for one seed."""
    torch = require("torch", "neural", architecture.name)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return architecture.load_model(model)
