"""Indicators from the vectors of queries: mean cosine, R, and the nearest training query.

**Means.** The mean cosine of a test query and the training queries (MS-Shift v1, section 3.1) is
the dot product of its vector, scaled to length 1, with the mean of theirs, so scaled: one pass over
either set. Model-based similarity (MS-Shift, section 5.2, equation 1),

    R(q, T) = 1 / |T| * sum over t in T of s(q, t)

with s the dot product of two vectors under a bi-encoder that was trained on T, without the group of
q, is likewise the dot product with the mean vector of T. Sums are in 64 bits, and no order of
queries can change them. A vector of zeros, as the encoder ``terms`` gives a text whose terms no
other text has, has cosine 0 with all others.

**The nearest.** A 32-bit matrix product *proposes*: it leaves those training queries whose score is
as close to what is wanted as its rounding error allows. These are *decided* by cosines in 64 bits,
whose sums are per pair. So the result is what 64-bit cosines of all pairs give, whatever the size
of blocks and the number of threads. Memory holds one block of either set, however many queries
there are. Of equals, the nearest is the training query whose text sorts first.

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
"""Rows that are computed with at once, in 64 bits."""


_READ = 65_536
"""Training queries that are sorted by name together."""
_TESTS = 8192
"""Test queries that pass over the training queries together."""
_TRAINING = 4096
"""Training queries per block."""
_PART = 512
"""Test queries per matrix product of one thread."""
_PAIRS = 1024
"""Pairs decided at once."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of distinct texts.

    Attributes:
        row_of: text -> its row; rows are in the order of the sorted texts.
        vectors: shape (texts, dimensions), 32-bit floats; may be a memory map.
        facts: the encoder that made them, as JSON values.
    """

    row_of: Mapping[str, int]
    vectors: Vectors
    facts: Mapping[str, object] = field(default_factory=dict)

    def rows(self, queries: QueryColumns) -> Ints:
        """Return the row of each query's text, shape (queries,)."""
        return np.array([self.row_of[text] for text in queries.texts], dtype=np.int64)


def embed_texts(texts: Iterable[str], spec: EncoderSpec) -> TextVectors:
    """Return the vectors of texts, equal ones once; they are cached as those of the topics are.

    Raises:
        DataError: if a text has no token or gets no finite vector, or all vectors are zeros.
        NotFoundError: if there is no such encoder.
        MissingExtraError: if its libraries are not installed.
        UsageError: if it cannot be used so.
    """
    distinct = tuple(sorted(set(texts)))
    embeddings = embed_queries({text: text for text in distinct}, spec)
    vectors = embeddings.vectors
    if not any(vectors[part].any() for part in slices(len(vectors), _BLOCK)):
        raise DataError(
            f"the encoder {spec.name!r} gives each of {len(distinct)} texts a vector of zeros; "
            "'terms' needs more queries, which share words; name another encoder"
        )
    row_of = {text: row for row, text in enumerate(distinct)}
    return TextVectors(row_of, vectors, embeddings.encoder_facts)


def unit_rows(vectors: Vectors) -> Floats:
    """Return rows scaled to length 1, in 64 bits; a row of zeros stays one."""
    rows = vectors.astype(np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths == 0, 1, lengths)


def mean_cosine(train: QueryColumns, test: QueryColumns, texts: TextVectors) -> QueryValues:
    """Return each test query's mean cosine with the training queries, -1 to 1."""
    return _mean_products(train, test, texts, unit_rows)


def model_based(train: QueryColumns, test: QueryColumns, texts: TextVectors) -> QueryValues:
    """Return R of each test query; its range is that of the model's dot products."""
    return _mean_products(train, test, texts, partial(np.asarray, dtype=np.float64))


def _mean_products(
    train: QueryColumns, test: QueryColumns, texts: TextVectors, scaled: Callable[[Vectors], Floats]
) -> QueryValues:
    """Return the mean dot product of each test query with the training queries, in 64 bits.

    Vectors are added one by one in the order of `texts`, each as often as it occurs, so neither
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
    """Return each test query's cosine with its nearest training query, and which that is.

    Of training queries with the same text it is the one with the smallest query_id.
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
    """Return by how much a 32-bit product of vectors of length 1 may differ from their cosine.

    Args:
        dimensions: the components of a vector.
    """
    # Components rounded to 32 bits, twice, and a sum of d products in any order; 1% for the rest.
    return 1.01 * (dimensions + 4) * 2.0**-24


_NearPairs = tuple[Ints, Ints, Floats]
"""Test queries, training queries and their cosines in 64 bits, each of the shape (pairs,).

They are in the order of test queries, those of each the nearest first; of equals, the first of the
training queries."""


class NearestQueries:
    """The nearest training queries of each test query, of those that reach a cosine.

    Of equally near ones those count whose names sort first, so that what is found depends neither
    on the size of blocks nor on the order of training queries.

    Args:
        tests: the vectors of the test queries, shape (queries, dimensions).
        most: how many of them count for a test query.
        least: the cosine from which on training queries count.

    Attributes:
        found: the neighbours of each test query, nearest first: the cosine times -1, in 64 bits,
            and the training query's two names.
    """

    def __init__(self, tests: Vectors, *, most: int, least: float = -np.inf) -> None:
        self.found: list[list[tuple[float, str, str]]] = [[] for _ in tests]
        self._tests, self._most = tests, most
        # The cosine that a further neighbour must have: the last one's, once there are enough.
        self._least = np.full(len(tests), least, dtype=np.float64)

    def meet(self, train: Sequence[tuple[str, str]], vectors: Vectors, rows: Ints) -> None:
        """Compare with further training queries.

        Args:
            train: two names of each query, such as its id and its text.
            vectors: the vectors of their texts, shape (texts, dimensions).
            rows: the row of each query's text, shape (queries,).
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
        """Return the pairs of test queries with a block of training queries that may count.

        Args:
            exact: the test queries, of length 1 or 0, in 64 bits, shape (queries, dimensions).
            train: the training queries, likewise.
            least: the least cosine that is wanted of each test query, shape (queries,).
        """
        factors = np.ascontiguousarray(train.astype(np.float32).T)
        error = product_error(exact.shape[1])

        def look(part: slice) -> _NearPairs:
            scores = exact[part].astype(np.float32) @ factors
            wanted = least[part]
            if self._most == 1:
                wanted = np.maximum(wanted, scores.max(1) - error)
            # Rounding to 32 bits may have raised it.
            below = np.nextafter((wanted - error).astype(np.float32), np.float32(-np.inf))
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

        parts = in_parallel(look, slices(len(exact), _PART))
        tests, places, cosines = map(np.concatenate, zip(*parts, strict=True))
        return tests, places, cosines
