"""Early stopping by approximate retrieval: what a training is validated on, and how.

Source: MS-Shift (ECIR 2023), section 4, after Hofstaetter et al. ("Efficiently Teaching an
Effective Dense Retriever with Balanced Topic Aware Sampling", SIGIR 2021): instead of searching
the collection, the model ranks a fixed set of candidates for each validation query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.recipe import EarlyStopping
from msshift_bench.baselines.systems.system import Run
from msshift_bench.errors import DataError
from msshift_bench.libraries import sentence_transformers, transformers
from msshift_bench.search import Bm25

__all__ = [
    "METRIC",
    "Validation",
    "ValidationSet",
    "make_validation_set",
    "mean_reciprocal_rank",
]

_CUT = 10

METRIC = f"mrr@{_CUT}"
"""What decides which weights are best."""


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """The queries and candidates that a model ranks at every validation.

    Attributes:
        queries: texts of the validation queries.
        passages: texts of all candidates, each once.
        candidates: for each query, the places of its candidates in `passages`, in the order that
            breaks ties: by doc_id, descending.
        relevant: for each query, whether each of its candidates is relevant.
    """

    queries: Sequence[str]
    passages: Sequence[str]
    candidates: Sequence[npt.NDArray[np.int64]]
    relevant: Sequence[npt.NDArray[np.bool_]]


def make_validation_set(run: Run, index: Bm25, validation: EarlyStopping) -> ValidationSet:
    """Take BM25's first passages and the relevant ones as candidates of the validation queries.

    Raises:
        DataError: if no validation query has a relevant passage in the collection.
    """

    def key(query_id: str) -> bytes:
        return hashlib.blake2b(query_id.encode(), digest_size=16, key=b"validation").digest()

    held = {row.query_id: set(index.ids.held(row.relevant_doc_ids)) for row in run.validation}
    usable = [row for row in run.validation if held[row.query_id]]
    if not usable:
        raise DataError(
            f"none of {len(run.validation)} validation queries has a relevant passage in "
            f"{run.collection.name}; take a recipe without [validation]"
        )
    chosen = sorted(usable, key=lambda row: key(row.query_id))[: validation.queries]
    rankings = index.search((row.text for row in chosen), depth=validation.depth)
    sets = [
        sorted({*held[row.query_id], *ranking}, reverse=True)
        for row, ranking in zip(chosen, rankings, strict=True)
    ]
    doc_ids = {doc_id for ids in sets for doc_id in ids}
    places = {doc_id: place for place, doc_id in enumerate(sorted(doc_ids))}
    return ValidationSet(
        [row.text for row in chosen],
        run.texts(places).to_pylist(),
        [np.array([places[doc_id] for doc_id in ids], np.int64) for ids in sets],
        [
            np.array([doc_id in held[row.query_id] for doc_id in ids])
            for row, ids in zip(chosen, sets, strict=True)
        ],
    )


def mean_reciprocal_rank(
    scores: Sequence[npt.NDArray[np.float32]], relevant: Sequence[npt.NDArray[np.bool_]]
) -> float:
    """Return MRR@10, 0 to 1; equal scores are ranked in the order given.

    Args:
        scores: for each query, those of its candidates.
        relevant: for each query, whether each of its candidates is relevant.
    """
    total = 0.0
    for values, judged in zip(scores, relevant, strict=True):
        ranked = judged[np.argsort(-values, kind="stable")][:_CUT]
        if ranked.any():
            total += 1 / (1 + int(ranked.argmax()))
    return total / len(relevant)


@dataclass(frozen=True, slots=True)
class Validation:
    """How a training is validated, by the trainer itself.

    Attributes:
        settings: the recipe's table.
        measure: returns the MRR@10 of a model; of several processes only the first calls it.
    """

    settings: EarlyStopping
    measure: Callable[[Any], float]

    def arguments(self) -> dict[str, Any]:
        """Return the trainer's arguments: each validation has a checkpoint, and the best stays."""
        return {
            "eval_strategy": "steps",
            "eval_steps": self.settings.every,
            "save_steps": self.settings.every,
            # The best one, the newest, and the one before it, as the newest may be incomplete.
            "save_total_limit": 3,
            "load_best_model_at_end": True,
            "metric_for_best_model": METRIC,
            "greater_is_better": True,
            "restore_callback_states_from_checkpoint": True,
        }

    def evaluator(self) -> Any:
        """Return what the trainer calls at each validation."""
        measure = self.measure

        class Evaluator(sentence_transformers.base.evaluation.BaseEvaluator):  # type: ignore[misc]
            def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
                return {METRIC: measure(model)}

        return Evaluator()

    def callbacks(self) -> list[Any]:
        """Return the callback that ends the training in time."""
        patience = self.settings.patience
        return [transformers.EarlyStoppingCallback(patience)] if patience else []
