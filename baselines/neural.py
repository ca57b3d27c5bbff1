"""Systems with a neural model that is trained here for every held-out group."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.backbones import (
    check_finite_weights,
    quiet_libraries,
    require_libraries,
    weights_digest,
)
from msshift_bench.baselines.early_stopping import (
    Validation,
    make_validation_set,
    mean_reciprocal_rank,
)
from msshift_bench.baselines.estimates import Estimate, measure_speed
from msshift_bench.baselines.lessons import Teacher
from msshift_bench.baselines.lexical import CommonIndex
from msshift_bench.baselines.mining import TriplesInParts, training_material
from msshift_bench.baselines.pretraining import describe_encoder
from msshift_bench.baselines.processes import is_one_of_several, process_count, wait_for
from msshift_bench.baselines.provenance import read_json
from msshift_bench.baselines.recipe import BM25, MINED, RANDOM
from msshift_bench.baselines.shift_data import ReleasedTriples, ShiftData
from msshift_bench.baselines.system import MODEL, TRAINING_FACTS, System, Task
from msshift_bench.baselines.teachers import find_teacher
from msshift_bench.baselines.trainer import (
    Checkpoint,
    TripleItems,
    check_precision,
    last_checkpoint,
    train,
)
from msshift_bench.baselines.training_data import TrainingData
from msshift_bench.errors import DataError, NotFoundError, UsageError, require
from msshift_bench.plumbing import Progress, replace_folder, silent, write_json
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Ranking

__all__ = ["TrainedSystem"]

_logger = logging.getLogger(__name__)

_ENCODER = "encoder"
"""The folder of an encoder with random weights."""

_TOGETHER = "together"
"""The folder of triples; other processes wait for it to train with this one."""

_CHECKPOINTS = "checkpoints"
"""The folder of checkpoints."""

_WITHOUT_VALIDATION = "without-validation"
"""A file that tells other processes to train to the end, because no query validates."""


class TrainedSystem(System):
    """An architecture that is trained for every held-out group by a recipe.

    Args:
        recipe: what the model is, how it is trained and searches.
        recipe_name: the recipe's name, for the run tag and the sidecar.
        file_sha256: the SHA-256 of the recipe's file; `None` if it was not read from one.
        triples: the triples to train on; see `make_trained`.
    """

    per_group = True

    def __init__(
        self,
        recipe: Architecture,
        recipe_name: str,
        file_sha256: str | None = None,
        triples: str = "auto",
    ) -> None:
        first = recipe.reranks(recipe.search)
        if recipe.negatives == MINED and first:
            raise UsageError(
                f"negatives = {MINED!r} takes a model that searches all passages, and "
                f"{recipe.name} only reranks BM25's first {first}; take negatives = {BM25!r} "
                f"or {RANDOM!r}"
            )
        require_libraries(recipe.name)
        self.name = recipe.name
        self._index = CommonIndex()
        self._triples = triples
        self._file_sha256 = file_sha256
        self._recipe = recipe
        self._recipe_name = recipe_name
        self._in_use: tuple[str, Any] | None = None

    @property
    def recipe(self) -> Architecture:
        """How it is trained and searches."""
        return self._recipe

    @property
    def tag(self) -> str:
        """The run tag."""
        end = self._recipe.tag_of(self._recipe.search)
        return f"{self.name}-{self._recipe_name}-seed{self._recipe.seed}{end}"

    @property
    def parameters(self) -> Mapping[str, object]:
        """The fields of the recipe."""
        return self._recipe.parameters()

    def hardware(self) -> Mapping[str, object]:
        """Return the device, the threads that torch uses, and the processes that train."""
        torch = require("torch", "neural", self.name)
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {
            "device": device,
            "torch_threads": torch.get_num_threads(),
            "processes": process_count(),
        }

    @property
    def encoder(self) -> Mapping[str, object] | None:
        """What the encoder has seen, if `pretrain_encoder` made it; the digest of word vectors."""
        own = self._recipe.encoder_facts()
        return own or describe_encoder(self._recipe.encoder)

    def estimate(self, passages: int, queries: int, training: int) -> Estimate:
        """Return what training and searching take; only the steps if the encoder is missing.

        Every training query counts as one pair with a relevant passage; few have more.
        """
        steps = self._recipe.steps_of(training)
        try:
            shape = self._recipe.shape()
        except NotFoundError:  # `check` says so.
            return Estimate(steps)
        work = self._recipe.work(shape, passages, queries, training)
        return Estimate.of(steps, work, shape, measure_speed())

    def choose_triples(self, data: ShiftData, held_out: str | None) -> ReleasedTriples | None:
        """Return the data set's triples, if it has any and the system is to train on them."""
        if self._triples == "mine" or self._recipe.negatives == RANDOM:
            return None
        released = data.triples(held_out)
        if released is None and self._triples == "released":
            raise NotFoundError(
                f"{data.dataset.folder} holds no triples of {data.shift.name}-{held_out}; 'msshift "
                f"triples build {data.dataset.folder} --shift {data.shift.name}' adds them"
            )
        return released

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return the recipe's teacher, if it has one, checked not to know the held-out group."""
        recipe = self._recipe
        if recipe.teacher is None or held_out is None:
            return None
        return find_teacher(recipe.teacher, data, held_out, recipe.seed, recipe.search.batch_size)

    def check(self, work: Path) -> None:
        """Check for BM25, the encoder and, in 16 bits, a GPU, unless the model is trained already.

        The trainer would miss the encoder only after the negatives are mined.

        Raises:
            UsageError: if several processes were to train on the model's own negatives.
        """
        if self._recipe.parts > 1 and is_one_of_several():
            raise UsageError(
                f"negatives = {MINED!r} trains in one process; leave accelerate or torchrun away"
            )
        if (work / MODEL).exists():
            return
        Bm25([Passage("1", "word")])
        self._recipe.check_encoder()
        check_precision(self._recipe.precision)

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Train, encode the passages, and rank, continuing where an earlier process stopped."""
        task.record.facts["recipe"] = {
            "name": self._recipe_name,
            "file_sha256": self._file_sha256,
            "parameters_sha256": self._recipe.digest(),
        }
        with quiet_libraries():
            model, facts = self.trained(task)
            task.record.facts["training"].update(facts)
            # What another model has encoded is never taken for this one's.
            own = task.work / facts["weights_sha256"][:16]
            own.mkdir(exist_ok=True)
            yield from self._recipe.rankings(
                model, replace(task, work=own), self._recipe.search, lambda: self._index.of(task)
            )
        concluded = self._recipe.conclusion(task.record.facts, self._recipe_name)
        if concluded:
            _logger.info("%s: %s", task.name, concluded)

    def trained(self, task: Task) -> tuple[Any, Mapping[str, Any]]:
        """Return the model of a task as it searches, trained unless it is, and its facts."""
        folder = task.work / MODEL
        if not folder.exists():
            self._train(task, folder)
        facts: Mapping[str, Any] = read_json(folder / TRAINING_FACTS)
        return self._load(folder, facts["weights_sha256"]), facts

    def _load(self, folder: Path, digest: str) -> Any:
        """Return a trained model as it searches; once for the test sets that follow each other."""
        if self._in_use is None or self._in_use[0] != digest:
            self._in_use = None  # Its memory is for the next one.
            model = self._recipe.load_model(folder)
            if weights_digest(model) != digest:
                raise DataError(
                    f"{folder} does not hold the weights that its training ended with: they have "
                    "been changed or damaged, or other versions of the libraries read them; remove "
                    "the folder, and the same command trains the model again"
                )
            self._in_use = digest, self._searching(model)
        return self._in_use[1]

    def follow(self, work: Path, is_over: Callable[[], bool]) -> None:
        """Train with the first process, if it trains."""
        if not wait_for(work / _TOGETHER, is_over):
            return
        validation = self._recipe.validation
        if (work / _WITHOUT_VALIDATION).exists():
            validation = None
        # Only the first process measures.
        validated = Validation(validation, lambda _: math.nan) if validation else None
        done = last_checkpoint(work / _CHECKPOINTS)
        if done is not None and done.ended_early:
            return
        triples = TrainingData.load(work / _TOGETHER)
        with quiet_libraries():
            self._fit(self._new_model(work), triples, validated, work, self.name, silent)

    def _loaded(self, folder: Path) -> Any:
        """Return a model of this system as it searches."""
        return self._searching(self._recipe.load_model(folder))

    def _searching(self, model: Any) -> Any:
        return model.bfloat16() if self._recipe.search_precision == "bf16" else model

    def _train(self, task: Task, folder: Path) -> None:
        self._in_use = None
        _logger.info("%s: trains on %s", task.name, training_material(task, self._recipe))
        with task.record.stage("negatives"):
            parts = TriplesInParts(task, self._recipe, self._index)
            validation = self._validation(task)
        with task.record.stage("train"):
            self._make_encoder(task)
            model = self._new_model(task.work)
            initial = weights_digest(model)
            done = last_checkpoint(task.work / _CHECKPOINTS)
            if is_one_of_several() and not (done and done.ended_early):
                parts.first.save(task.work / _TOGETHER)
            model, last = self._fit_parts(task, model, parts, validation)
            shutil.rmtree(task.work / _TOGETHER, ignore_errors=True)
        if validation:
            model = self._recipe.load_model(last.best)
        check_finite_weights(model, task.name)
        validates = self._recipe.validation is not None
        with replace_folder(folder) as partial:
            model.save_pretrained(str(partial), create_model_card=False)
            facts = {
                **parts.facts(),
                "steps": last.step,
                "losses": last.losses(),
                "weights_kept": "best" if validation else "last",
                **({"validation_queries": len(task.validation)} if validates else {}),
                **(last.facts() if validation else {}),
                "initial_weights_sha256": initial,
                "weights_sha256": weights_digest(model),
            }
            write_json(partial / TRAINING_FACTS, facts)

    def _fit_parts(
        self, task: Task, model: Any, parts: TriplesInParts, validation: Validation | None
    ) -> tuple[Any, Checkpoint]:
        """Train part by part; return the model and its last checkpoint."""
        checkpoints, ends = task.work / _CHECKPOINTS, parts.ends()
        for number, end in enumerate(ends):
            done = last_checkpoint(checkpoints)
            if number:
                assert done is not None
                parts.find_next(self._loaded, done.folder)
            if done is not None and done.step <= end and done.ended_early:
                break
            is_last = end == ends[-1]
            if not is_last and done is not None and done.step >= end:
                continue
            if number:
                # A part begins with the checkpoint at the end of the one before, as after a kill.
                model = self._new_model(task.work)
            self._fit(
                *(model, parts.known(), validation, task.work, task.name, task.progress),
                until=None if is_last else end,
            )
            done = last_checkpoint(checkpoints)
            if done is not None and done.ended_early:
                break
        last = last_checkpoint(checkpoints)
        assert last is not None
        return model, last

    def _validation(self, task: Task) -> Validation | None:
        """Return how the training is validated; `None` without early stopping."""
        validation = self._recipe.validation
        if validation is None:
            return None
        if not task.validation:
            (task.work / _WITHOUT_VALIDATION).touch()
            _logger.warning(
                "%s: the data set holds no validation queries, so training goes on to the last "
                "step without early stopping, and the last weights are kept",
                task.name,
            )
            return None
        sets = make_validation_set(task, self._index.of(task), validation)

        def measure(model: Any) -> float:
            scores = list(
                self._recipe.score(
                    model,
                    sets.queries,
                    sets.passages,
                    sets.candidates,
                    self._recipe.search.batch_size,
                )
            )
            if not all(np.isfinite(values).all() for values in scores):
                raise DataError(
                    f"the scores of {self.name} are not finite any more; "
                    "try a lower learning_rate, or precision fp32"
                )
            return mean_reciprocal_rank(scores, sets.relevant)

        return Validation(validation, measure)

    def _make_encoder(self, task: Task) -> None:
        """Make what the model starts from, if it is made from the collection and is not there."""
        recipe, folder = self._recipe, task.work / _ENCODER
        if recipe.makes_encoder() and not folder.exists():
            texts = (passage.text for passage in task.passages("vocabulary"))
            recipe.make_encoder(texts, folder)

    def _new_model(self, work: Path) -> Any:
        recipe = self._recipe
        made = recipe.makes_encoder()
        encoder = work / _ENCODER if made else recipe.encoder
        return recipe.new_model(encoder)

    def _fit(
        self,
        model: Any,
        triples: TripleItems,
        validation: Validation | None,
        work: Path,
        name: str,
        progress: Progress,
        *,
        until: int | None = None,
    ) -> int:
        """Train as the recipe says, up to a step; return the last step."""
        return train(
            model,
            triples,
            self._recipe,
            work / _CHECKPOINTS,
            progress,
            name=name,
            until=until,
            validation=validation,
        )
