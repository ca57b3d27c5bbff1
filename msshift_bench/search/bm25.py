"""BM25 in Lucene's variant, on bm25s or, as a slow reference, on rank_bm25.

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
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import DataError, UnknownNameError, UsageError, require
from msshift_bench.plumbing import batches, map_in_threads
from msshift_bench.records import Passage
from msshift_bench.search.ranking import PassageIds, Ranking, Retrieve, rank, select

__all__ = ["BATCH", "ENGINES", "Bm25", "Bm25Parameters"]

ENGINES = ("bm25s", "rank_bm25")
_STEMMERS = ("english", "none")
_STOP_WORDS = ("english", "none")

_WORD = re.compile(r"\w\w+")

BATCH = 128
"""Queries searched together by one thread; each costs 4 bytes per passage while it is scored."""

_COMPILE_FROM = 20_000
"""Passages from which on bm25s's compiled search is used. Compiling takes 5 s once on a machine, in
which numpy searches 2,000 passages for 13,000 queries. The scores are the same bits."""


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of a BM25 ranking.

    Attributes:
        k1: saturation of the term frequency, at least 0; 0.82 is tuned on MS MARCO passages.
        b: weight of the length normalisation, 0 to 1; 0.68 is tuned on MS MARCO passages.
        stemmer: ``english`` (Snowball's Porter 2) or ``none``.
        stop_words: ``english`` (Lucene's 33, as ``bm25s.stopwords.STOPWORDS_EN`` lists them;
            removed before stemming) or ``none``.
        depth: passages per ranking, at least 1.
        engine: ``bm25s`` or ``rank_bm25``.
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
            ("stemmer", self.stemmer, _STEMMERS),
            ("stop words", self.stop_words, _STOP_WORDS),
        ):
            if name not in valid:
                raise UnknownNameError(kind, name, valid)


class _Numbers(dict[str, int | None]):
    """Word -> term number, `None` for a stop word; a new word gets the number of its stem."""

    def __init__(self, stem: Callable[[str], str], stop_words: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(stop_words))
        self.stem = stem
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self[word] = self.terms.setdefault(self.stem(word), len(self.terms))
        return number


class _Vocabulary:
    """Text to term numbers: lower-cased words of two or more letters, filtered and stemmed."""

    def __init__(self, parameters: Bm25Parameters) -> None:
        stop_words: Iterable[str] = ()
        if parameters.stop_words == "english":
            stop_words = require("bm25s.stopwords", "bm25", "BM25").STOPWORDS_EN
        stem: Callable[[str], str] = str
        if parameters.stemmer == "english":
            stem = require("Stemmer", "bm25", "BM25").Stemmer("english").stemWord
        self._numbers = _Numbers(stem, stop_words)

    @property
    def terms(self) -> dict[str, int]:
        """Term -> its number."""
        return self._numbers.terms

    def learn(self, text: str) -> array[int]:
        """Return the term numbers of a passage, numbering terms that are new."""
        numbers = map(self._numbers.__getitem__, _WORD.findall(text.lower()))
        return array("i", [number for number in numbers if number is not None])

    def look_up(self, text: str) -> list[int]:
        """Return the term numbers of a query; terms that no passage has are left out."""
        numbers = []
        for word in _WORD.findall(text.lower()):
            number = self._numbers.get(word, -1)
            if number == -1:
                number = self.terms.get(self._numbers.stem(word))
            if number is not None:
                numbers.append(number)
        return numbers


class _Engine(Protocol):
    def retrieve(
        self, queries: Sequence[list[int]], k: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return the scores and rows of `k` best passages per query, in any order."""

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        """Return the scores of all passages for a query of at least one term."""


class _Bm25s:
    def __init__(
        self, passages: list[array[int]], terms: dict[str, int], parameters: Bm25Parameters
    ) -> None:
        bm25s = require("bm25s", "bm25", "BM25")
        backend = "numpy"
        if len(passages) >= _COMPILE_FROM:
            require("numba", "bm25", f"BM25 of {_COMPILE_FROM:,} passages or more")
            _keep_compiled()
            backend = "numba"
        self._index = bm25s.BM25(k1=parameters.k1, b=parameters.b, method="lucene", backend=backend)
        self._selection = backend
        self._index.index((passages, terms), create_empty_token=False, show_progress=False)

    def retrieve(
        self, queries: Sequence[list[int]], k: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        hits = self._index.retrieve(
            list(queries), k=k, sorted=False, show_progress=False, backend_selection=self._selection
        )
        return hits.scores, hits.documents.astype(np.int64)

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        return np.asarray(self._index.get_scores_from_ids(query), np.float32)


def _keep_compiled() -> None:
    """Let numba keep the code that it compiles for bm25s, so that not every process compiles anew.

    The code is kept beside bm25s or in the user's cache; if neither can be written, nothing is.
    """
    import importlib

    for name in ("retrieve_utils", "selection"):
        module = importlib.import_module(f"bm25s.numba.{name}")
        for function in vars(module).values():
            if hasattr(function, "enable_caching"):
                with suppress(RuntimeError):
                    function.enable_caching()


class _RankBm25:
    def __init__(
        self, passages: list[array[int]], terms: dict[str, int], parameters: Bm25Parameters
    ) -> None:
        del terms
        okapi: Any = require("rank_bm25", "bm25", "the engine rank_bm25").BM25Okapi

        class Lucene(okapi):  # type: ignore[misc]
            def _calc_idf(self, nd: Mapping[int, int]) -> None:
                for term, df in nd.items():
                    self.idf[term] = math.log(1 + (self.corpus_size - df + 0.5) / (df + 0.5))

        self._index = Lucene(passages, k1=parameters.k1, b=parameters.b)
        self._constant = parameters.k1 + 1

    def retrieve(
        self, queries: Sequence[list[int]], k: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        scores = np.stack([self.score_all(query) for query in queries])
        rows = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows

    def score_all(self, query: list[int]) -> npt.NDArray[np.float32]:
        return np.asarray(self._index.get_scores(query) / self._constant, np.float32)


class _Terms:
    """The terms of a collection's passages, as numbers: what indices are made of."""

    def __init__(self, passages: Iterable[Passage], parameters: Bm25Parameters) -> None:
        self.vocabulary = _Vocabulary(parameters)
        self.numbers: list[array[int]] = []
        doc_ids: list[str] = []
        for passage in passages:
            doc_ids.append(passage.doc_id)
            self.numbers.append(self.vocabulary.learn(passage.text))
        if not self.vocabulary.terms:
            raise DataError(f"none of the {len(doc_ids)} passages holds a word to search for")
        self.ids = PassageIds(doc_ids)


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
        self._take(_Terms(passages, chosen), chosen)

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
        terms = _Terms(passages, choices[0])
        for parameters in choices:
            index = cls.__new__(cls)
            index._take(terms, parameters)
            yield index

    def _take(self, terms: _Terms, parameters: Bm25Parameters) -> None:
        self.parameters = parameters
        self._vocabulary = terms.vocabulary
        self.ids = terms.ids
        engine = _Bm25s if parameters.engine == "bm25s" else _RankBm25
        self._engine: _Engine = engine(terms.numbers, terms.vocabulary.terms, parameters)

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
            places, retrieve = self._ask(part)
            ranked = rank(retrieve, self.ids, len(places), depth=cut, floor=0.0)
            rankings = dict(zip(places, ranked, strict=True))
            return [rankings.get(place, {}) for place in range(len(part))]

        for rankings in map_in_threads(search, batches(texts, BATCH)):
            yield from rankings

    def select(self, texts: Sequence[str], *, depth: int | None = None) -> npt.NDArray[np.int64]:
        """Find the passages that `search` would rank, without ranking them, in the calling thread.

        Args:
            texts: the queries, best `BATCH` at a time.
            depth: passages per query; by default that of the parameters.

        Returns:
            Rows of the collection, of shape ``(queries, min(depth, passages))``, in any order; -1
            where a query matches fewer passages.
        """
        places, retrieve = self._ask(texts)
        cut = depth or self.parameters.depth
        passage_rows = select(retrieve, self.ids, len(places), depth=cut, floor=0.0)
        rows = np.full((len(texts), passage_rows.shape[1]), -1)
        rows[places] = passage_rows
        return rows

    def score(
        self, texts: Iterable[str], rows: Iterable[npt.NDArray[np.int64]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the scores of given passages for each query text, ranked or not.

        Args:
            texts: the queries.
            rows: for each query, rows of the collection.
        """
        for text, places in zip(texts, rows, strict=True):
            terms = self._vocabulary.look_up(text)
            found = self._engine.score_all(terms)[places] if terms else np.zeros(len(places))
            yield found.astype(np.float32)

    def _ask(self, texts: Sequence[str]) -> tuple[list[int], Retrieve]:
        """Return the places of the queries that hold a known term, and a search among them."""
        # bm25s reads past its index for a query without terms; it never sees one.
        terms = {
            place: numbers
            for place, text in enumerate(texts)
            if (numbers := self._vocabulary.look_up(text))
        }
        queries = list(terms.values())
        return list(terms), lambda which, k: self._engine.retrieve([queries[i] for i in which], k)
