"""Vectors of the texts of queries, and sums over them that no order of queries can change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.data import QueryColumns
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import DataError
from msshift_bench.plumbing import Progress, silent, slices

__all__ = ["TextVectors", "embed_texts", "mean_vector", "products", "unit_rows"]

_OF_TEXTS = ("queries", "distinct_texts", "sha256")
"""The facts of embeddings that say what was embedded, and not how."""

_BLOCK = 4096
"""Rows that are computed with at once, in 64 bits."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of distinct texts.

    Attributes:
        row_of: text -> its row; rows are in the order of the sorted texts.
        vectors: shape (texts, dimensions), 32-bit floats; may be a memory map.
        facts: the encoder that made them, as JSON values.
    """

    row_of: dict[str, int]
    vectors: Vectors
    facts: Mapping[str, object] = field(default_factory=dict)

    def rows(self, queries: QueryColumns) -> Ints:
        """Return the row of each query's text, shape (queries,)."""
        return np.array([self.row_of[text] for text in queries.texts], dtype=np.int64)


def embed_texts(
    texts: Iterable[str], spec: EncoderSpec, *, progress: Progress = silent
) -> TextVectors:
    """Return the vectors of texts, equal ones once; they are cached as those of the topics are.

    Raises:
        DataError: if a text has no token or gets no finite vector, or all vectors are zeros.
        NotFoundError: if there is no such encoder.
        MissingExtraError: if its libraries are not installed.
        UsageError: if it cannot be used so.
    """
    distinct = tuple(sorted(set(texts)))
    embeddings = embed_queries(QueryColumns(distinct, distinct), spec, progress=progress)
    vectors = embeddings.vectors
    if not any(vectors[part].any() for part in slices(len(vectors), _BLOCK)):
        raise DataError(
            f"the encoder {spec.name!r} gives each of {len(distinct)} texts a vector of zeros; "
            "'terms' needs more queries, which share words; name another encoder"
        )
    facts = {name: fact for name, fact in embeddings.facts.items() if name not in _OF_TEXTS}
    return TextVectors({text: row for row, text in enumerate(distinct)}, vectors, facts)


def mean_vector(vectors: Vectors, rows: Ints, *, unit: bool = False) -> Floats:
    """Return the mean of some rows, in 64 bits; a row that is named twice counts twice.

    Args:
        vectors: shape (n, dimensions).
        rows: the rows.
        unit: whether rows are scaled to length 1 first.

    Returns:
        Shape (dimensions,). Rows are added one by one in the order of `vectors`, so neither the
        order of `rows` nor the size of blocks changes a bit.
    """
    counts = np.bincount(rows, minlength=len(vectors))
    distinct = np.flatnonzero(counts)
    total = np.zeros((1, vectors.shape[1]))
    for part in slices(len(distinct), _BLOCK):
        chosen = distinct[part]
        block = _in_64_bits(vectors[chosen], unit=unit) * counts[chosen, np.newaxis]
        total = np.concatenate([total, block]).sum(axis=0, keepdims=True)
    mean: Floats = total[0] / len(rows)
    return mean


def products(vectors: Vectors, rows: Ints, factor: Floats, *, unit: bool = False) -> Floats:
    """Return the dot product of each of some rows with a vector, in 64 bits, shape (rows,)."""
    distinct, places = np.unique(rows, return_inverse=True)
    found = np.empty(len(distinct))
    for part in slices(len(distinct), _BLOCK):
        block = _in_64_bits(vectors[distinct[part]], unit=unit)
        found[part] = (block * factor).sum(axis=1)
    return found[places]


def unit_rows(vectors: Vectors) -> Floats:
    """Return rows scaled to length 1, in 64 bits; a row of zeros stays one."""
    return _in_64_bits(vectors, unit=True)


def _in_64_bits(vectors: Vectors, *, unit: bool) -> Floats:
    rows = vectors.astype(np.float64)
    if unit:
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        lengths[lengths == 0] = 1
        rows /= lengths
    return rows
