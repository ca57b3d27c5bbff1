"""The interface of neural systems: how to make the model, its loss, and how it ranks.

Everything else, from the negatives to the sidecar, is the same for all: see `neural`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.backbones import loading, make_random_encoder
from msshift_bench.baselines.estimates import EncoderShape, Work, load_config
from msshift_bench.baselines.ranker import Ranker
from msshift_bench.baselines.recipe import Recipe, SearchSettings
from msshift_bench.baselines.system import System
from msshift_bench.encoders import SAFETENSORS
from msshift_bench.errors import require

__all__ = ["Architecture", "Candidates", "scaled", "weighted_sum"]

Candidates = Sequence[npt.NDArray[np.int64]]
"""For each query, the places of the passages to score."""


class Architecture(Recipe, Ranker, System):
    """One way to rank passages with a transformer, which is its recipe.

    What a model that was trained elsewhere needs, too, is of the class.

    Attributes:
        name: the system's name, and the name of its folder in a run set.
        module_name: the name of its own first module in a saved model; "" if that is a transformer.
        model_type: the name of its class in sentence-transformers; the trainer's and the
            arguments' names begin with it.
    """

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ()
    model_type: ClassVar[str]
    module_name: ClassVar[str] = ""

    @classmethod
    def search_type(cls) -> type[SearchSettings]:
        """The class of the table ``[search]`` of its recipes."""
        kind: Any = cls.model_fields["search"].annotation
        return cast("type[SearchSettings]", kind)

    def check_encoder(self) -> None:
        """Check, before anything is written, that what the model starts from is there.

        Raises:
            NotFoundError: if it is not.
        """
        if self.random is None:
            load_config(self.encoder)

    def makes_encoder(self) -> bool:
        """Return whether the model starts from what `make_encoder` writes."""
        return self.random is not None

    def make_encoder(self, texts: Iterable[str], folder: Path) -> None:
        """Write what the model starts from.

        Args:
            texts: the passages of the collection.
            folder: the folder to write; it appears only when it is complete.
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
        judged = self.judgement_loss(model)
        return weighted_sum(taught, judged, self.judgement_weight)

    @abstractmethod
    def judgement_loss(self, model: Any) -> Any:
        """Return the loss of telling relevant passages from others."""

    @abstractmethod
    def teacher_distance(self, model: Any) -> Any:
        """Return the distance of the model's scores to those of the recipe's teacher."""

    @classmethod
    @abstractmethod
    def score(
        cls,
        model: Any,
        queries: Sequence[str],
        passages: Sequence[str],
        candidates: Candidates,
        batch_size: int,
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the scores of its candidates among the passages.

        Args:
            model: the model.
            queries: texts.
            passages: texts; each is a candidate of some query.
            candidates: the places of each query's candidates in `passages`.
            batch_size: texts encoded together.
        """

    def work(self, shape: EncoderShape, passages: int, queries: int, examples: int) -> Work:
        """Return the work of training and search, for the plan of a run.

        A weight costs two operations per token, and six when it is trained.

        Args:
            shape: the encoder's shape.
            passages: passages of the collection.
            queries: test queries.
            examples: pairs of a training query and a relevant passage.
        """
        weights = shape.layer_weights + self.head_weights(shape)
        triple = self.query_length + (1 + self.negatives_per_query) * self.passage_length
        texts = passages * self.passage_length + queries * self.query_length
        return Work(
            training=6.0 * weights * self.steps_of(examples) * self.batch_size * triple,
            searching=2.0 * weights * texts + self.scoring(passages, queries),
            index_bytes=passages * self.bytes_per_passage(shape),
        )

    def head_weights(self, shape: EncoderShape) -> int:
        """Return the weights that every token meets beyond the encoder's layers."""
        del shape
        return 0

    def scoring(self, passages: int, queries: int) -> float:
        """Return the operations of scoring encoded passages; 0 if they are few."""
        del passages, queries
        return 0.0

    def bytes_per_passage(self, shape: EncoderShape) -> int:
        """Return the bytes stored per passage."""
        return 4 * shape.hidden

    @classmethod
    def conclusion(cls, facts: Mapping[str, Any], recipe_name: str) -> str:
        """Return a message to print when a run is complete; "" for none.

        Args:
            facts: the facts recorded for its sidecar; see `RunFacts.facts`.
            recipe_name: the name of the recipe.
        """
        del facts, recipe_name
        return ""

    @classmethod
    def tag_of(cls, search: SearchSettings) -> str:
        """Return the part of a run tag that describes the search; "" for none."""
        del search
        return ""

    @classmethod
    def load_model(cls, where: str | Path, **options: Any) -> Any:
        """Return a model from a folder or from the Hugging Face Hub.

        Args:
            where: the folder, or the id.
            **options: options of the class in sentence-transformers, but `model_kwargs`.

        Raises:
            NotFoundError: if there is no such model, or it cannot be loaded.
            DataError: if its weights are pickles.
        """
        model_class = getattr(require("sentence_transformers", "neural", cls.name), cls.model_type)
        local = Path(where).is_dir()
        with loading("model", where):
            return model_class(
                str(where), local_files_only=local, model_kwargs=SAFETENSORS, **options
            )

    def training_arguments(self, model: Any, columns: Sequence[str]) -> dict[str, Any]:
        """Return the trainer's arguments that the recipe does not hold.

        Args:
            model: the model.
            columns: the names of the columns of the triples.
        """
        del model
        tasks = {name: "query" if name == "query" else "document" for name in columns}
        return {"router_mapping": tasks}

    def callbacks(self, loss: Any) -> list[Any]:
        """Return callbacks of the trainer that belong to the loss."""
        del loss
        return []


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
    module: Any = require("torch", "neural", "a neural system").nn.Module
    merged = require("sentence_transformers.base.losses.merged_forward", "neural", "a loss")
    takes_vectors = all(hasattr(loss, "compute_loss_from_embeddings") for loss in (first, second))

    class Sum(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.first, self.second = first.model, first, second

        def forward(self, columns: Any, labels: Any, **options: Any) -> Any:
            if takes_vectors:
                vectors = merged.embed_columns(self.first.model, columns)
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
