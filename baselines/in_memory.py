"""Systems of models that were not trained here: in memory, from a factory, or published.

A model of sentence-transformers is searched as the system of its kind is. Anything else needs
``encode_query`` and ``encode_document``, or ``search``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.systems.finding import kind_of, neural_systems
from msshift_bench.baselines.systems.rankings import checked_ranking
from msshift_bench.baselines.systems.recipe import refusal
from msshift_bench.baselines.systems.searcher import Searcher
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.baselines.training.backbones import weights_digest
from msshift_bench.checked import as_json, check_value
from msshift_bench.errors import UsageError, quoted
from msshift_bench.libraries import torch
from msshift_bench.plumbing import batches, quieten
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Ranking

_logger = logging.getLogger(__name__)

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_ELSEWHERE = (
    "encode",
    "encode_queries",
    "encode_corpus",
    "embed_query",
    "embed_documents",
    "predict",
)
"""What other libraries call such methods: BEIR, LangChain, and older sentence-transformers."""

_ENCODES = ("encode_query", "encode_document")

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
}
"""The classes in which torch wraps a model that it compiles, or copies to several GPUs."""


def model_needs(given: object) -> str:
    """Return what makes an object a model, and what one that is none has instead, for messages."""
    found = [method for method in (*_ELSEWHERE, *_ENCODES) if _has(given, method)]
    types = ", ".join(dict.fromkeys(one.model_type for one in neural_systems().values()))
    return (
        "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is "
        f"one of sentence-transformers' {types}"
        + (f"; this {type(given).__name__} has {' and '.join(found)} only" if found else "")
    )


def unwrap(model: Any) -> Any:
    """Return the model inside torch's wrappers, which hide its class and its similarity."""
    while inner := _WRAPPERS.get(type(model).__name__):
        model = getattr(model, inner)
    return model


def find_searcher(model: object) -> tuple[str, type[Searcher]] | None:
    """Return a model's kind, and how it ranks passages; `None` if it is no model.

    Args:
        model: a model of sentence-transformers, or an object with ``search`` (which is preferred),
            or with ``encode_query`` and ``encode_document``.
    """
    if isinstance(model, type):
        return None
    # No model is of a library that was not imported.
    library = sys.modules.get("sentence_transformers")
    for system in neural_systems().values():
        model_class = getattr(library, system.model_type, None)
        if model_class is not None and isinstance(model, model_class):
            kind = kind_of(system.model_type, type(next(iter(model), None)).__name__)
            return None if kind is None else (kind, neural_systems()[kind].searcher())
    if _has(model, "search"):
        return "search", OwnSearch
    if _has(model, *_ENCODES):
        return "encoder", EncoderSearch
    return None


def _has(model: object, *methods: str) -> bool:
    return all(callable(getattr(model, method, None)) for method in methods)


def unused_prompts(model: Any) -> list[str]:
    """Return the names of a model's prompts that it puts before neither queries nor passages."""
    prompts = getattr(model, "prompts", None) or {}
    default = getattr(model, "default_prompt_name", None)
    # Which one it chooses, first to last; a model that scores pairs has no sides.
    sides = [("query",), ("document", "passage", "corpus")] if _has(model, *_ENCODES) else [()]
    used = {next((name for name in side if name in prompts), default) for side in sides}
    return [name for name, prompt in prompts.items() if prompt and name not in used]


def describe_model(model: Any) -> dict[str, object]:
    """Return what is known to decide a model's scores; nothing for one that is not of torch.

    Returns:
        ``weights_sha256``; ``settings``: the prompts, the longest input, the dimensions that
        vectors are cut to, and the digest of the modules' settings; and ``similarity``, if the
        model names one. JSON values.
    """
    if not _has(model, "state_dict"):
        return {}
    similarity = getattr(model, "similarity_fn_name", None)
    modules = _ADDRESS.sub("", repr(model))
    settings = {
        "modules_sha256": hashlib.sha256(modules.encode()).hexdigest(),
        **{name: getattr(model, name, None) for name in ("prompts", "max_seq_length")},
        "truncate_dim": getattr(model, "truncate_dim", None),
    }
    return {
        "weights_sha256": weights_digest(model),
        "settings": as_json(settings, "settings", lambda value, _: str(value)),
        **({"similarity": str(similarity)} if similarity is not None else {}),
    }


_UNPACKED = {
    np.dtype(np.uint8): "np.unpackbits(vectors, axis=1)",
    np.dtype(np.int8): "np.unpackbits(vectors.view(np.uint8) ^ 128, axis=1)",
}
"""The types of packed bits, and how sentence-transformers' ``ubinary`` and ``binary`` unpack."""


class EncoderSearch(DenseSearch):
    """How an object that encodes texts is searched: by dot product."""

    similarities = ()

    def vectors(self, model: Any, method: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Give the model some texts at a time, and check the vectors that it returns."""
        given = ((getattr(model, method)(part), part) for part in batches(texts, self.batch_size))
        return np.concatenate([_checked(method, *each) for each in given])


def _checked(method: str, given: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    vectors = _as_array(given)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UsageError(
            f"{method} gave an array of shape {vectors.shape} for {len(texts)} texts; it must "
            f"give one vector per text, an array of shape ({len(texts)}, dimensions)"
        )
    if vectors.dtype in _UNPACKED:
        raise UsageError(
            f"{method} gave vectors of {vectors.dtype}, which are codes: their dot products rank "
            f"nothing. Unpack binary vectors, {_UNPACKED[vectors.dtype]} * 2.0 - 1, or scale "
            "quantized numbers back to 32-bit floats"
        )
    return vectors.astype(np.float32, copy=False)


def _as_array(given: Any) -> npt.NDArray[Any]:
    """Return vectors of floats, or of codes; tensors of torch may lie on another device."""
    if _has(given, "detach"):
        given = given.detach().cpu()
        given = given.float() if given.is_floating_point() else given
    try:
        found = np.asarray(given)
        if np.iscomplexobj(found):  # its other half would be dropped
            raise TypeError(f"{found.dtype} is not real")
        return found if found.dtype in _UNPACKED else found.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"vectors must be an array or a tensor of numbers, and {type(given).__name__} is not "
            f"one: {error}"
        ) from error


class OwnSearch(Searcher):
    """How an object searches that does so itself: ``search(queries, k)`` ranks for each query."""

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Search for some queries at a time, and check the rankings that come back."""
        ids = run.passage_ids()

        def rankings() -> Iterator[Ranking]:
            for rows in batches(run.queries, self.batch_size):
                found = model.search([row.text for row in rows], self.depth)
                if isinstance(found, str | Mapping) or not _has(found, "__iter__"):
                    raise UsageError(
                        f"search gave a {type(found).__name__}; it must give a list of rankings, "
                        "one per query in the order of the queries"
                    )
                given = list(found)
                if len(given) != len(rows):
                    raise UsageError(
                        f"search gave {len(given)} rankings for {len(rows)} queries; it must give "
                        "one per query, empty if nothing is found"
                    )
                for row, ranking in zip(rows, given, strict=True):
                    yield checked_ranking(ranking, row.query_id, ids, self.depth)

        return run.ranked(rankings(), ids)


_LOUD = ("datasets", "transformers")


class ModelSystem(System):
    """A model in memory, the same for all groups.

    Attributes:
        kind: what kind of model it is, for the sidecar.
        model: the model.
        search: how passages are searched with it.
        label: the name of its runs, unless the plan gives one.
        origin: where the model is from, for the sidecar: a folder, an id, or the name of a class.
        given: what else decides the model; JSON values.
        keeps: whether what it encodes is kept until `forget`, for the runs on other shifts.

    Raises:
        UsageError: if the model cannot rank passages as it is.
    """

    name = ""

    kind: str
    model: Any
    search: Searcher
    label: str
    origin: str
    given: dict[str, Any] = Field(default_factory=dict)
    keeps: bool = False

    _described: dict[str, object] = PrivateAttr(default_factory=dict)
    _work: Path | None = PrivateAttr(default=None)

    def model_post_init(self, _context: Any) -> None:
        """Check the model, and describe it."""
        self.search.check_model(self.model)
        self._described = describe_model(self.model)

    def run_set(self) -> str:
        """Return the label."""
        return self.label

    def tag(self, name: str) -> str:
        """Return the run tag, which says if the model only reranks."""
        return name + self.search.tag

    def parameters(self) -> dict[str, Any]:
        """Return the model, the digests of its weights and settings, and how it searches."""
        return {
            "architecture": self.kind,
            "model": self.origin,
            **self._described,
            "search": self.search.parameters(),
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return the device of the model, and the threads that torch uses."""
        device = getattr(self.model, "device", None)
        if not self._described or device is None:
            return {}
        kind = torch.device(device).type
        return {
            "device": torch.cuda.get_device_name(device) if kind == "cuda" else kind,
            "torch_threads": torch.get_num_threads(),
        }

    def check_installed(self) -> None:
        """Check for BM25, if its passages are reranked."""
        if self.search.reranks:
            Bm25([Passage("1", "word")])

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and rank."""
        key = hashlib.sha256(json.dumps(self._described, sort_keys=True).encode()).hexdigest()[:16]
        work = (run.work.parents[1] if self.keeps else run.work) / key
        if not self._described and self._work is None:
            # Nothing tells whether an earlier process had the same model.
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        self._work = work
        with quieten(*(sys.modules[name] for name in _LOUD if name in sys.modules)):
            yield from self.search.rank(self.model, replace(run, work=work))

    def forget(self) -> None:
        """Remove what is kept for other shifts."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            with suppress(OSError):  # Something else is at work there, or nothing is left.
                for parent in list(self._work.parents)[:2]:
                    parent.rmdir()


class FactorySystem(System):
    """A model for every held-out group, made when its turn comes, and dropped after its run.

    Attributes:
        make: takes the run, whose group the model must not have seen, and the seed, and returns the
            model.
        system_of: returns the system of a model.
        label: the name of its runs, unless the plan gives one.
        search: how passages are searched, as far as it was said; JSON values.
        given: what else decides the models; JSON values.
        seed: the seed of a replicate.
    """

    name = ""
    per_group = True
    trains = False

    make: Callable[[Run, int | None], object]
    system_of: Callable[[object], ModelSystem]
    label: str
    search: dict[str, Any] = Field(default_factory=dict)
    given: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None

    _hardware: Mapping[str, object] = PrivateAttr(default_factory=dict)

    def run_set(self) -> str:
        """Return the label."""
        return self.label

    def parameters(self) -> dict[str, Any]:
        """Return what is known before a model is made."""
        return {
            "architecture": "factory",
            **({} if self.seed is None else {"seed": self.seed}),
            "search": self.search,
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware of the model that `rank` made last."""
        return self._hardware

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Make the model, at once, so that its tag is known; then encode and rank."""
        with run.stage("model"):
            model = unwrap(self.make(run, self.seed))
            if find_searcher(model) is None:
                raise UsageError(
                    f"{self.label} gave {quoted(model)} for {run.held_out!r}, no model; "
                    + model_needs(model)
                )
            system = self.system_of(model)
        run.facts["model"] = system.parameters()
        system.check_installed()
        run.tag, self._hardware = system.tag(run.tag), system.hardware()
        return system.rank(run)


def search_by(searcher: type[Searcher], kind: str, options: Mapping[str, Any]) -> Searcher:
    """Return how to search with a model that no recipe describes.

    Args:
        searcher: the class.
        kind: the kind of model, for messages.
        options: fields of ``[search]`` in the recipes of its kind; `None` means the default.

    Raises:
        UsageError: for an option that this kind does not have, or an impossible value.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    where = f"the search with {kind}"
    return check_value(chosen, searcher, where, partial(refusal, where))
