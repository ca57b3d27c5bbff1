"""Clarity of a query under BM25 (Cronen-Townsend, Zhou and Croft, SIGIR 2002): a control.

It does not look at training queries. It asks whether a query is easy or hard for search by words,
so that one can tell whether a loss comes from distance or from difficulty.

With R the first `depth` passages of BM25, c(w) the share of term w among all terms of the
collection, and tf(w, D) / |D| its share in passage D,

    clarity(q) = sum over w of P(w | q) log2(P(w | q) / c(w))
    P(w | q)   = sum over D in R of P(w | D) P(D | q)
    P(w | D)   = 0.6 tf(w, D) / |D| + 0.4 c(w)
    P(D | q)   = prod over w in q of P(w | D), scaled to sum to 1 over R

The first sum is over all terms of the collection: those that no passage of R holds have P(w | q) =
0.4 c(w), and add 0.4 log2(0.4) times the rest of c. The paper ranks by query likelihood with the
same 0.6, and takes 500 documents; the passages here are BM25's, and terms are as BM25 counts them
(stemmed, without stop words). A query without a term of the collection has clarity 0: all that is
known of it is the collection.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import QueryColumns
from msshift_bench.plumbing import batches, counted
from msshift_bench.search import BATCH, Bm25, Bm25Parameters
from msshift_bench.similarity.ingredients import Ingredients, QueryValues

__all__ = ["clarity"]

_WEIGHT = 0.6
"""The weight of a passage's own terms in its language model (section 3 of the paper)."""


def clarity(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> QueryValues:
    """Return the clarity of each test query, in bits, 0 or more.

    Raises:
        DataError: if no passage holds a word.
        MissingExtraError: if BM25's libraries are not installed.
    """
    del train
    source, progress = ingredients.collection, ingredients.progress
    assert source is not None
    passages = counted(source.passages(), progress, "index")
    bm25 = Bm25(passages, Bm25Parameters(depth=ingredients.depth))
    texts = sorted(set(test.texts))
    first = _first_passages(bm25, texts)
    held = _HeldTerms(bm25, np.unique(np.concatenate([np.empty(0, np.int64), *first])))
    held.read(passage.text for passage in counted(source.passages(), progress, "count terms"))
    values = {
        text: held.clarity(bm25.terms_of(text), rows)
        for text, rows in zip(texts, first, strict=True)
    }
    return QueryValues(np.array([values[text] for text in test.texts]))


def _first_passages(bm25: Bm25, texts: list[str]) -> list[Ints]:
    """Return the rows of each text's first passages, by doc_id."""
    found = []
    for part in batches(texts, BATCH):
        for rows in bm25.select(part):
            kept = rows[rows >= 0]
            # in an order that does not depend on that of the collection
            found.append(kept[np.argsort(bm25.ids.order[kept])])
    return found


class _HeldTerms:
    """The terms of some passages, and the counts of all terms in the collection."""

    def __init__(self, bm25: Bm25, rows: Ints) -> None:
        self._bm25 = bm25
        self._place_of = {row: place for place, row in enumerate(rows.tolist())}
        self._terms: list[Ints] = [np.empty(0, np.int64)] * len(rows)
        self._shares = np.empty(0)

    def read(self, texts: Iterable[str]) -> None:
        """Read the texts of the whole collection, in its order."""
        counts = np.zeros(0, np.int64)
        block: array[int] = array("q")
        for row, text in enumerate(texts):
            terms = self._bm25.terms_of(text)
            block.extend(terms)
            if row in self._place_of:
                self._terms[self._place_of[row]] = np.array(terms, dtype=np.int64)
            if len(block) > 1_000_000:
                counts, block = _added(counts, block), array("q")
        counts = _added(counts, block)
        self._shares = counts / counts.sum()

    def clarity(self, query: list[int], rows: Ints) -> float:
        """Return the clarity of a query with the given terms and first passages."""
        passages = [self._terms[self._place_of[row]] for row in rows.tolist()]
        if not passages:
            return 0.0
        lengths = np.array([len(terms) for terms in passages])
        flat = np.concatenate(passages)
        of_passage = np.repeat(np.arange(len(passages)), lengths)
        likelihoods = np.zeros(len(passages))
        for term in query:
            tf = np.bincount(of_passage, flat == term, minlength=len(passages))
            likelihoods += np.log(_WEIGHT * tf / lengths + (1 - _WEIGHT) * self._shares[term])
        weights = np.exp(likelihoods - likelihoods.max())
        weights /= math.fsum(weights)
        terms, places = np.unique(flat, return_inverse=True)
        own = np.bincount(places, (weights / lengths)[of_passage]).astype(np.float64)
        return self._divergence(terms, own)

    def _divergence(self, terms: Ints, own: Floats) -> float:
        """Return the divergence, given the terms of the passages and their weighted shares."""
        shares = self._shares[terms]
        model = _WEIGHT * own + (1 - _WEIGHT) * shares
        rest = 1 - math.fsum(shares)
        ratio = 1 - _WEIGHT
        return math.fsum([*(model * np.log2(model / shares)), rest * ratio * math.log2(ratio)])


def _added(counts: Ints, block: array[int]) -> Ints:
    """Return counts of terms with those of a block added."""
    new = np.bincount(np.frombuffer(block, np.int64), minlength=len(counts))
    new[: len(counts)] += counts
    return new
