"""Searching with a published model, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msshift_bench.baselines.backbones import quiet_libraries, require_libraries
from msshift_bench.baselines.biencoder import SIMILARITIES
from msshift_bench.baselines.driver import run_system
from msshift_bench.baselines.model_kinds import ARCHITECTURES, kind_of_model
from msshift_bench.baselines.model_system import ModelSystem
from msshift_bench.baselines.search_options import choose_search
from msshift_bench.data import Collection, Dataset
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.plumbing import Progress
from msshift_bench.shifts import DATASET_NAME

__all__ = ["search_published"]


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
        UsageError: if the model's settings do not name its kind, or it cannot search like that.
        NotFoundError: if there is no such model, data set or collection.
        MissingExtraError: if the neural libraries are not installed.
    """
    chosen = kind or kind_of_model(model)
    if chosen not in ARCHITECTURES:
        raise UnknownNameError("kind of model", chosen, ARCHITECTURES)
    architecture = ARCHITECTURES[chosen]
    settings = choose_search(architecture, search)
    name = name or Path(model).name
    require_libraries(name)
    if similarity is not None and chosen != "bi-encoder":
        raise UsageError(f"similarity is of bi-encoders, and {model} is a model of {chosen}")
    if similarity not in (None, *SIMILARITIES):
        raise UnknownNameError("similarity", str(similarity), SIMILARITIES)
    with quiet_libraries():
        loaded = architecture.load_model(model)
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
