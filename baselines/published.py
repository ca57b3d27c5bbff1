"""Searching with a published model, without training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.backbones import not_loaded, quiet_libraries, weights_digest
from msshift_bench.baselines.candidates import ALL_PASSAGES, NEAREST_TOKENS
from msshift_bench.baselines.driver import run_system
from msshift_bench.baselines.neural import NeuralSystem
from msshift_bench.baselines.recipe import SearchSettings
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.baselines.registry import ARCHITECTURES
from msshift_bench.baselines.system import Task
from msshift_bench.data import Collection, Dataset
from msshift_bench.errors import UnknownNameError, UsageError, require
from msshift_bench.plumbing import Progress
from msshift_bench.search import Ranking
from msshift_bench.shifts import DATASET_NAME

__all__ = ["PublishedSystem", "search_published"]

_SETTINGS = "config_sentence_transformers.json"
"""The file in which sentence-transformers names a model's class."""

_DEFAULTS = {
    "depth": 1000,
    "batch_size": 64,
    "candidates": ALL_PASSAGES,
    "tokens": None,
    "approximate": None,
    "effort": None,
}


def search_published(
    model: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    name: str | None = None,
    kind: str | None = None,
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
    chosen = kind or _kind_of(model)
    if chosen not in ARCHITECTURES:
        raise UnknownNameError("kind of model", chosen, ARCHITECTURES)
    architecture = ARCHITECTURES[chosen]
    search_type: Any = get_type_hints(architecture.recipe_type)["search"]
    options = {field: value for field, value in search.items() if value is not None}
    for field in options:
        if field not in search_type.__dataclass_fields__:
            raise UnknownNameError(f"option of {chosen}", field, search_type.__dataclass_fields__)
    values = {
        field: options.get(field, _DEFAULTS[field]) for field in search_type.__dataclass_fields__
    }
    if values.get("candidates") == NEAREST_TOKENS:
        values["tokens"] = load_recipe(architecture.recipe_type, chosen, "paper").search.tokens
    system = PublishedSystem(architecture, model, search_type(**values), name or Path(model).name)
    return run_system(system, shifts, collection=collection, out=out, data=data, progress=progress)


def _kind_of(model: str) -> str:
    """Return the kind of architecture that a model's settings name."""
    file = _settings(model)
    model_type = json.loads(file.read_bytes()).get("model_type") if file else None
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


class PublishedSystem(NeuralSystem):
    """A published model, the same for all groups.

    Args:
        architecture: the architecture of the model.
        model: a folder, or an id of the Hugging Face Hub.
        search: how passages are searched with it.
        name: the system's name, and its folder in a run set.
    """

    per_group = False

    def __init__(
        self, architecture: Architecture[Any], model: str, search: SearchSettings, name: str
    ) -> None:
        super().__init__(name)
        self._architecture = architecture
        self._search = search
        with quiet_libraries():
            self._model = architecture.load_model(model)
            self._parameters = {
                "architecture": architecture.name,
                "model": model,
                "weights_sha256": weights_digest(self._model),
                "search": asdict(search),
            }

    @property
    def tag(self) -> str:
        """The run tag."""
        return self.name + self._architecture.tag_of(self._search)

    @property
    def parameters(self) -> Mapping[str, object]:
        """The model, the digest of its weights, and how it searches."""
        return self._parameters

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and rank."""
        with quiet_libraries():
            yield from self._architecture.rankings(
                self._model, task, self._search, lambda: self.bm25(task)
            )
