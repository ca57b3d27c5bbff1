"""Systems with a neural model that is trained here for every held-out group."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from msshift_bench.baselines.systems.recipe import BM25, MINED, RANDOM, Recipe
from msshift_bench.baselines.systems.searcher import Scorer
from msshift_bench.baselines.systems.shift_data import GivenTriples, ShiftData, Teacher
from msshift_bench.baselines.systems.sidecars import read_json
from msshift_bench.baselines.systems.system import MODEL, TRAINING_FACTS, Run, System
from msshift_bench.baselines.training.backbones import (
    check_finite_weights,
    describe_encoder,
    load_config,
    loading,
    make_random_encoder,
    quiet_libraries,
    require_libraries,
    weights_digest,
)
from msshift_bench.baselines.training.teachers import find_teacher
from msshift_bench.baselines.training.trainer import (
    Checkpoint,
    ValidationSet,
    check_machine,
    evaluator,
    fit,
    in_processes,
    last_checkpoint,
    make_validation_set,
    mean_reciprocal_rank,
)
from msshift_bench.baselines.training.training_data import (
    TrainingData,
    TriplesInParts,
    check_batches,
    part_folder,
)
from msshift_bench.encoders import DEFAULTS, ModelSettings, load_model
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.libraries import sentence_transformers, torch
from msshift_bench.plumbing import replace_folder, write_json
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Ranking

_logger = logging.getLogger(__name__)

_ENCODER = "encoder"
"""The folder of an encoder with random weights."""

_CHECKPOINTS = "checkpoints"
"""The folder of checkpoints."""


class Neural(Recipe, System):
    """A system with a model that is trained for every held-out group, by its recipe.

    Attributes:
        module_name: the name of its own first module in a saved model; "" if that is a transformer.
        search: how the model searches the passages.
        triples: the triples to train on: ``released`` (the data set's), ``mine`` (with negatives
            as the recipe defines them), or ``auto``: the data set's, if it has some and the
            recipe's negatives are ``bm25`` or ``mined``. The choice is in the sidecar only.
    """

    per_group = True
    keeps_models = True
    module_name: ClassVar[str] = ""

    search: Scorer
    triples: Literal["auto", "released", "mine"] = Field("auto", exclude=True)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        first = self.search.reranks
        if self.negatives == MINED and first:
            yield (
                "negatives",
                f"{MINED!r} takes a model that searches all passages, and {self.name} only reranks "
                f"BM25's first {first}; take {BM25!r} or {RANDOM!r}",
            )
        if self.triples == "released" and self.negatives == RANDOM:
            yield (
                "triples",
                f"negatives = {RANDOM!r}, and the negatives of released triples are BM25's; take "
                "triples = 'mine', or a recipe that has them of BM25",
            )

    def tag(self, name: str) -> str:
        """Return the run tag, with the recipe, the seed, and what the search needs to say."""
        recipe = self.file.name if self.file else "own"
        return f"{name}-{recipe}-seed{self.seed}{self.search.tag}"

    def hardware(self) -> Mapping[str, object]:
        """Return the device, and the threads that torch uses."""
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {"device": device, "torch_threads": torch.get_num_threads()}

    def starts_from(self) -> Mapping[str, object] | None:
        """Return what the encoder has seen, if `pretrain_encoder` made it."""
        return describe_encoder(self.encoder)

    def choose_triples(self, data: ShiftData, held_out: str | None) -> GivenTriples | None:
        """Return the data set's triples, if it has any and the system is to train on them."""
        if self.triples == "mine" or self.negatives == RANDOM:
            return None
        released = data.triples(held_out)
        if released is None and self.triples == "released":
            raise NotFoundError(
                f"{data.dataset.folder} holds no triples of {data.shift.name}-{held_out}; 'msshift "
                f"triples {data.dataset.folder} --shift {data.shift.name}' adds them"
            )
        return released

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return the recipe's teacher, if it has one, checked not to know the held-out group."""
        if self.teacher is None or held_out is None:
            return None
        return find_teacher(self.teacher, data, held_out, self.seed, self.search.batch_size)

    def check_installed(self) -> None:
        """Check for the neural libraries."""
        require_libraries(self.name)

    def check(self, run: Run) -> None:
        """Check, unless the model is trained, for what training needs.

        That is BM25, the encoder and, in 16 bits, a GPU; and few training queries must fill their
        batches with this seed. The trainer would miss some of it only after others were trained.

        Raises:
            UsageError: if several GPUs cannot share a training.
            DataError: if a batch cannot be filled.
        """
        part = self.batch_size // self.accumulate
        if self.parts > 1 and run.gpus > 1:
            raise UsageError(f"negatives = {MINED!r} trains on one GPU, and not on {run.gpus}")
        if part % run.gpus:
            raise UsageError(
                f"a part of a batch holds {part} examples (batch_size / accumulate), which "
                f"{run.gpus} GPUs cannot share evenly"
            )
        if (run.work / MODEL).exists():
            return
        Bm25([Passage("1", "word")])
        self.check_encoder()
        check_machine(self.precision, run.gpus)
        check_batches(run, self)

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Train, encode the passages, and rank, continuing where an earlier process stopped."""
        run.facts["recipe"] = {
            "name": self.file.name if self.file else "own",
            "file_sha256": self.file.sha256 if self.file else None,
            "parameters_sha256": self.digest(),
        }
        with quiet_libraries():
            model, facts = self.trained(run)
            run.facts["training"].update(facts)
            # What another model has encoded is never taken for this one's.
            own = run.work / facts["weights_sha256"][:16]
            own.mkdir(exist_ok=True)
            yield from self.search.rankings(model, replace(run, work=own))

    def trained(self, run: Run) -> tuple[Any, Mapping[str, Any]]:
        """Return the model of a run as it searches, trained unless it is, and its facts."""
        folder = run.work / MODEL
        if not folder.exists():
            self._train(run, folder)
        facts: Mapping[str, Any] = read_json(folder / TRAINING_FACTS)
        digest, shared = facts["weights_sha256"], run.shared
        # It is loaded once for the test sets that follow each other.
        if digest not in shared.get(MODEL, {}):
            shared.pop(MODEL, None)  # Its memory is for the next one.
            model = self.load_model(folder, self.model)
            if weights_digest(model) != digest:
                raise DataError(
                    f"{folder} does not hold the weights that its training ended with: they have "
                    "been changed or damaged, or other versions of the libraries read them; remove "
                    "the folder, and the same command trains the model again"
                )
            shared[MODEL] = {digest: self._searching(model)}
        return shared[MODEL][digest], facts

    def _loaded(self, folder: Path) -> Any:
        """Return a model of this system as it searches."""
        return self._searching(self.load_model(folder, self.model))

    def _searching(self, model: Any) -> Any:
        return model.bfloat16() if self.search_precision == "bf16" else model

    def _train(self, run: Run, folder: Path) -> None:
        run.shared.pop(MODEL, None)
        triples = f"triples made by the recipe, negatives = {self.negatives!r}"
        if run.triples:
            triples = f"the data set's {run.triples.config}, SHA-256 {run.triples.sha256[:12]}"
        _logger.info("%s: trains on %s", run.name, triples)
        with run.stage("negatives"):
            parts = TriplesInParts(run, self)
            sets = self._validation_set(run)
        with run.stage("train"):
            encoder = run.work / _ENCODER
            if self.makes_encoder() and not encoder.exists():
                self.make_encoder(
                    (row.text for row in run.passages("vocabulary")), encoder, run.words
                )
            initial, last = self._fit_parts(run, parts, sets)
        model = self.load_model(last.best if sets else last.folder, self.model)
        check_finite_weights(model, run.name)
        validates = self.validation is not None
        with replace_folder(folder) as partial:
            model.save_pretrained(str(partial), create_model_card=False)
            facts = {
                **parts.facts(),
                "steps": last.step,
                "losses": last.losses(),
                "weights_kept": "best" if sets else "last",
                **({"validation_queries": len(run.validation)} if validates else {}),
                **(last.facts() if sets else {}),
                "initial_weights_sha256": initial,
                "weights_sha256": weights_digest(model),
            }
            write_json(partial / TRAINING_FACTS, facts)

    def _fit_parts(
        self, run: Run, parts: TriplesInParts, sets: ValidationSet | None
    ) -> tuple[str, Checkpoint]:
        """Train part by part, each from the checkpoint at the end of the one before.

        Returns:
            The digest of the initial weights, and the last checkpoint.
        """
        model, checkpoints = self._new_model(run.work), run.work / _CHECKPOINTS
        initial, done = weights_digest(model), last_checkpoint(checkpoints)
        if run.gpus > 1:
            model = None  # Its memory is for the models that the processes make.
        for number in range(self.parts):
            end = self.part(number, parts.steps)[1]
            if number and done is not None:
                parts.find_next(self._loaded, done.folder)
            if done is None or (done.step < end and not done.ended_early):
                if run.gpus > 1:
                    in_processes(run.gpus, _fit_together, self, run.work, run.name, sets)
                else:
                    self.fit(model, parts, run.work, name=run.name, sets=sets, until=end)
                done = last_checkpoint(checkpoints)
            assert done is not None
            if done.ended_early and done.step <= end:
                break
        assert done is not None
        return initial, done

    def _validation_set(self, run: Run) -> ValidationSet | None:
        """Return what the training is validated on; `None` without early stopping."""
        if self.validation is None:
            return None
        if not run.validation:
            _logger.warning(
                "%s: the data set holds no validation queries, so training goes on to the last "
                "step without early stopping, and the last weights are kept",
                run.name,
            )
            return None
        return make_validation_set(run, run.bm25(), self.validation)

    def _measured_on(self, sets: ValidationSet, model: Any) -> float:
        """Return the MRR@10 of a model in training."""
        scores = list(self.search.score(model, sets.queries, sets.passages, sets.candidates))
        if not all(np.isfinite(values).all() for values in scores):
            raise DataError(
                f"the scores of {self.name} are not finite any more; "
                "try a lower learning_rate, or precision fp32"
            )
        return mean_reciprocal_rank(scores, sets.relevant)

    def _new_model(self, work: Path) -> Any:
        start = work / _ENCODER if self.makes_encoder() else self.encoder
        return self.model.set_up(self.new_model(start))

    def fit(
        self,
        model: Any,
        triples: TrainingData | TriplesInParts,
        work: Path,
        *,
        name: str,
        sets: ValidationSet | None = None,
        until: int | None = None,
    ) -> None:
        """Train a model, continuing from its last checkpoint if there is one.

        Args:
            model: the model, untrained; it is changed.
            triples: the triples, in the order of training.
            work: the folder of a run's unfinished work, which gets the checkpoints.
            name: what the log calls the model.
            sets: what it is validated on; `None` for no early stopping.
            until: the step to stop after, if not the last one.
        """

        def loss() -> tuple[Any, Sequence[Any]]:
            loss_of_model = self.training_loss(model)
            return loss_of_model, self.callbacks(loss_of_model)

        fit(
            model,
            triples,
            self,
            work / _CHECKPOINTS,
            name=name,
            arguments=self.training_arguments(model, triples.columns),
            validation=self.validation if sets else None,
            until=until,
            loss=loss,
            **({"evaluator": evaluator(partial(self._measured_on, sets))} if sets else {}),
        )

    # ---- what a system is made of ------------------------------------------------------------

    def check_encoder(self) -> None:
        """Check, before anything is written, that what the model starts from is there.

        Raises:
            NotFoundError: if it is not.
        """
        if self.random is None:
            load_config(self.encoder, self.model)

    def makes_encoder(self) -> bool:
        """Return whether the model starts from what `make_encoder` writes."""
        return self.random is not None

    def make_encoder(
        self, texts: Iterable[str], folder: Path, _words: str = "whitespace", /
    ) -> None:
        """Write what the model starts from.

        Args:
            texts: the passages of the collection.
            folder: the folder to write; it appears only when it is complete.
            _words: how texts are divided into words, for a model of words (`WORDS`).
        """
        assert self.random is not None
        length = self.query_length + self.passage_length
        make_random_encoder(folder, self.random, texts, length=length, seed=self.seed)

    @abstractmethod
    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model.

        Args:
            encoder: where the encoder is: a folder, or an id of the Hugging Face Hub.

        Raises:
            NotFoundError: if there is no such encoder.
        """

    def training_loss(self, model: Any) -> Any:
        """Return the loss, a torch module as sentence-transformers' trainers take it."""
        if self.teacher is None:
            return self.judgement_loss(model)
        taught = self.teacher_distance(model)
        if not self.judgement_weight:
            return taught
        return weighted_sum(taught, self.judgement_loss(model), self.judgement_weight)

    @abstractmethod
    def judgement_loss(self, model: Any) -> Any:
        """Return the loss of telling relevant passages from others."""

    @abstractmethod
    def teacher_distance(self, model: Any) -> Any:
        """Return the distance of the model's scores to those of the recipe's teacher."""

    @classmethod
    def load_model(cls, where: str | Path, settings: ModelSettings = DEFAULTS) -> Any:
        """Return a model from a folder or from the Hugging Face Hub.

        Args:
            where: the folder, or the id.
            settings: how it is loaded; `ModelSettings.set_up` does the rest.

        Raises:
            NotFoundError: if there is no such model, or it cannot be loaded.
            DataError: if its weights are pickles.
        """
        with loading("model", where):
            return load_model(cls.model_type, where, settings)

    def training_arguments(self, model: Any, columns: Sequence[str]) -> dict[str, Any]:
        """Return the trainer's arguments that the recipe does not hold.

        Args:
            model: the model.
            columns: the names of the columns of the triples.
        """
        tasks = {name: "query" if name == "query" else "document" for name in columns}
        prompts = {name: text for name, task in tasks.items() if (text := model.prompts[task])}
        return {"router_mapping": tasks, **({"prompts": prompts} if prompts else {})}

    def callbacks(self, loss: Any) -> list[Any]:
        """Return callbacks of the trainer that belong to the loss."""
        del loss
        return []

    @classmethod
    def searcher(cls) -> type[Scorer]:
        """The class of the table ``[search]`` of its recipes."""
        kind: Any = cls.model_fields["search"].annotation
        return cast("type[Scorer]", kind)


def _fit_together(system: Neural, work: Path, name: str, sets: ValidationSet | None) -> None:
    """Train in one of several processes; the first one validates, and writes the checkpoints."""
    with quiet_libraries():
        triples = TrainingData.load(part_folder(work))
        system.fit(system._new_model(work), triples, work, name=name, sets=sets)


def weighted_sum(first: Any, second: Any, weight: float) -> Any:
    """Return the sum of a loss and another times a weight, as a loss.

    Texts go through the model once where both losses take vectors, as sentence-transformers' losses
    of dense and sparse models do. Those of multi-vector models and cross-encoders take texts, and
    each of the two reads them.

    Args:
        first: a loss of sentence-transformers.
        second: another one of the same model.
        weight: its weight.
    """
    takes_vectors = all(hasattr(loss, "compute_loss_from_embeddings") for loss in (first, second))

    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.first, self.second = first.model, first, second

        def forward(self, columns: Any, labels: Any, **options: Any) -> Any:
            if takes_vectors:
                vectors = sentence_transformers.base.losses.merged_forward.embed_columns(
                    self.first.model, columns
                )
                return self.compute_loss_from_embeddings(vectors, labels)
            judged = self.second(columns, labels, **options)
            return self.first(columns, labels, **options) + weight * judged

        def compute_loss_from_embeddings(self, vectors: Any, labels: Any) -> Any:
            judged = self.second.compute_loss_from_embeddings(vectors, labels)
            return self.first.compute_loss_from_embeddings(vectors, labels) + weight * judged

    return Sum()


def scaled(similarity: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Return a similarity of tensors times a factor, in 32 bits, for the losses with a teacher.

    Args:
        similarity: a similarity of sentence-transformers.
        factor: the recipe's ``loss_scale``, which a softmax over judgements has, too.
    """

    def scaled_similarity(*vectors: Any, **masks: Any) -> Any:
        return factor * similarity(*(one.float() for one in vectors), **masks).float()

    return scaled_similarity
