"""Models that users hand over in memory: what kind each is, and how it ranks passages.

A model of sentence-transformers is searched as the baseline of its kind is. Anything else needs
``encode_query`` and ``encode_document``, or ``search``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.backbones import weights_digest
from msshift_bench.baselines.biencoder import DenseSearch
from msshift_bench.baselines.block_search import best_of
from msshift_bench.baselines.finding import kind_of, neural_systems
from msshift_bench.baselines.searcher import Searcher
from msshift_bench.baselines.system import Run
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import batches
from msshift_bench.search import PassageIds, Ranking

__all__ = [
    "EncoderSearch",
    "OwnSearch",
    "describe_model",
    "find_searcher",
    "model_needs",
    "unused_prompts",
]

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


def model_needs(given: object) -> str:
    """Return what makes an object a model, and what one that is none has instead, for messages."""
    found = [method for method in (*_ELSEWHERE, *_ENCODES) if _has(given, method)]
    types = ", ".join(dict.fromkeys(one.model_type for one in neural_systems().values()))
    return (
        "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is "
        f"one of sentence-transformers' {types}"
        + (f"; this {type(given).__name__} has {' and '.join(found)} only" if found else "")
    )


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
        "settings": json.loads(json.dumps(settings, default=str)),
        **({"similarity": str(similarity)} if similarity is not None else {}),
    }


def unused_prompts(model: Any) -> list[str]:
    """Return the names of a model's prompts that it puts before neither queries nor passages."""
    prompts = getattr(model, "prompts", None) or {}
    default = getattr(model, "default_prompt_name", None)
    # Which one it chooses, first to last; a model that scores pairs has no sides.
    sides = [("query",), ("document", "passage", "corpus")] if _has(model, *_ENCODES) else [()]
    used = {next((name for name in side if name in prompts), default) for side in sides}
    return [name for name, prompt in prompts.items() if prompt and name not in used]


class EncoderSearch(DenseSearch):
    """How an object that encodes texts is searched: by dot product."""

    def check_model(self, model: Any) -> None:
        """Check nothing: what it gives is checked when it encodes."""
        del model

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and search them."""
        return super().rank(_CheckedEncoder(model), run)


class _CheckedEncoder:
    """Gives a model some texts at a time, and checks the vectors that come back."""

    similarity_fn_name = "dot"

    def __init__(self, model: Any) -> None:
        self._model = model
        self._dimensions: tuple[str, int] | None = None

    def encode_query(self, texts: Sequence[str], **options: Any) -> npt.NDArray[np.float32]:
        return self._encode("encode_query", texts, **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> npt.NDArray[np.float32]:
        return self._encode("encode_document", texts, **options)

    def _encode(
        self, method: str, texts: Sequence[str], *, batch_size: int, show_progress_bar: bool
    ) -> npt.NDArray[np.float32]:
        del show_progress_bar
        encode = getattr(self._model, method)
        return np.concatenate(
            [self._checked(method, encode(part), part) for part in batches(texts, batch_size)]
        )

    def _checked(self, method: str, given: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = _as_array(given)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise UsageError(
                f"{method} gave an array of shape {vectors.shape} for {len(texts)} texts; it must "
                f"give one vector per text, an array of shape ({len(texts)}, dimensions)"
            )
        dimensions = vectors.shape[1]
        if not dimensions:
            raise UsageError(f"{method} gave vectors of 0 dimensions; all passages would tie")
        before, expected = self._dimensions or (method, dimensions)
        if dimensions != expected:
            raise UsageError(
                f"{method} gave vectors of {dimensions} dimensions, and {before} of {expected}; "
                "their dot product needs the same"
            )
        self._dimensions = (before, expected)
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if bad.size:
            raise DataError(f"{method} gave a vector that is not finite for {texts[bad[0]]!r}")
        return vectors


def _as_array(given: Any) -> npt.NDArray[np.float32]:
    """Return vectors as 32-bit floats; tensors of torch may lie on another device."""
    if _has(given, "detach"):
        given = given.detach().float().cpu()
    try:
        if np.iscomplexobj(given):  # its other half would be dropped
            raise TypeError(f"{np.asarray(given).dtype} is not real")
        return np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"vectors must be an array or a tensor of numbers, and {type(given).__name__} is not "
            f"one: {error}"
        ) from error


class OwnSearch(Searcher):
    """How an object searches that does so itself: ``search(queries, k)`` ranks for each query."""

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Search for some queries at a time, and check the rankings that come back."""
        ids = PassageIds([passage.doc_id for passage in run.passages()])

        def rankings() -> Iterator[Ranking]:
            empty = True
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
                    checked = _checked_ranking(ranking, row.query_id, ids, self.depth)
                    empty = empty and not len(checked)
                    yield checked
            if empty:
                raise DataError("search found no passage for any query; all its rankings are empty")

        return run.ranked(rankings(), ids)


def _checked_ranking(given: Any, query_id: str, ids: PassageIds, depth: int) -> Ranking:
    """Return a ranking in the order of all systems, cut at `depth`.

    Raises:
        UsageError: if it is not made of doc_ids and scores.
        DataError: if a doc_id stands twice or is not in the collection, or a score is not finite.
    """
    where = f"the ranking of query {query_id!r}"
    try:
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        doc_ids = [doc_id for doc_id, _ in pairs]
        scores = np.array([float(score) for _, score in pairs], np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{where} must map doc_ids to scores, or be a list of pairs (doc_id, score): {error}"
        ) from error
    for doc_id in doc_ids:
        if not isinstance(doc_id, str):
            raise UsageError(
                f"{where} holds the doc_id {doc_id!r} of type {type(doc_id).__name__}; doc_ids are "
                "the collection's, as str"
            )
    if len(set(doc_ids)) < len(doc_ids):
        twice = next(doc_id for doc_id in doc_ids if doc_ids.count(doc_id) > 1)
        raise DataError(f"{where} holds the doc_id {twice!r} twice")
    rows = ids.rows(doc_ids)
    if None in rows:
        unknown = doc_ids[rows.index(None)]
        raise DataError(
            f"{where} holds the doc_id {unknown!r}, which no passage of the collection has; search "
            "must rank the passages of the collection that the data set was built from"
        )
    if not np.isfinite(scores).all():
        raise DataError(f"{where} holds a score that is not finite")
    return best_of(ids, np.array(rows, np.int64), scores, depth)
