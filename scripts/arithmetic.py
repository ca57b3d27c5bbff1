"""The arithmetic of recipes: what their trainings and searches take, for docs/table-2.md.

It assumes that texts are as long as a recipe allows, and that a model reaches a fixed share of the
speed at which a machine multiplies matrices. It tells minutes from days, no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COPIES = 11
"""Copies of the weights on disk at once: three checkpoints, each with the optimizer's two moments,
the best and the final ones."""

EFFICIENCY = 0.3
"""The share of a matrix product's speed that training and encoding reach."""

_TERMS = 130
"""Terms per passage that MS-Shift reports of SPLADE (ECIR 2023, section 5.1)."""


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """The shape of a transformer: its layers, the sizes of its states, and its word pieces."""

    layers: int
    hidden: int
    inner: int
    vocabulary: int

    @property
    def layer_weights(self) -> int:
        """The weights of all layers, without the embeddings."""
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.inner)

    @property
    def bytes(self) -> int:
        """The bytes of all weights, in 32 bits."""
        return 4 * (self.layer_weights + self.vocabulary * self.hidden)


@dataclass(frozen=True, slots=True)
class Work:
    """The operations of training and of encoding and searching, and the bytes of the index."""

    training: float
    searching: float
    index_bytes: int

    def seconds(self, speed: float) -> float:
        """Return the time at a speed in operations per second."""
        return (self.training + self.searching) / (speed * EFFICIENCY)

    def bytes(self, shape: EncoderShape) -> int:
        """Return the disk space while one model is at work."""
        return self.index_bytes + COPIES * shape.bytes


def work_of(recipe: Any, shape: EncoderShape, passages: int, queries: int, examples: int) -> Work:
    """Return the work of one run of a bi-encoder, SPLADE, ColBERT or monoBERT.

    A weight costs two operations per token, and six when it is trained.

    Args:
        recipe: the system.
        shape: its encoder's shape.
        passages: passages of the collection.
        queries: test queries.
        examples: pairs of a training query and a relevant passage.
    """
    trained = recipe.steps_of(examples) * recipe.batch_size
    if recipe.name == "monobert":
        tokens = shape.layer_weights * (recipe.query_length + recipe.passage_length)
        ranked = queries * min(recipe.search.depth, passages)
        pairs = trained * (1 + recipe.negatives_per_query)
        return Work(6.0 * tokens * pairs, 2.0 * tokens * ranked, index_bytes=0)
    weights, scoring, passage_bytes = shape.layer_weights, 0.0, 4 * shape.hidden
    if recipe.name == "splade":
        weights += shape.hidden * (shape.hidden + shape.vocabulary)
        passage_bytes = 8 * _TERMS
    if recipe.name == "colbert":
        candidates = min(recipe.search.reranks or passages, passages)
        products = candidates * recipe.passage_length * recipe.dimensions
        scoring = queries * recipe.query_length * 2.0 * products
        passage_bytes = 2 * recipe.dimensions * recipe.passage_length
    triple = recipe.query_length + (1 + recipe.negatives_per_query) * recipe.passage_length
    texts = passages * recipe.passage_length + queries * recipe.query_length
    return Work(
        training=6.0 * weights * trained * triple,
        searching=2.0 * weights * texts + scoring,
        index_bytes=passages * passage_bytes,
    )
