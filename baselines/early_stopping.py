"""Early stopping by approximate retrieval: keep the best weights of a training.

Source: MS-Shift (ECIR 2023), section 4, after Hofstaetter et al. ("Efficiently Teaching an
Effective Dense Retriever with Balanced Topic Aware Sampling", SIGIR 2021): instead of searching
the collection, the model ranks a fixed set of candidates for each validation query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.processes import agreed
from msshift_bench.baselines.recipe import EarlyStopping
from msshift_bench.baselines.sidecars import read_own_json
from msshift_bench.baselines.system import Run
from msshift_bench.errors import DataError, require
from msshift_bench.plumbing import replace_folder, settle, write_json
from msshift_bench.schema import Place, mapping_of, number
from msshift_bench.search import Bm25

__all__ = ["BestWeights", "ValidationSet", "make_validation_set", "mean_reciprocal_rank"]

_CUT = 10


def _step(value: str, place: Place) -> None:
    if not value.isdecimal():
        place.wrong("wrong-step", f"{value!r} is no number of steps")


_HISTORY = mapping_of(_step, number(0, 1), most=1_000_000)
"""Step -> MRR@10."""


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


def make_validation_set(task: Run, index: Bm25, validation: EarlyStopping) -> ValidationSet:
    """Take BM25's first passages and the relevant ones as candidates of the validation queries.

    Raises:
        DataError: if no validation query has a relevant passage in the collection.
    """

    def key(query_id: str) -> bytes:
        return hashlib.blake2b(query_id.encode(), digest_size=16, key=b"validation").digest()

    held = {
        row.query_id: {
            doc_id
            for doc_id, place in zip(
                row.relevant_doc_ids, index.ids.rows(row.relevant_doc_ids), strict=True
            )
            if place is not None
        }
        for row in task.validation
    }
    usable = [row for row in task.validation if held[row.query_id]]
    if not usable:
        raise DataError(
            f"none of {len(task.validation)} validation queries has a relevant passage in "
            f"{task.collection.name}; take a recipe without [validation]"
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
        task.texts(places).to_pylist(),
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


@dataclass(slots=True)
class BestWeights:
    """The best weights so far, in a folder that outlives the process.

    After a kill, training continues from a checkpoint and meets some validations a second time:
    they are not repeated, and the model that they kept is still there.

    Attributes:
        validation: the recipe's table.
        folder: the folder of the history and the best model.
        measure: returns the MRR@10 of a model.
    """

    validation: EarlyStopping
    folder: Path
    measure: Callable[[Any], float]
    _history: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self._history = {}
        settle(self.model)
        if self._file.exists():
            history = read_own_json(self._file, _HISTORY)
            self._history = {int(step): value for step, value in history.items()}

    @property
    def _file(self) -> Path:
        return self.folder / "history.json"

    @property
    def model(self) -> Path:
        """The folder of the best model."""
        return self.folder / "model"

    def facts(self, last: int) -> dict[str, Any]:
        """Return the best step, its MRR@10, and all validations up to the step `last`."""
        history = {step: value for step, value in self._history.items() if step <= last}
        best = self._best(last)
        return {"best_step": best, "best_mrr@10": history[best], "history": history}

    def _best(self, last: int) -> int:
        """Return the step of the best validation; of equally good ones, the first."""
        return max((s for s in self._history if s <= last), key=lambda s: (self._history[s], -s))

    def callback(self) -> Any:
        """Return a callback of the trainer that validates, keeps the best, and ends in time."""
        base: Any = require("transformers", "neural", "early stopping").TrainerCallback
        best = self

        class Callback(base):  # type: ignore[misc]
            def on_step_end(
                self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
            ) -> None:
                step = state.global_step
                if step % best.validation.every == 0 or step == state.max_steps:
                    best._validate(model, step, write=args.should_save)
                    control.should_training_stop |= best.is_over(step)

        return Callback()

    def _validate(self, model: Any, step: int, *, write: bool) -> None:
        if step in self._history:
            return
        training = model.training
        self._history[step] = agreed(lambda: self.measure(model))
        model.train(training)
        if not write:
            return
        # Write the model first: nothing would notice a history that names a step without a model.
        if self._best(step) == step:
            with replace_folder(self.model) as partial:
                model.save_pretrained(str(partial), create_model_card=False)
        write_json(self._file, self._history)

    def is_over(self, step: int) -> bool:
        """Return whether training ends with a step, since none of late was better."""
        validated = [done for done in self._history if done <= step]
        since = sum(done > self._best(step) for done in validated)
        return 0 < self.validation.patience <= since
