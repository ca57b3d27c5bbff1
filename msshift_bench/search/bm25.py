"""BM25 in Lucene's variant, on our own inverted index or, as a slow reference, on rank_bm25.

A term of the query adds ``idf * tf / (tf + k1 * (1 - b + b * length / average length))`` with
``idf = ln(1 + (N - df + 0.5) / (df + 0.5))`` ("accurate" Lucene in Kamphuis et al., "Which BM25
do you mean?", ECIR 2020). A term that stands twice in the query counts twice; a passage that
shares no term with the query is not ranked.

rank_bm25's ``BM25Okapi`` multiplies the term frequency part by ``k1 + 1`` and has an idf that
can be negative and is then replaced by a constant, so that common words may outweigh rarer ones.
The reference engine keeps its scoring loop, gives it Lucene's idf and divides the constant out: it
is the same variant, from another implementation and in 64 bits.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import DataError, UnknownNameError, UsageError, require
from msshift_bench.plumbing import batches, map_in_threads
from msshift_bench.records import Passage
from msshift_bench.search.impacts import CountedTerms, ImpactBlock
from msshift_bench.search.index_files import StoredIndex, write_index
from msshift_bench.search.postings import BATCH, add_postings, check_compiler, search_postings
from msshift_bench.search.ranking import PassageIds, Ranking, ranking_keys, rankings_of, split_keys
from msshift_bench.search.vocabulary import STEMMERS, STOP_WORD_LISTS, Vocabulary

__all__ = ["BATCH", "ENGINES", "Bm25", "Bm25Parameters", "CollectionTerms"]

ENGINES = ("bm25s", "rank_bm25")
"""``bm25s`` is our own index of the weights that bm25s gives, to the bit."""


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of a BM25 ranking.

    Attributes:
        k1: saturation of the term frequency, at least 0; 0.82 is tuned on MS MARCO passages.
        b: weight of the length normalisation, 0 to 1; 0.68 is tuned on MS MARCO passages.
        stemmer: ``english`` (Snowball's Porter 2) or ``none``.
        stop_words: ``english`` (Lucene's 33, removed before stemming) or ``none``.
        depth: passages per ranking, at least 1.
        engine: ``bm25s`` (our own index of the weights that bm25s gives, to the bit) or
            ``rank_bm25``.
    """

    k1: float = 0.82
    b: float = 0.68
    stemmer: str = "english"
    stop_words: str = "english"
    depth: int = 1000
    engine: str = "bm25s"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k1) and self.k1 >= 0):
            raise UsageError(f"k1 is {self.k1}; it must be 0 or more")
        if not 0 <= self.b <= 1:
            raise UsageError(f"b is {self.b}; it must be from 0 to 1")
        if self.depth < 1:
            raise UsageError(f"depth is {self.depth}; it must be 1 or more")
        for kind, name, valid in (
            ("engine", self.engine, ENGINES),
            ("stemmer", self.stemmer, STEMMERS),
            ("stop words", self.stop_words, tuple(STOP_WORD_LISTS)),
        ):
            if name not in valid:
                raise UnknownNameError(kind, name, valid)


class _Engine(Protocol):
    def best(self, queries: Sequence[list[int]], depth: int) -> npt.NDArray[np.int64]:
        """Return what `search_postings` does."""

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        """Return the scores of all passages."""


class _Weights:
    """Our own engine: the weights of terms, in blocks."""

    def __init__(self, blocks: Sequence[ImpactBlock], ids: PassageIds) -> None:
        check_compiler(len(ids))
        self._blocks = blocks
        self._ids = ids

    def best(self, queries: Sequence[list[int]], depth: int) -> npt.NDArray[np.int64]:
        blocks = ((block.postings, block.spans(queries)) for block in self._blocks)
        return search_postings(blocks, self._ids, len(queries), depth=depth)

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        scores = [np.zeros(block.postings.size, np.float32) for block in self._blocks]
        for block, zeros in zip(self._blocks, scores, strict=True):
            add_postings(block.postings, block.spans([query]), 0, zeros)
        return np.concatenate(scores)


class _RankBm25:
    """rank_bm25, which goes through every passage for every query."""

    def __init__(
        self, passages: Sequence[array[int]], parameters: Bm25Parameters, ids: PassageIds
    ) -> None:
        okapi: Any = require("rank_bm25", "bm25", "the engine rank_bm25").BM25Okapi

        class Lucene(okapi):  # type: ignore[misc]
            def _calc_idf(self, nd: Mapping[int, int]) -> None:
                for term, df in nd.items():
                    self.idf[term] = math.log(1 + (self.corpus_size - df + 0.5) / (df + 0.5))

        self._index = Lucene(passages, k1=parameters.k1, b=parameters.b)
        self._constant = parameters.k1 + 1
        self._ids = ids

    def best(self, queries: Sequence[list[int]], depth: int) -> npt.NDArray[np.int64]:
        best = np.zeros((len(queries), min(depth, len(self._ids))), np.int64)
        for row, query in zip(best, queries, strict=True):
            scores = self.score_all(query)
            keys = np.where(scores > 0, ranking_keys(scores, self._ids.order), 0)
            row[:] = np.sort(keys)[len(keys) - len(row) :]
        return best

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        return np.asarray(self._index.get_scores(query) / self._constant, np.float32)


class CollectionTerms:
    """The terms of a collection's passages, as numbers: what indices are made of.

    Args:
        passages: the collection; streamed once.
        choices: the parameters of each index; see `Bm25.variants`.

    Attributes:
        ids: the doc_ids, in the collection's order.
        vocabulary: the terms.

    Raises:
        DataError: if no passage holds a word.
    """

    def __init__(self, passages: Iterable[Passage], choices: Sequence[Bm25Parameters]) -> None:
        self.vocabulary = Vocabulary(choices[0].stemmer, choices[0].stop_words)
        engines = {parameters.engine for parameters in choices}
        self._counted = CountedTerms()
        self._numbers: list[array[int]] = []
        doc_ids: list[str] = []
        for passage in passages:
            doc_ids.append(passage.doc_id)
            numbers = self.vocabulary.learn(passage.text)
            if "bm25s" in engines:
                self._counted.add(numbers)
            if "rank_bm25" in engines:
                self._numbers.append(numbers)
        if not self.vocabulary.terms:
            raise DataError(f"none of the {len(doc_ids)} passages holds a word to search for")
        self.ids = PassageIds(doc_ids)

    def engine(self, parameters: Bm25Parameters) -> _Engine:
        """Make the index."""
        if parameters.engine == "rank_bm25":
            return _RankBm25(self._numbers, parameters, self.ids)
        return _Weights(list(self._weigh(parameters)), self.ids)

    def store(self, folder: Path, what: Mapping[str, object], parameters: Bm25Parameters) -> None:
        """Write the index into an empty folder; see `write_index`."""
        write_index(folder, what, self.ids, self.vocabulary.terms, self._weigh(parameters))

    def _weigh(self, parameters: Bm25Parameters) -> Iterator[ImpactBlock]:
        return self._counted.weigh(len(self.vocabulary.terms), parameters.k1, parameters.b)


class Bm25:
    """A BM25 index of a collection.

    Args:
        passages: the collection; streamed once.
        parameters: the parameters of the ranking.

    Attributes:
        ids: the doc_ids, in the collection's order.

    Raises:
        DataError: if no passage holds a word.
        MissingExtraError: if the engine is not installed.
    """

    def __init__(
        self, passages: Iterable[Passage], parameters: Bm25Parameters | None = None
    ) -> None:
        chosen = parameters or Bm25Parameters()
        terms = CollectionTerms(passages, [chosen])
        self._take(chosen, terms.vocabulary, terms.ids, terms.engine(chosen))

    @classmethod
    def of_terms(cls, terms: CollectionTerms, parameters: Bm25Parameters) -> Bm25:
        """Make an index of passages that were split into terms with the same parameters."""
        index = cls.__new__(cls)
        index._take(parameters, terms.vocabulary, terms.ids, terms.engine(parameters))
        return index

    @classmethod
    def stored(cls, folder: Path, what: Mapping[str, object], parameters: Bm25Parameters) -> Bm25:
        """Open an index that `CollectionTerms.store` wrote, by a memory map.

        Args:
            folder: its folder.
            what: what it must be of.
            parameters: the parameters with which it was made; the depth may differ.

        Raises:
            IntegrityError: if it is another index, or was damaged; found when a damaged part is
                first used.
        """
        files = StoredIndex(folder, what)
        index = cls.__new__(cls)
        vocabulary = Vocabulary(parameters.stemmer, parameters.stop_words, files.terms)
        index._take(parameters, vocabulary, files.ids, _Weights(files.blocks, files.ids))
        return index

    @classmethod
    def variants(
        cls, passages: Iterable[Passage], choices: Sequence[Bm25Parameters]
    ) -> Iterator[Bm25]:
        """Yield an index per choice of parameters, and split the passages into words only once.

        Args:
            passages: the collection; streamed once.
            choices: the parameters of each index, at least one; they differ in k1, b, depth and
                engine alone.

        Raises:
            DataError: if no passage holds a word.
            MissingExtraError: if an engine is not installed.
        """
        terms = CollectionTerms(passages, choices)
        for parameters in choices:
            yield cls.of_terms(terms, parameters)

    def _take(
        self, parameters: Bm25Parameters, vocabulary: Vocabulary, ids: PassageIds, engine: _Engine
    ) -> None:
        self.parameters = parameters
        self._vocabulary = vocabulary
        self.ids = ids
        self._engine = engine

    def terms_of(self, text: str) -> list[int]:
        """Return the numbers of a text's terms, as the index counts them, in their order.

        Stop words, and terms that no passage holds, are left out.
        """
        return self._vocabulary.look_up(text)

    def search(self, texts: Iterable[str], *, depth: int | None = None) -> Iterator[Ranking]:
        """Rank passages for each query text, in the order given.

        Nothing depends on the number of processors. Memory is bounded by the queries in flight.

        Args:
            texts: the queries.
            depth: passages per ranking; by default that of the parameters.
        """
        cut = depth or self.parameters.depth

        def search(part: list[str]) -> list[Ranking]:
            best = self._engine.best(list(map(self.terms_of, part)), cut)
            return rankings_of(best, self.ids, floor=0.0)

        for rankings in map_in_threads(search, batches(texts, BATCH)):
            yield from rankings

    def find(self, texts: Sequence[str], *, depth: int | None = None) -> npt.NDArray[np.int64]:
        """Find what `search` ranks, packed, so that it can be kept or sent elsewhere.

        Args:
            texts: the queries, at least one.
            depth: passages per ranking; by default that of the parameters.

        Returns:
            What `rankings_of` takes, of shape ``(queries, min(depth, passages))``, each row
            ascending; 0 where a query matches fewer passages.
        """
        cut = depth or self.parameters.depth

        def find(part: list[str]) -> npt.NDArray[np.int64]:
            return np.sort(self._engine.best(list(map(self.terms_of, part)), cut), axis=1)

        return np.concatenate(list(map_in_threads(find, batches(texts, BATCH))))

    def select(self, texts: Sequence[str], *, depth: int | None = None) -> npt.NDArray[np.int64]:
        """Find the passages that `search` would rank, without ranking them, in the calling thread.

        Args:
            texts: the queries, best `BATCH` at a time.
            depth: passages per query; by default that of the parameters.

        Returns:
            Rows of the collection, of shape ``(queries, min(depth, passages))``, in any order; -1
            where a query matches fewer passages.
        """
        best = self._engine.best(list(map(self.terms_of, texts)), depth or self.parameters.depth)
        scores, places = split_keys(best)
        return np.where(scores > 0, self.ids.sorted[places], -1)

    def score(
        self, texts: Iterable[str], rows: Iterable[npt.NDArray[np.int64]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the scores of given passages for each query text, ranked or not.

        Args:
            texts: the queries.
            rows: for each query, rows of the collection.
        """
        for text, places in zip(texts, rows, strict=True):
            yield self._engine.score_all(self.terms_of(text))[places]
