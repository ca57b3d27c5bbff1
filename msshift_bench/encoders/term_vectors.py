"""Vectors of queries, made from the queries alone: without a model, the same bytes everywhere.

Reflective random indexing (Cohen, Schvaneveldt and Widdows, Journal of Biomedical Informatics 43,
2010, section 3.3): terms begin as random vectors; a query is the weighted sum of its terms, a term
then the sum of its queries, in turns. After the first turn, terms that never meet in a query but
share neighbours are close, and every further turn lets them share neighbours of neighbours.

Every sum is of whole numbers that a 64-bit float holds exactly, so neither the order of the
queries, nor the number of threads, nor the processor or a library's way of adding can change a
bit of it. Between the sums there are only single operations, which IEEE 754 rounds in one way.
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
"""The parameters of the vectors; the version changes whenever the vectors do."""

_ROWS = 8192
"""Rows that are scaled at a time, as 64-bit floats."""

_COLUMNS = 16
"""Components of texts that are added up at a time, as 64-bit floats."""

_UNIT = 2.0**20
"""The length of a vector while it is computed. The greatest sum, a term's over a twentieth of
2**30 queries, stays below 2**46, and a query's of 500 terms, each of a weight below 2**15, below
2**44: far from 2**53, where 64-bit floats stop to hold every whole number."""

_TERM = re.compile(r"\w+")


def term_vectors(texts: Sequence[str]) -> Vectors:
    """Return a vector for each text.

    A term is a run of letters and digits, lower-cased. Terms of a single text and terms of more
    than a twentieth of the texts ("what", "is") say nothing about similarity, and are left out;
    texts without other terms share one vector. The weight of a term is its squared inverse document
    frequency, ln(texts / texts with the term)**2. After every turn, the direction that all texts
    have in common is subtracted.

    Args:
        texts: distinct texts. Each one's vector depends on all of them, but not on their order.

    Returns:
        Shape (texts, `DIMENSIONS`), each row of length 1 to within 1e-5.
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
    """Return the terms that count, the sparse matrix of texts and terms, and document counts."""
    from scipy.sparse import csr_array

    column_of: dict[str, int] = {}
    columns, starts = array("i"), array("q", [0])
    for text in texts:
        found = set(_TERM.findall(text.lower()))
        columns.extend(column_of.setdefault(term, len(column_of)) for term in found)
        starts.append(len(columns))
    counts = np.bincount(columns, minlength=len(column_of))
    tells = (counts >= _RAREST) & (counts <= _COMMONEST * len(texts))
    terms = sorted(term for term, column in column_of.items() if tells[column])
    wanted = np.array([column_of[term] for term in terms], np.int64)
    matrix = csr_array((np.ones(len(columns)), columns, starts), (len(texts), len(column_of)))
    return terms, matrix[:, wanted], counts[wanted]


def incidence(terms_of: Iterable[Iterable[str]], terms: Iterable[str]) -> Any:
    """Return the sparse matrix of texts and terms, with 1 where a text has a term.

    Args:
        terms_of: the distinct terms of each text; those that are not among `terms` are left out.
        terms: the terms.
    """
    from scipy.sparse import csr_array

    column_of = {term: column for column, term in enumerate(terms)}
    columns = [[column_of[term] for term in row if term in column_of] for row in terms_of]
    starts = np.cumsum([0, *map(len, columns)])
    flat = np.fromiter((column for row in columns for column in row), np.int64, int(starts[-1]))
    return csr_array((np.ones(len(flat)), flat, starts), shape=(len(columns), len(column_of)))


def _weights(frequencies: Ints, texts: int) -> Floats:
    """Return the terms' weights as whole numbers, in steps of 1/64."""
    squares = [math.log(texts / count) ** 2 for count in frequencies.tolist()]
    weights: Floats = np.rint(np.array(squares, dtype=np.float64) / _WEIGHT_STEP)
    return weights


def sign_vectors(terms: Sequence[str]) -> Floats:
    """Return vectors of 1 and -1, shape (terms, `DIMENSIONS`): the bits of the terms' hashes."""
    digests = keyed_hashes(terms, size=DIMENSIONS // 8)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).astype(np.float64)
    signs: Floats = bits.reshape(len(terms), DIMENSIONS) * 2 - 1
    return signs


def _add_terms(weighted: Any, of_terms: Floats, of_texts: Vectors) -> None:
    """Make each text the sum of its weighted terms, less the direction that all have in common.

    Rows are scaled before and after; 32-bit floats hold the whole numbers of a scaled row.
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
    """Scale rows of whole numbers to the length `_UNIT`, as whole numbers, in place; zero stays.

    A part at a time: what is computed on the way would take five times the memory of the vectors.
    """
    for part in slices(len(vectors), _ROWS):
        rows = vectors[part]
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        largest[largest == 0] = 1
        # no component is above 2**20 now, and the sum of 128 squares is exact
        rows = np.rint(rows * (_UNIT / largest))
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        lengths[lengths == 0] = 1
        vectors[part] = np.rint(rows * (_UNIT / lengths))
    return vectors
