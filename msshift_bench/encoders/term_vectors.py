"""Vectors of queries, computed from the queries alone: no model, the same bytes everywhere.

The method is reflective random indexing (Cohen, Schvaneveldt and Widdows, Journal of Biomedical
Informatics 43, 2010, section 3.3). Terms begin as random vectors. In each round, a query's vector
becomes the weighted sum of its terms' vectors. Then a term's vector becomes the sum of its queries'
vectors. After the first round, terms that share neighbours are close, even if no query has both.
Every further round extends this to neighbours of neighbours.

All sums are of integers that a 64-bit float represents exactly. They therefore do not depend on the
order of the queries, the number of threads, the processor or the library. The other steps are
single operations, which IEEE 754 rounds in one way.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.plumbing import slices
from msshift_bench.sampling import keyed_hashes

DIMENSIONS = 128
"""Components of a vector."""

_ROUNDS = 4
_RAREST = 2
_COMMONEST = 0.05
_WEIGHT_STEP = 1 / 64

PARAMETERS: dict[str, object] = {
    "version": 1,
    "dimensions": DIMENSIONS,
    "rounds": _ROUNDS,
    "least_queries_of_a_term": _RAREST,
    "greatest_share_of_a_term": _COMMONEST,
    "weight": "squared idf",
}
"""The parameters of the vectors; a change of the vectors raises the version."""

_ROWS = 8192
"""Rows that are scaled at a time, as 64-bit floats."""

_COLUMNS = 16
"""Components of the texts' vectors that are summed at a time, as 64-bit floats."""

_UNIT = 2.0**20
"""The length of a vector while it is computed. Sums stay far below 2**53, up to which 64-bit floats
represent every integer. A term's sum over a twentieth of 2**30 queries is below 2**46. A query's
sum over 500 terms, each with a weight below 2**15, is below 2**44."""

_TERM = re.compile(r"\w+")


def term_vectors(texts: Sequence[str]) -> Vectors:
    """Return a vector for each text.

    A term is a sequence of letters, digits and underscores, lower-cased. Terms of one text only do
    not count, nor do terms of more than a twentieth of the texts, e.g. "is". Texts without other
    terms share one vector. The weight of a term is its squared inverse document frequency, ln(texts
    / texts with the term)**2. After every round, the mean of the texts' vectors is subtracted.

    Args:
        texts: distinct texts. Each vector depends on all of them, but not on their order.

    Returns:
        Shape (texts, `DIMENSIONS`), each row of length 1 to within 1e-5; all rows are 0 if no term
        counts.
    """
    terms, matrix, frequencies = _incidence(texts)
    weighted = matrix.multiply(_weights(frequencies, len(texts))).tocsr()
    of_terms = sign_vectors(terms)
    of_texts = np.empty((len(texts), DIMENSIONS), np.float32)
    for _ in range(_ROUNDS):
        _add_terms(weighted, _rescale(of_terms), of_texts)
        for columns in slices(DIMENSIONS, _COLUMNS):
            of_terms[:, columns] = matrix.T @ of_texts[:, columns].astype(np.float64)
    _add_terms(weighted, _rescale(of_terms), of_texts)
    of_texts /= _UNIT
    return of_texts


def _incidence(texts: Sequence[str]) -> tuple[list[str], Any, Ints]:
    """Return the terms that count, sorted; the sparse matrix of texts and terms; texts per term."""
    from scipy.sparse import csr_array

    column_of: dict[str, int] = {}
    columns, starts = array("i"), array("q", [0])
    for text in texts:
        distinct = set(_TERM.findall(text.lower()))
        columns.extend(column_of.setdefault(term, len(column_of)) for term in distinct)
        starts.append(len(columns))
    counts = np.bincount(columns, minlength=len(column_of))
    counted = (counts >= _RAREST) & (counts <= _COMMONEST * len(texts))
    terms = sorted(term for term, column in column_of.items() if counted[column])
    wanted = np.array([column_of[term] for term in terms], np.int64)
    matrix = csr_array((np.ones(len(columns)), columns, starts), (len(texts), len(column_of)))
    return terms, matrix[:, wanted], counts[wanted]


def term_matrix(terms_of: Iterable[Iterable[str]], terms: Iterable[str]) -> Any:
    """Return the sparse matrix of texts (rows) and terms, with 1 where a text has a term.

    Args:
        terms_of: the distinct terms of each text; terms that are not in `terms` are ignored.
        terms: the terms of the columns, in order.
    """
    from scipy.sparse import csr_array

    column_of = {term: column for column, term in enumerate(terms)}
    columns = [[column_of[term] for term in row if term in column_of] for row in terms_of]
    starts = np.cumsum([0, *map(len, columns)])
    flat = np.fromiter((column for row in columns for column in row), np.int64, int(starts[-1]))
    return csr_array((np.ones(len(flat)), flat, starts), shape=(len(columns), len(column_of)))


def _weights(frequencies: Ints, texts: int) -> Floats:
    """Return the terms' weights as integers, in units of 1/64; `frequencies` is texts per term."""
    squares = [math.log(texts / count) ** 2 for count in frequencies.tolist()]
    weights: Floats = np.rint(np.array(squares, dtype=np.float64) / _WEIGHT_STEP)
    return weights


def sign_vectors(terms: Sequence[str]) -> Floats:
    """Return the bits of the terms' hashes as 1 and -1, shape (terms, `DIMENSIONS`)."""
    digests = keyed_hashes(terms, size=DIMENSIONS // 8)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).astype(np.float64)
    signs: Floats = bits.reshape(len(terms), DIMENSIONS) * 2 - 1
    return signs


def _add_terms(weighted: Any, of_terms: Floats, of_texts: Vectors) -> None:
    """Write to `of_texts` the sums of each text's weighted terms, less the mean of all texts.

    Rows are scaled before and after; 32-bit floats represent the integers of a scaled row exactly.
    """
    sums = np.zeros(DIMENSIONS)
    for part in slices(len(of_texts), _ROWS):
        rows = _rescale(weighted[part] @ of_terms)
        sums += rows.sum(axis=0)
        of_texts[part] = rows
    mean: Floats = np.rint(sums / len(of_texts))
    for part in slices(len(of_texts), _ROWS):
        of_texts[part] = _rescale(of_texts[part] - mean)


def _rescale(vectors: Floats) -> Floats:
    """Scale rows of integers in place to the length `_UNIT`, rounded to integers; zero rows stay.

    Rows are scaled in parts: intermediate arrays of all rows would need five times their memory.
    """
    for part in slices(len(vectors), _ROWS):
        rows = vectors[part]
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        largest[largest == 0] = 1
        # Now no component is above 2**20, so that the sum of 128 squares is exact.
        rows = np.rint(rows * (_UNIT / largest))
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        lengths[lengths == 0] = 1
        vectors[part] = np.rint(rows * (_UNIT / lengths))
    return vectors
