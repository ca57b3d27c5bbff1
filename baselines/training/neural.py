"""Systems with a neural model that is trained for every held-out group."""

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
from msshift_bench.encoders import DEFAULTS, ModelSettings, load_model, warn_if_slow
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
    """A system whose recipe trains one model per held-out group.

    Attributes:
        module_name: the name of the class of a saved model's first module; "" for a transformer.
        search: how the model searches the passages.
        triples: the triples to train on: ``released`` (the data set's), ``mine`` (with the recipe's
            own negatives), or ``auto``. ``auto`` uses the data set's triples if it has some and the
            recipe's negatives are ``bm25`` or ``mined``. The choice is in the sidecar only.
    """

    per_group = True
    keeps_models = True
    module_name: ClassVar[str] = ""

    search: Scorer
    triples: Literal["auto", "released", "mine"] = Field("auto", exclude=True)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from super().rules()
        depth = self.search.reranks
        if self.negatives == MINED and depth:
            yield (
                "negatives",
                f"{MINED!r} needs a model that searches all passages, and {self.name} only reranks "
                f"BM25's first {depth}; use {BM25!r} or {RANDOM!r}",
            )
        if self.triples == "released" and self.negatives == RANDOM:
            yield (
                "triples",
                f"negatives = {RANDOM!r}, and the negatives of released triples are BM25's; use "
                f"triples = 'mine', or negatives = {BM25!r}",
            )

    def tag(self, name: str) -> str:
        """Return the run tag: name, recipe (``own`` without a file), seed and `Searcher.tag`."""
        recipe = self.file.name if self.file else "own"
        return f"{name}-{recipe}-seed{self.seed}{self.search.tag}"

    def hardware(self) -> Mapping[str, object]:
        """Return the GPU's name, or ``cpu``, and the number of torch's threads."""
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {"device": device, "torch_threads": torch.get_num_threads()}

    def initial_encoder_facts(self) -> Mapping[str, object] | None:
        """Return the record of the encoder's pre-training; see `describe_encoder`."""
        return describe_encoder(self.encoder)

    def choose_triples(self, data: ShiftData, held_out: str | None) -> GivenTriples | None:
        """Return the data set's triples; `None` if it has none or the recipe makes its own triples.

        Raises:
            NotFoundError: if `triples` is ``released`` and the data set has no triples.
        """
        if self.triples == "mine" or self.negatives == RANDOM:
            return None
        released = data.triples(held_out)
        if released is None and self.triples == "released":
            raise NotFoundError(
                f"{data.dataset.folder} has no triples of {data.shift.name}-{held_out}; 'msshift "
                f"triples {data.dataset.folder} --shift {data.shift.name}' adds them"
            )
        return released

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return the teacher by `find_teacher`; `None` without a teacher or a held-out group."""
        if self.teacher is None or held_out is None:
            return None
        return find_teacher(self.teacher, data, held_out, self.seed, self.search.batch_size)

    def check_installed(self) -> None:
        """Check that the neural libraries are installed.

        Raises:
            MissingExtraError: if a library is not installed.
        """
        require_libraries(self.name)

    def check(self, run: Run) -> None:
        """Check that the training can run; if the model is trained, check the number of GPUs only.

        Raises:
            UsageError: if several GPUs cannot share the training, or a launcher started this
                process. Also if the data set's triples have too few negatives.
            NotFoundError: if there is no such encoder.
            MissingError: if BM25's library, or a GPU for the precision, is missing.
            DataError: if the training queries cannot fill a batch with this seed, or have too few
                negatives.
        """
        part = self.batch_size // self.accumulate
        if self.parts > 1 and run.gpus > 1:
            raise UsageError(
                f"negatives = {MINED!r} trains on one GPU, got {run.gpus}; use --gpus 1, or other "
                "negatives"
            )
        if part % run.gpus:
            raise UsageError(
                f"batch_size / accumulate must be a multiple of the {run.gpus} GPUs, got {part}; "
                "change one of the three"
            )
        if (run.work / MODEL).exists():
            return
        Bm25([Passage("1", "word")])
        self.check_encoder()
        check_machine(self.precision, run.gpus)
        check_batches(run, self)

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query, after training and encoding the passages.

        An earlier process's work is continued; see `trained` for errors.
        """
        run.facts["recipe"] = {
            "name": self.file.name if self.file else "own",
            "file_sha256": self.file.sha256 if self.file else None,
            "parameters_sha256": self.digest(),
        }
        with quiet_libraries():
            model, facts = self.trained(run)
            run.facts["training"].update(facts)
            # Each model has a folder, so that it never reads passages that another one encoded.
            work = run.work / facts["weights_sha256"][:16]
            work.mkdir(exist_ok=True)
            yield from self.search.rankings(model, replace(run, work=work))

    def trained(self, run: Run) -> tuple[Any, Mapping[str, Any]]:
        """Return the model of a run, ready to search, and its facts; train it if needed.

        Raises:
            DataError: if the weights in the model's folder changed after the training. Also if
                weights or scores of a training are not finite.
        """
        folder = run.work / MODEL
        if not folder.exists():
            self._train(run, folder)
        facts: Mapping[str, Any] = read_json(folder / TRAINING_FACTS)
        digest, shared = facts["weights_sha256"], run.shared
        # The model is loaded once for all test sets of the run.
        if digest not in shared.get(MODEL, {}):
            shared.pop(MODEL, None)  # Free the memory of the previous model.
            model = self.load_model(folder, self.model)
            if weights_digest(model) != digest:
                raise DataError(
                    f"the weights in {folder} differ from their digest: they were changed after "
                    "the training, or other versions of the libraries read them; remove the "
                    "folder, and run the same command to train the model again"
                )
            shared[MODEL] = {digest: self._searching(model)}
        return shared[MODEL][digest], facts

    def _loaded(self, folder: Path) -> Any:
        return self._searching(self.load_model(folder, self.model))

    def _searching(self, model: Any) -> Any:
        if self.search_precision == "fp32":
            return model
        warn_if_slow("search_precision=bf16", model.device.type)
        return model.bfloat16()

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
        """Train part by part; each part starts from the last checkpoint of the part before.

        Returns:
            The digest of the initial weights, and the last checkpoint.
        """
        model, checkpoints = self._new_model(run.work), run.work / _CHECKPOINTS
        initial, done = weights_digest(model), last_checkpoint(checkpoints)
        if run.gpus > 1:
            model = None  # Free its memory: each process makes its own model.
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
        """Return the queries and candidates for validations.

        Return `None` without early stopping or, with a warning, without validation queries.
        """
        if self.validation is None:
            return None
        if not run.validation:
            _logger.warning(
                "%s: the data set has no validation queries: no early stopping, the last weights "
                "are kept",
                run.name,
            )
            return None
        return make_validation_set(run, run.bm25(), self.validation)

    def _validate(self, sets: ValidationSet, model: Any) -> float:
        """Return the MRR@10 of a model during training; a DataError if a score is not finite."""
        scores = list(self.search.score(model, sets.queries, sets.passages, sets.candidates))
        if not all(np.isfinite(values).all() for values in scores):
            raise DataError(
                f"the scores of {self.name} are no longer finite; "
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
        """Train a model in place, from its last checkpoint if there is one.

        Args:
            model: the model with its initial weights.
            triples: the triples, in the order of training.
            work: the folder of a run's unfinished work, where the checkpoints are written.
            name: the model's name in the log.
            sets: the queries and candidates for validations; `None` for no early stopping.
            until: the step after which to stop; by default the last step.

        Raises:
            DataError: if a validation's score is not finite.
        """

        def make_loss() -> tuple[Any, Sequence[Any]]:
            loss = self.training_loss(model)
            return loss, self.callbacks(loss)

        fit(
            model,
            triples,
            self,
            work / _CHECKPOINTS,
            name=name,
            arguments=self.training_arguments(model, triples.columns),
            validation=self.validation if sets else None,
            until=until,
            loss=make_loss,
            **({"evaluator": evaluator(partial(self._validate, sets))} if sets else {}),
        )

    # ---- the parts of a system ---------------------------------------------------------------

    def check_encoder(self) -> None:
        """Check, before anything is written, that the encoder exists; skip random encoders.

        Raises:
            NotFoundError: if it does not exist, or the Hub cannot be reached.
        """
        if self.random is None:
            load_config(self.encoder, self.model)

    def makes_encoder(self) -> bool:
        """Return whether `make_encoder` writes the encoder from which the model starts."""
        return self.random is not None

    def make_encoder(
        self, texts: Iterable[str], folder: Path, _words: str = "whitespace", /
    ) -> None:
        """Write the encoder from which the model starts.

        Args:
            texts: the passages of the collection.
            folder: the folder to write; it appears only when it is complete.
            _words: how texts are divided into words (`WORDS`), for models with word vectors.
        """
        assert self.random is not None
        length = self.query_length + self.passage_length
        make_random_encoder(folder, self.random, texts, length=length, seed=self.seed)

    @abstractmethod
    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model.

        Args:
            encoder: the encoder: a folder, or an id of the Hugging Face Hub.

        Raises:
            NotFoundError: if there is no such encoder, or it cannot be loaded.
            DataError: if its weights are pickles.
        """

    def training_loss(self, model: Any) -> Any:
        """Return the loss of judgements, teacher or both, for sentence-transformers' trainers."""
        if self.teacher is None:
            return self.judgement_loss(model)
        distance = self.teacher_distance(model)
        if not self.judgement_weight:
            return distance
        return weighted_sum(distance, self.judgement_loss(model), self.judgement_weight)

    @abstractmethod
    def judgement_loss(self, model: Any) -> Any:
        """Return the loss that trains the model to rank relevant passages above others."""

    @abstractmethod
    def teacher_distance(self, model: Any) -> Any:
        """Return the loss that trains the model towards the scores of the recipe's teacher."""

    @classmethod
    def load_model(cls, where: str | Path, settings: ModelSettings = DEFAULTS) -> Any:
        """Return a model from a folder or from the Hugging Face Hub.

        Args:
            where: the folder, or the id.
            settings: the settings; only `OF_LOADING` are used.

        Raises:
            NotFoundError: if there is no such model, or it cannot be loaded.
            DataError: if its weights are pickles.
        """
        with loading("model", where):
            return load_model(cls.model_type, where, settings)

    def training_arguments(self, model: Any, columns: Sequence[str]) -> dict[str, Any]:
        """Return the trainer's arguments that follow from the model: its roles and its prompts.

        Both map columns: to ``query`` or ``document``, and to the text before it.

        Args:
            model: the model.
            columns: the names of the columns of the triples.
        """
        tasks = {name: "query" if name == "query" else "document" for name in columns}
        prompts = {name: text for name, task in tasks.items() if (text := model.prompts[task])}
        return {"router_mapping": tasks, **({"prompts": prompts} if prompts else {})}

    def callbacks(self, loss: Any) -> list[Any]:
        """Return the trainer's callbacks that the loss needs; by default none."""
        del loss
        return []

    @classmethod
    def searcher(cls) -> type[Scorer]:
        """Return the class of the table ``[search]`` of this system's recipes."""
        kind: Any = cls.model_fields["search"].annotation
        return cast("type[Scorer]", kind)


def _fit_together(system: Neural, work: Path, name: str, sets: ValidationSet | None) -> None:
    """Train in one of several processes; the first validates and writes the checkpoints.

    The arguments are the same in each process; see `Neural.fit`.
    """
    with quiet_libraries():
        triples = TrainingData.load(part_folder(work))
        system.fit(system._new_model(work), triples, work, name=name, sets=sets)


def weighted_sum(first: Any, second: Any, weight: float) -> Any:
    """Return the loss `first + weight * second`.

    The losses of dense and sparse models accept vectors, so that the model encodes each text once.
    The losses of multi-vector models and cross-encoders each read the texts.

    Args:
        first: a loss of sentence-transformers.
        second: another loss of the same model.
        weight: the weight of `second`.
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
            second = self.second(columns, labels, **options)
            return self.first(columns, labels, **options) + weight * second

        def compute_loss_from_embeddings(self, vectors: Any, labels: Any) -> Any:
            second = self.second.compute_loss_from_embeddings(vectors, labels)
            return self.first.compute_loss_from_embeddings(vectors, labels) + weight * second

    return Sum()


def scaled(similarity: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Return a function that computes `factor` times a similarity in 32 bits, for teacher losses.

    Args:
        similarity: a similarity of sentence-transformers.
        factor: the recipe's ``loss_scale``, as in the softmax over judgements.
    """

    def scaled_similarity(*vectors: Any, **masks: Any) -> Any:
        return factor * similarity(*(vector.float() for vector in vectors), **masks).float()

    return scaled_similarity
