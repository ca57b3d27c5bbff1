"""What indicators compute with beyond the queries, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypedDict

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Collection
from msshift_bench.plumbing import Progress, silent
from msshift_bench.similarity.text_vectors import TextVectors

__all__ = ["IndicatorOptions", "Ingredients", "QueryValues", "Tokenizer"]

Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
"""From the text of a query to its words."""


class IndicatorOptions(TypedDict, total=False):
    """What users may say about how an indicator is computed.

    Each indicator takes some of these; `Indicator.options` names them.

    Attributes:
        tokenizer: cuts a query into words. By default ``weighted-jaccard`` lower-cases and splits
            at white space, and ``unseen-words`` takes runs of two or more letters, lower-cased,
            without stop words.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``, which needs no model. By
            default the paper's ``distilbert-base-uncased``, or ``terms`` for data of ``mini``.
        pooling: ``cls`` (default), ``mean``, or ``own`` for a model that sentence-transformers
            saved, which makes a query's vector by itself.
        models: the bi-encoders: a folder of run sets of one system with kept models, held-out group
            -> model folder, or one model folder for two sets of queries.
        seed: the seed whose models count, if the run set has several; by default the smallest.
        collection: the collection to search: what `open_collection` takes.
        depth: how many of BM25's first passages count; 500 by default, as in the paper.
        progress: called with ``(stage, done, total)``.
    """

    tokenizer: Tokenizer
    encoder: str | None
    pooling: str
    models: Mapping[str, str | Path] | str | Path | None
    seed: int | None
    collection: Collection | str | Path | None
    depth: int
    progress: Progress


class QueryValues(NamedTuple):
    """What an indicator that is defined per query returns.

    Attributes:
        values: one per test query, shape (test queries,).
        nearest: for each test query the place of its nearest training query, shape (test queries,);
            `None` of indicators that do not look for one.
    """

    values: Floats
    nearest: Ints | None = None


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What an indicator computes with; it finds here what its row says that it needs.

    Attributes:
        tokenizer: cuts texts into words; `None` for the indicator's own way.
        vectors: the vectors of all texts.
        collection: the collection to search.
        depth: how many of the first passages count.
        progress: called with ``(stage, done, total)``.
    """

    tokenizer: Tokenizer | None = None
    vectors: TextVectors | None = None
    collection: Collection | None = None
    depth: int = 500
    progress: Progress = silent

    @property
    def facts(self) -> Mapping[str, object]:
        """What decides the values beyond the queries and the words, as JSON values."""
        if self.vectors is not None:
            return self.vectors.facts
        if self.collection is not None:
            return {"collection": self.collection.name, "depth": self.depth}
        return {}
