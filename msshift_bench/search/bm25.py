"""BM25 in Lucene's variant, by bm25s, or by rank_bm25 as a slow reference.

A term of the query adds ``idf * tf / (tf + k1 * (1 - b + b * length / average length))`` to a
passage's score, with ``idf = ln(1 + (N - df + 0.5) / (df + 0.5))``. This is the "accurate" Lucene
of Kamphuis et al., "Which BM25 do you mean?", ECIR 2020. A repeated term of the query counts each
time. A passage that shares no term with the query is not ranked.

bm25s divides texts into words, and makes the index and its files. `ranking.TopK` adds up the
scores: it breaks ties by doc_id, and is faster than bm25s on large collections.

rank_bm25's ``BM25Okapi`` multiplies the term frequency part by ``k1 + 1``. It replaces a negative
idf by a constant, so common words can outweigh rarer words. The reference engine uses its scoring
loop with Lucene's idf, and divides scores by ``k1 + 1``. So it is an independent implementation of
the same variant, in 64 bits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.errors import DataError, UsageError, check_name
from msshift_bench.libraries import Library
from msshift_bench.plumbing import (
    batches,
    cache_root,
    checksum_matches,
    map_in_threads,
    replace_folder,
    slices,
    with_checksum,
    write_json,
)
from msshift_bench.records import Passage
from msshift_bench.search.ranking import (
    BATCH,
    PassageIds,
    Ranking,
    Sparse,
    TopK,
    check_compiler,
    rankings_of,
    unpack,
)
from msshift_bench.words import WHITESPACE, WORDS, find_words, words_fact

_logger = logging.getLogger(__name__)


class _WithoutJax(Library):
    """Library bm25s, imported without JAX, which this package does not need.

    An import of bm25s with JAX starts a JAX computation, and JAX then reserves 75% of a GPU's
    memory.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if {"bm25s", "jax"} & sys.modules.keys():
            return super().__getattr__(name)
        modules: dict[str, Any] = sys.modules
        modules["jax"] = None  # So `import jax` fails, as if JAX were not installed.
        try:
            return super().__getattr__(name)
        finally:
            del modules["jax"]


_bm25s: Any = _WithoutJax("bm25s", "bm25", "BM25")
_stemming: Any = Library("Stemmer", "bm25", "BM25")
_rank_bm25: Any = Library("rank_bm25", "bm25", "the engine rank_bm25")

ENGINES = ("bm25s", "rank_bm25")

STEMMERS = ("english", "none")
"""Names of stemmers; ``english`` is Snowball's Porter 2."""

_LUCENE = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there
    these they this to was will with
"""

STOP_WORD_LISTS = {"english": frozenset(_LUCENE.split()), "none": frozenset[str]()}
"""Name of a list -> its stop words; ``english`` has the 33 stop words of Lucene."""

_AT_ONCE = 1 << 22
"""Number of weights that are computed together, in 64 bits."""

KEEP_FROM = 20_000
"""Minimum number of passages of an index that is kept on disk; smaller indexes take seconds."""

_FORMAT = "msshift BM25 index 2"
"""Version of the files and of the computation of weights; increase it with every change."""

_CONTENTS, _DOC_IDS, _ASCENDING = "index.json", "doc_ids.npy", "ascending.npy"
"""Additional files of an index: digests of files, doc_ids, and rows in the order of doc_ids."""


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of a BM25 ranking.

    Attributes:
        k1: saturation of the term frequency, at least 0; 0.82 is tuned on MS MARCO passages.
        b: weight of the length normalisation, 0 to 1; 0.68 is tuned on MS MARCO passages.
        stemmer: ``english`` (Snowball's Porter 2) or ``none``.
        stop_words: ``english`` (Lucene's 33, removed before stemming) or ``none``.
        depth: passages per ranking, at least 1.
        engine: ``bm25s`` or ``rank_bm25``.
        words: the division of texts into words, a name in `WORDS`.

    Raises:
        UsageError: for a value out of range, or an unknown name (UnknownNameError).
    """

    k1: float = 0.82
    b: float = 0.68
    stemmer: str = "english"
    stop_words: str = "english"
    depth: int = 1000
    engine: str = "bm25s"
    words: str = WHITESPACE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k1) and self.k1 >= 0):
            raise UsageError(f"k1 must be 0 or more, got {self.k1}")
        if not 0 <= self.b <= 1:
            raise UsageError(f"b must be from 0 to 1, got {self.b}")
        if self.depth < 1:
            raise UsageError(f"depth must be 1 or more, got {self.depth}")
        for kind, name, valid in (
            ("engine", self.engine, ENGINES),
            ("stemmer", self.stemmer, STEMMERS),
            ("stop words", self.stop_words, STOP_WORD_LISTS),
            ("words", self.words, WORDS),
        ):
            check_name(kind, name, valid)

    def parameters(self) -> dict[str, Any]:
        """Return all parameters for identities, but ``words`` only if it is not the default."""
        return {n: v for n, v in asdict(self).items() if n != "words"} | words_fact(self.words)

    def tokenizer(self) -> Any:
        """Return a bm25s tokenizer, which lower-cases words, removes stop words, and stems.

        By default, a word has two or more letters or digits. For other values of ``words``, the
        pattern in `WORDS` applies.

        Raises:
            MissingExtraError: if bm25s or the stemmer is not installed.
        """
        stemmer = _stemming.Stemmer("english") if self.stemmer == "english" else None
        stop_words = sorted(STOP_WORD_LISTS[self.stop_words])
        return _bm25s.tokenization.Tokenizer(
            # The first is bm25s' default pattern; the others also match words of one letter.
            splitter=r"(?u)\b\w\w+\b"
            if self.words == WHITESPACE
            else partial(find_words, words=self.words),
            stopwords=stop_words,
            stemmer=stemmer,
        )


def stemmer_version(stemmer: str) -> str:
    """Return name and version of the stemming library, since terms depend on it; "" for ``none``.

    Raises:
        MissingExtraError: if it is not installed.
    """
    if stemmer == "none":
        return ""
    return f"PyStemmer {_stemming.version()}"


class _Terms:
    """The terms of a collection's passages.

    Args:
        numbers: the vocabulary number of each occurrence of a term, passage by passage.
        lengths: the number of occurrences in each passage.
        vocabulary: the number of different terms.
    """

    def __init__(self, numbers: Ints, lengths: Ints, vocabulary: int) -> None:
        self.numbers, self.lengths, self._vocabulary = numbers, lengths, vocabulary
        self.ends = np.cumsum(lengths)

    @cached_property
    def _frequencies(self) -> Any:
        """Counts of terms in passages: sparse, by columns, 32 bits, shape (passages, terms)."""
        from scipy.sparse import csr_array

        shape = len(self.lengths), self._vocabulary
        ones = np.ones(len(self.numbers), np.float32)
        counts = csr_array((ones, self.numbers, np.concatenate([[0], self.ends])), shape=shape)
        counts.sum_duplicates()
        return counts.tocsc()

    def weights(self, k1: float, b: float) -> dict[str, Any]:
        """Return the contribution of each term to each passage's score, in the format of bm25s.

        bm25s' loop over the passages gives the same bits, but takes much longer.
        """
        terms, total = self._frequencies, len(self.lengths)
        frequency = np.diff(terms.indptr)
        idf = [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequency.tolist()]
        long = k1 * ((1 - b) + b * self.lengths / self.lengths.mean())
        data = np.repeat(np.array(idf, np.float32), frequency)
        for part in slices(len(data), _AT_ONCE):
            tf = terms.data[part]
            data[part] = data[part] * (tf / (long[terms.indices[part]] + tf))
        indices, indptr = terms.indices.astype(np.int32), terms.indptr.astype(np.int64)
        return {"data": data, "indices": indices, "indptr": indptr, "num_docs": total}


def _bm25s_index(terms: _Terms, vocabulary: Mapping[str, int], parameters: Bm25Parameters) -> Any:
    """Return a bm25s index of counted terms."""

    class Counted(_bm25s.BM25):  # type: ignore[misc]
        def build_index_from_ids(self, *_: object, **__: object) -> dict[str, Any]:
            self.nonoccurrence_array = None  # Passages without the term have no weight.
            return terms.weights(self.k1, self.b)

    index = Counted(k1=parameters.k1, b=parameters.b, method="lucene")
    index.index(([], vocabulary), create_empty_token=False, show_progress=False)
    return index


class _RankBm25:
    """The engine rank_bm25, which scores every passage for every query."""

    def __init__(self, terms: _Terms, parameters: Bm25Parameters) -> None:
        passages = [part.tolist() for part in np.split(terms.numbers, terms.ends[:-1])]

        class Lucene(_rank_bm25.BM25Okapi):  # type: ignore[misc]
            def _calc_idf(self, nd: Mapping[int, int]) -> None:
                for term, df in nd.items():
                    self.idf[term] = math.log(1 + (self.corpus_size - df + 0.5) / (df + 0.5))

        self._index = Lucene(passages, k1=parameters.k1, b=parameters.b)
        self._constant = parameters.k1 + 1

    def get_scores_from_ids(self, terms: list[int]) -> Vectors:
        """Return the score of each passage, by row, for terms' numbers; named as in bm25s."""
        return np.asarray(self._index.get_scores(terms) / self._constant, np.float32)


class Bm25:
    """A BM25 index of a collection.

    Args:
        passages: the collection; streamed once.
        parameters: the parameters of the ranking.

    Attributes:
        parameters: the parameters of the ranking.
        ids: the doc_ids, in the collection's order.

    Raises:
        DataError: if no passage contains a word.
        MissingExtraError: if the engine, its stemmer, or numba (`check_compiler`) is not installed.
    """

    def __init__(
        self, passages: Iterable[Passage], parameters: Bm25Parameters | None = None
    ) -> None:
        chosen = parameters or Bm25Parameters()
        self._index_terms(*_terms_of(passages, chosen), chosen)

    @classmethod
    def variants(
        cls, passages: Iterable[Passage], choices: Sequence[Bm25Parameters]
    ) -> Iterator[Bm25]:
        """Yield an index for each choice of parameters; passages are split into words only once.

        Args:
            passages: the collection; streamed once.
            choices: the parameters of each index, at least one; they may differ only in k1, b,
                depth and engine.

        Raises:
            DataError: if no passage contains a word.
            MissingExtraError: if an engine is not installed.
        """
        terms = _terms_of(passages, choices[0])
        for parameters in choices:
            index = cls.__new__(cls)
            index._index_terms(*terms, parameters)
            yield index

    @classmethod
    def opened(cls, folder: Path, parameters: Bm25Parameters) -> Bm25:
        """Return an index that `save` wrote, as a memory map.

        Args:
            folder: the folder of the index; its files are not checked.
            parameters: the parameters of the index, which are not checked; the depth may differ.

        Raises:
            OSError, ValueError: if a file is missing or malformed.
        """
        index = cls.__new__(cls)
        index.parameters = parameters
        index._index = _bm25s.BM25.load(folder, mmap=True)
        index._tokenizer = parameters.tokenizer()
        index._tokenizer.get_vocab_dict().update(index._index.vocab_dict)
        doc_ids, ascending = (np.load(folder / name) for name in (_DOC_IDS, _ASCENDING))
        index.ids = PassageIds(doc_ids, ascending)
        return index

    def _index_terms(
        self, tokenizer: Any, ids: PassageIds, terms: _Terms, parameters: Bm25Parameters
    ) -> None:
        self.parameters = parameters
        self.ids = ids
        self._tokenizer = tokenizer
        if parameters.engine == "rank_bm25":
            self._index: Any = _RankBm25(terms, parameters)
            return
        check_compiler(len(ids))
        self._index = _bm25s_index(terms, tokenizer.get_vocab_dict(), parameters)

    def save(self, folder: Path) -> None:
        """Write an index of the engine bm25s into an empty folder: its files, and the doc_ids.

        Raises:
            OSError: if a file cannot be written.
        """
        self._index.save(folder, show_progress=False)
        np.save(folder / _DOC_IDS, self.ids.ids)
        np.save(folder / _ASCENDING, self.ids.sorted)

    def terms_of(self, text: str) -> list[int]:
        """Return the numbers of a text's terms in the index, in the order of the text.

        Stop words, and terms that no passage contains, are left out. A repeated term is repeated.
        """
        tokens = self._tokenizer.streaming_tokenize([text], update_vocab=False, allow_empty=False)
        numbers: list[int] = next(tokens)
        return numbers

    def search(self, texts: Iterable[str], *, depth: int | None = None) -> Iterator[Ranking]:
        """Yield a ranking for each query, in the order of the queries.

        Rankings do not depend on the number of threads. Queries are streamed in batches of `BATCH`.
        A query without a term of the index has an empty ranking.

        Args:
            texts: the queries.
            depth: passages per ranking; by default `parameters.depth`.
        """

        def search(part: list[str]) -> list[Ranking]:
            return rankings_of(self._top_k(part, depth), self.ids)

        for rankings in map_in_threads(search, batches(texts, BATCH)):
            yield from rankings

    def find(self, texts: Sequence[str], *, depth: int | None = None) -> Ints:
        """Return the results of `search` as packed integers, to keep them or send them.

        Args:
            texts: the queries, at least one.
            depth: passages per ranking; by default `parameters.depth`.

        Returns:
            An argument of `rankings_of`, of shape ``(queries, min(depth, passages))``, each row
            ascending.
        """
        best = map_in_threads(partial(self._top_k, depth=depth), batches(texts, BATCH))
        return np.sort(np.concatenate(list(best)), axis=1)

    def select(self, texts: Sequence[str], *, depth: int | None = None) -> Ints:
        """Return the passages of `search` without an order, computed in the calling thread.

        Args:
            texts: the queries; `BATCH` at a time is fastest.
            depth: passages per query; by default `parameters.depth`.

        Returns:
            Rows of passages in the collection, of shape ``(queries, min(depth, passages))``, in any
            order; -1 if a query matches fewer passages.
        """
        scores, places = unpack(self._top_k(texts, depth))
        return np.where(scores > 0, self.ids.sorted[places], -1)

    def score(self, texts: Iterable[str], rows: Iterable[Ints]) -> Iterator[Vectors]:
        """Yield the scores of given passages for each query; 0 for a passage without its terms.

        Args:
            texts: the queries.
            rows: for each query, the rows of its passages in the collection.
        """
        for text, places in zip(texts, rows, strict=True):
            yield self._index.get_scores_from_ids(self.terms_of(text))[places]

    def _top_k(self, texts: Sequence[str], depth: int | None) -> Ints:
        queries = [self.terms_of(text) for text in texts]
        best = TopK(self.ids, len(queries), depth or self.parameters.depth, floor=0.0)
        if self.parameters.engine == "rank_bm25":
            for place, numbers in enumerate(queries):
                scores = self._index.get_scores_from_ids(numbers)
                best.add(scores[None], 0, slice(place, place + 1))
            return best.keys
        terms = np.fromiter(chain.from_iterable(queries), np.int64)
        bounds = np.cumsum([0, *map(len, queries)], dtype=np.int64)
        query_terms = Sparse(np.ones(len(terms), np.float32), terms, bounds)
        # Columns of bm25s' matrix of passages and terms are rows of an inverted index.
        postings = Sparse(*(self._index.scores[name] for name in ("data", "indices", "indptr")))
        best.add_products(query_terms, postings, 0, len(self.ids))
        return best.keys


def _terms_of(
    passages: Iterable[Passage], parameters: Bm25Parameters
) -> tuple[Any, PassageIds, _Terms]:
    """Return a tokenizer with the passages' vocabulary, the doc_ids, and the terms.

    Raises:
        DataError: if no passage contains a word.
    """
    doc_ids: list[str] = []

    def texts() -> Iterator[str]:
        for passage in passages:
            doc_ids.append(passage.doc_id)
            yield passage.text

    tokenizer = parameters.tokenizer()
    numbers, lengths = array("i"), array("i")
    for of_passage in tokenizer.streaming_tokenize(texts(), allow_empty=False):
        numbers.extend(of_passage)
        lengths.append(len(of_passage))
    if not (words := len(tokenizer.get_vocab_dict())):
        raise DataError(f"none of the {len(doc_ids)} passages contains a word to search for")
    terms = _Terms(np.frombuffer(numbers, np.int32), np.frombuffer(lengths, np.int32), words)
    return tokenizer, PassageIds(doc_ids), terms


def cached_index(
    stream: Callable[[str], Iterable[Passage]],
    digest: Callable[[], str],
    parameters: Bm25Parameters | None = None,
    *,
    cache: Path | None = None,
) -> Bm25:
    """Return the kept index of a collection, or make and keep it; both give the same rankings.

    Collections of fewer than `KEEP_FROM` passages, and indexes of rank_bm25, are not kept. Each
    collection, set of parameters, and version of bm25s, stemmer or file format has its own index.
    A damaged index is made again, with a warning. If an index cannot be kept, a warning is logged.

    Args:
        stream: function that streams the collection. Its argument is the purpose: ``index``, or
            ``read`` to compute the digest only.
        digest: function that returns the digest of the passages, which is independent of their
            order; "" if the collection was not streamed yet.
        parameters: the parameters of the ranking; the depth does not change the index.
        cache: the folder of the indexes; by default ``indexes`` in `cache_root`.

    Raises:
        DataError: if no passage contains a word.
        MissingExtraError: if the engine is not installed.
    """
    chosen = parameters or Bm25Parameters()
    if chosen.engine == "rank_bm25":
        return Bm25(stream("index"), chosen)
    root = cache_root() / "indexes" if cache is None else cache
    identity = {
        **chosen.parameters(),
        "stemmed_by": stemmer_version(chosen.stemmer),
        "bm25s": _bm25s.__version__,
        "format": _FORMAT,
    }
    del identity["depth"], identity["engine"]
    kind = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    if not digest() and any(root.glob(f"{kind}-*")):
        deque(stream("read"), maxlen=0)
    if digest() and (folder := root / f"{kind}-{digest()[:32]}").is_dir():
        try:
            _check_files(folder)
            return Bm25.opened(folder, chosen)
        except (OSError, ValueError) as error:
            _logger.warning("the BM25 index %s is made again: %s", folder, error)
    index = Bm25(stream("index"), chosen)
    if len(index.ids) < KEEP_FROM:
        return index
    folder = root / f"{kind}-{digest()[:32]}"
    try:
        with replace_folder(folder) as new:
            index.save(new)
            facts = {**identity, "passages": digest(), "files": _digests(new)}
            write_json(new / _CONTENTS, with_checksum(facts))
    except (OSError, UsageError) as error:
        _logger.warning("the BM25 index is not kept in %s: %s", folder, error)
    return index


def _check_files(folder: Path) -> None:
    """Check that no file has changed, because wrong offsets in an index crash the process.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if a file has changed.
    """
    facts = json.loads((folder / _CONTENTS).read_bytes())
    if not isinstance(facts, dict) or "files" not in facts or not checksum_matches(facts):
        raise ValueError(f"{_CONTENTS} has changed since it was written")
    digests = _digests(folder)
    for name, expected in facts["files"].items():
        if digests.get(name) != expected:
            raise ValueError(f"{name} has changed since it was written")


def _digests(folder: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.name != _CONTENTS:
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
