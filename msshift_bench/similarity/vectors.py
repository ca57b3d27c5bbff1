"""Indicators from the vectors of queries: mean cosine, R, and the nearest training query.

**Means.** The mean cosine of a test query with the training queries (MS-Shift v1, section 3.1) is a
dot product: the query's vector, scaled to length 1, times the mean of the scaled training vectors.
Model-based similarity (MS-Shift, section 5.2, equation 1),

    R(q, T) = 1 / |T| * sum over t in T of s(q, t)

uses s, the dot product of two vectors under a bi-encoder trained on T, without the group of q. It
is the dot product with the mean vector of T. Sums are in 64 bits, and the order of queries cannot
change them. A vector of zeros has cosine 0 with all others. The encoder ``terms`` returns zeros for
a text that shares no term with another text.

**Nearest queries.** A 32-bit matrix product selects candidates: the training queries whose score
could reach the required cosine within the rounding error. Their cosines are then computed in 64
bits, with one sum per pair. So the result equals a search with 64-bit cosines of all pairs, for any
block size and number of threads. Memory holds one block of each set. Of equally near training
queries, the first by text is the nearest.

Source of the bound: Higham (2002), "Accuracy and stability of numerical algorithms", section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import DataError
from msshift_bench.plumbing import in_parallel, report_progress, slices
from msshift_bench.similarity.query_sets import QueryColumns, QueryValues

_BLOCK = 4096
"""Rows per 64-bit computation."""


_READ = 65_536
"""Training queries per call of `NearestQueries.meet`."""
_TESTS = 8192
"""Test queries per block."""
_TRAINING = 4096
"""Training queries per block."""
_PART = 512
"""Test queries per matrix product of one thread."""
_PAIRS = 1024
"""Pairs per computation of 64-bit cosines."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of distinct texts.

    Attributes:
        row_of: text -> its row; rows are in the order of the sorted texts.
        vectors: shape (texts, dimensions), 32-bit floats; may be a memory map.
        facts: facts about the encoder, as JSON values.
    """

    row_of: Mapping[str, int]
    vectors: Vectors
    facts: Mapping[str, object] = field(default_factory=dict)

    def rows(self, queries: QueryColumns) -> Ints:
        """Return the row of each query's text, shape (queries,); KeyError for an unknown text."""
        return np.array([self.row_of[text] for text in queries.texts], dtype=np.int64)


def embed_texts(texts: Iterable[str], spec: EncoderSpec) -> TextVectors:
    """Return the vectors of distinct texts, with the cache of `embed_queries`.

    Raises:
        DataError: if there is no text, a text has no token or no finite vector, or all vectors are
            zeros.
        NotFoundError: if the encoder does not exist.
        MissingExtraError: if its libraries are not installed.
        UsageError: if the encoder does not support the settings.
    """
    distinct = tuple(sorted(set(texts)))
    embeddings = embed_queries({text: text for text in distinct}, spec)
    vectors = embeddings.vectors
    if not any(vectors[part].any() for part in slices(len(vectors), _BLOCK)):
        raise DataError(
            f"the encoder {spec.name!r} returns vectors of zeros for all {len(distinct)} texts; "
            "choose another encoder, or for 'terms' add queries with common words"
        )
    row_of = {text: row for row, text in enumerate(distinct)}
    return TextVectors(row_of, vectors, embeddings.encoder_facts)


def unit_rows(vectors: Vectors) -> Floats:
    """Return the rows scaled to length 1, in 64 bits; rows of zeros stay zeros."""
    rows = vectors.astype(np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths == 0, 1, lengths)


def mean_cosine(train: QueryColumns, test: QueryColumns, texts: TextVectors) -> QueryValues:
    """Return each test query's mean cosine with the training queries, -1 to 1."""
    return _mean_products(train, test, texts, unit_rows)


def model_based(train: QueryColumns, test: QueryColumns, texts: TextVectors) -> QueryValues:
    """Return R of each test query, on the scale of the model's dot products."""
    return _mean_products(train, test, texts, partial(np.asarray, dtype=np.float64))


def _mean_products(
    train: QueryColumns, test: QueryColumns, texts: TextVectors, scaled: Callable[[Vectors], Floats]
) -> QueryValues:
    """Return the mean dot product of each test query with the training queries, in 64 bits.

    Distinct vectors, times their counts, are added one by one in the order of `texts`. So neither
    the order of queries nor the size of blocks changes a bit.
    """
    vectors, tested = texts.vectors, texts.rows(test)
    counts = np.bincount(texts.rows(train), minlength=len(vectors))
    distinct = np.flatnonzero(counts)
    total = np.zeros((1, vectors.shape[1]))
    for part in slices(len(distinct), _BLOCK):
        rows = distinct[part]
        block = scaled(vectors[rows]) * counts[rows, np.newaxis]
        total = np.concatenate([total, block]).sum(axis=0, keepdims=True)
    mean = total[0] / len(train)
    blocks = (vectors[tested[part]] for part in slices(len(tested), _BLOCK))
    return QueryValues(np.concatenate([(scaled(block) * mean).sum(axis=1) for block in blocks]))


def nearest_query(train: QueryColumns, test: QueryColumns, texts: TextVectors) -> QueryValues:
    """Return each test query's cosine with its nearest training query, and that query's index.

    Of training queries with the same text, the nearest has the smallest query_id.
    """
    tests, places = np.unique(texts.rows(test), return_inverse=True)
    search = NearestQueries(texts.vectors[tests], most=1)
    names, rows = list(zip(train.texts, train.ids, strict=True)), texts.rows(train)
    for block in slices(len(names), _READ):
        search.meet(names[block], texts.vectors, rows[block])
        report_progress("compare", block.stop, len(names))
    place_of = {name: place for place, name in enumerate(names)}
    nearest = [(-distance, place_of[text, name]) for ((distance, text, name),) in search.found]
    cosines, of_train = zip(*nearest, strict=True)
    return QueryValues(np.array(cosines)[places], np.array(of_train)[places])


def product_error(dimensions: int) -> float:
    """Return the error bound of 32-bit dot products of unit vectors, compared with their cosine.

    Args:
        dimensions: the number of components of a vector.
    """
    # Two vectors are rounded to 32 bits; d products are summed in any order; 1% covers the rest.
    return 1.01 * (dimensions + 4) * 2.0**-24


_NearPairs = tuple[Ints, Ints, Floats]
"""Indices of test and training queries, and their cosines in 64 bits, each of shape (pairs,).

Pairs are sorted by test query, then by descending cosine, then by training query."""


class NearestQueries:
    """The nearest training queries of each test query, with at least a given cosine.

    Of equally near training queries, the first by their keys are kept. So the result depends
    neither on the size of blocks nor on the order of training queries.

    Args:
        tests: the vectors of the test queries, shape (queries, dimensions).
        most: the maximum number of training queries per test query.
        least: the minimum cosine.

    Attributes:
        found: the neighbours of each test query, nearest first: the negative cosine, in 64 bits,
            and two keys of the training query, e.g. its text and its id.
    """

    def __init__(self, tests: Vectors, *, most: int, least: float = -np.inf) -> None:
        self.found: list[list[tuple[float, str, str]]] = [[] for _ in tests]
        self._tests, self._most = tests, most
        # The minimum cosine of a further neighbour: once the list is full, its smallest cosine.
        self._least = np.full(len(tests), least, dtype=np.float64)

    def meet(self, train: Sequence[tuple[str, str]], vectors: Vectors, rows: Ints) -> None:
        """Compare the test queries with further training queries, and update `found`.

        Args:
            train: two keys of each training query that order ties, such as its text and its id.
            vectors: the vectors of texts, shape (texts, dimensions).
            rows: the row in `vectors` of each training query, shape (queries,).
        """
        by_name = sorted(range(len(train)), key=train.__getitem__)
        for tests in slices(len(self._tests), _TESTS):
            exact = unit_rows(self._tests[tests])
            for part in slices(len(train), _TRAINING):
                block = unit_rows(vectors[rows[by_name[part]]])
                pairs = self._near_pairs(exact, block, self._least[tests])
                for query, of_query in groupby(zip(*pairs, strict=True), itemgetter(0)):
                    near = (
                        (-float(cosine), *train[by_name[part.start + row]])
                        for _, row, cosine in of_query
                    )
                    place = tests.start + query
                    self.found[place] = sorted([*self.found[place], *near])[: self._most]
                    if len(self.found[place]) == self._most:
                        self._least[place] = -self.found[place][-1][0]

    def _near_pairs(self, exact: Floats, train: Floats, least: Floats) -> _NearPairs:
        """Return the near pairs of test queries and a block of training queries, by their indices.

        Args:
            exact: the test vectors, of length 1 or 0, in 64 bits, shape (queries, dimensions).
            train: the training vectors, in the same form.
            least: the minimum cosine of each test query, shape (queries,).
        """
        factors = np.ascontiguousarray(train.astype(np.float32).T)
        error = product_error(exact.shape[1])

        def find_pairs(part: slice) -> _NearPairs:
            scores = exact[part].astype(np.float32) @ factors
            required = least[part]
            if self._most == 1:
                required = np.maximum(required, scores.max(1) - error)
            # The next smaller number, because rounding to 32 bits may have raised the threshold.
            below = np.nextafter((required - error).astype(np.float32), np.float32(-np.inf))
            tests, places = np.nonzero(scores >= below[:, np.newaxis])
            tests += part.start
            cosines = np.empty(len(tests))
            for pairs in slices(len(tests), _PAIRS):
                products = exact[tests[pairs]] * train[places[pairs]]
                cosines[pairs] = products.sum(axis=1)
            order = np.lexsort((places, -cosines, tests))
            order = order[cosines[order] >= least[tests[order]]]
            _, starts, counts = np.unique(tests[order], return_index=True, return_counts=True)
            order = order[np.arange(len(order)) - np.repeat(starts, counts) < self._most]
            return tests[order], places[order], cosines[order]

        parts = in_parallel(find_pairs, slices(len(exact), _PART))
        tests, places, cosines = map(np.concatenate, zip(*parts, strict=True))
        return tests, places, cosines
