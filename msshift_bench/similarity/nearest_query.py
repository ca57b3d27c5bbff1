"""Near training queries of test queries by their cosine, exact, block by block.

A 32-bit matrix product *proposes*: it leaves those training queries whose score is as close to
what is wanted as its rounding error allows. These are *decided* by cosines in 64 bits, whose sums
are per pair. So the result is what 64-bit cosines of all pairs give, whatever the size of blocks
and the number of threads. Memory holds one block of either set, however many queries there are.

The nearest training query is the one with the highest cosine; of equals it is the one whose text
sorts first.

Source of the bound: Higham (2002), "Accuracy and stability of numerical algorithms", section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.data import QueryColumns
from msshift_bench.plumbing import Progress, in_parallel, silent, slices
from msshift_bench.similarity.ingredients import Ingredients, QueryValues
from msshift_bench.similarity.text_vectors import unit_rows

__all__ = ["CosineSearch", "nearest_query", "nearest_rows", "product_error"]

_TESTS = 8192
"""Test queries that pass over the training queries together."""
_TRAINING = 4096
"""Training queries per block."""
_PART = 512
"""Test queries per matrix product of one thread."""
_PAIRS = 1024
"""Pairs decided at once."""


def nearest_query(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> QueryValues:
    """Return each test query's cosine with its nearest training query, and which that is.

    Of training queries with the same text it is the one with the smallest query_id.
    """
    found = ingredients.vectors
    assert found is not None
    first: dict[int, int] = {}
    rows = found.rows(train).tolist()
    for place in sorted(range(len(train)), key=train.ids.__getitem__):
        first.setdefault(rows[place], place)
    tests, places = np.unique(found.rows(test), return_inverse=True)
    nearest, cosines = nearest_rows(
        found.vectors, np.array(sorted(first)), tests, progress=ingredients.progress
    )
    place_of = np.array([first[row] for row in nearest.tolist()], dtype=np.int64)
    return QueryValues(cosines[places], place_of[places])


def nearest_rows(
    vectors: Vectors, train: Ints, test: Ints, *, progress: Progress = silent
) -> tuple[Ints, Floats]:
    """Find the training row with the highest cosine for each test row; ties go to the lower row.

    Args:
        vectors: shape (n, dimensions), 32-bit floats; may be a memory map.
        train: the training rows, ascending.
        test: the test rows.
        progress: called with the pairs compared.

    Returns:
        The rows, shape (test,), and the cosines, 64-bit, shape (test,); a row of zeros has the
        cosine 0 with all others.
    """
    rows = np.full(len(test), -1, np.int64)
    cosines = np.full(len(test), -np.inf)
    progress("compare", 0, len(train) * len(test))
    for tests in slices(len(test), _TESTS):
        block = _Nearest(unit_rows(vectors[test[tests]]), rows[tests], cosines[tests])
        for part in slices(len(train), _TRAINING):
            block.meet(train[part], unit_rows(vectors[train[part]]))
            done = tests.start * len(train) + part.stop * len(block.rows)
            progress("compare", done, len(train) * len(test))
    return rows, cosines


def product_error(dimensions: int) -> float:
    """Return by how much a 32-bit product of vectors of length 1 may differ from their cosine.

    Args:
        dimensions: the components of a vector.
    """
    # Components rounded to 32 bits, twice, and a sum of d products in any order; 1% for the rest.
    return 1.01 * (dimensions + 4) * 2.0**-24


class CosineSearch:
    """Test queries that meet one block of training queries after the other.

    Args:
        exact: their vectors of length 1 or 0, in 64 bits, shape (queries, dimensions).
    """

    def __init__(self, exact: Floats) -> None:
        self._exact = exact
        self._rounded = exact.astype(np.float32)
        self.error = product_error(exact.shape[1])

    def meet(
        self,
        train: Floats,
        least: Callable[[slice, Vectors], Floats],
        take: Callable[[Ints, Ints, Floats], None],
    ) -> None:
        """Compare with a block of training queries.

        Args:
            train: their vectors, as `exact`.
            least: takes some of the test queries and their scores in 32 bits, shape (these test
                queries, training queries), each at most ``error`` off; returns the least cosine
                that is wanted of each.
            take: called with test queries, training queries and their cosines in 64 bits, each of
                the shape (pairs,); every pair of at least the wanted cosine is among them. It is
                called in threads, each with other test queries.
        """
        factors = np.ascontiguousarray(train.astype(np.float32).T)

        def look(part: slice) -> None:
            scores = self._rounded[part] @ factors
            needed = least(part, scores) - self.error
            queries, places = np.nonzero(_at_least(scores, needed))
            for pairs in slices(len(queries), _PAIRS):
                mine, theirs = queries[pairs] + part.start, places[pairs]
                take(mine, theirs, (self._exact[mine] * train[theirs]).sum(axis=1))

        in_parallel(look, slices(len(self._rounded), _PART))


class _Nearest:
    """The nearest training query of each of some test queries.

    Attributes:
        rows: the nearest training row of each so far; written in place.
        cosines: its cosine; written in place.
    """

    def __init__(self, exact: Floats, rows: Ints, cosines: Floats) -> None:
        self.rows, self.cosines = rows, cosines
        self._search = CosineSearch(exact)

    def meet(self, train: Ints, exact: Floats) -> None:
        """Compare with a block of training rows, ascending, and their vectors in 64 bits."""

        def least(part: slice, scores: Vectors) -> Floats:
            best: Floats = np.maximum(self.cosines[part], scores.max(1) - self._search.error)
            return best

        def take(queries: Ints, places: Ints, cosines: Floats) -> None:
            self._decide(queries, train[places], cosines)

        self._search.meet(exact, least, take)

    def _decide(self, queries: Ints, rows: Ints, cosines: Floats) -> None:
        """Take over the pairs that are better than what is known."""
        order = np.lexsort((rows, -cosines, queries))
        order = order[np.flatnonzero(np.diff(queries[order], prepend=-1))]
        queries, rows, cosines = queries[order], rows[order], cosines[order]
        # Blocks and pairs come in ascending order, so among equals the first stays.
        better = cosines > self.cosines[queries]
        self.rows[queries[better]] = rows[better]
        self.cosines[queries[better]] = cosines[better]


def _at_least(scores: Vectors, threshold: Floats) -> NDArray[np.bool_]:
    below = np.nextafter(threshold.astype(np.float32), np.float32(-np.inf))
    found: NDArray[np.bool_] = scores >= below[:, np.newaxis]
    return found
