"""Indicators from the words of queries.

Weighted Jaccard similarity (MS-Shift, section 5.2): with S_k and T_k the shares of word k among all
words of two sets of queries,

    J(S, T) = sum over k of min(S_k, T_k) / sum over k of max(S_k, T_k)

Both sums are of whole numbers here (counts times the other set's total), so that the value is the
exact one, rounded once: neither the order of the queries nor that of the words can change a bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from msshift_bench.errors import DataError
from msshift_bench.search import content_words
from msshift_bench.similarity.query_sets import QueryColumns, QueryValues

__all__ = [
    "Tokenizer",
    "unseen_words",
    "weighted_jaccard",
]

Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
"""From the text of a query to its words."""


def split_words(text: str) -> list[str]:
    """Return the words of a text as the paper counts them: lower-cased, split at white space."""
    return text.lower().split()


def weighted_jaccard(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer | None = None
) -> float:
    """Return the weighted Jaccard similarity of two sets of queries, 0 to 1; it is symmetric.

    Args:
        train: one set.
        test: the other.
        words_of: cuts a text into words; by default `split_words`.

    Raises:
        DataError: if the tokenizer finds no word in one of them.
    """
    trained, tested = (
        Counter(word for text in queries.texts for word in (words_of or split_words)(text))
        for queries in (train, test)
    )
    total, test_total = trained.total(), tested.total()
    if not total or not test_total:
        which = "training" if not total else "test"
        raise DataError(f"the tokenizer finds no word in the {which} queries")
    common = sum(
        min(trained[word] * test_total, tested[word] * total)
        for word in trained.keys() & tested.keys()
    )
    # min + max = S_k + T_k, and each of the two sums to 1.
    return common / (2 * total * test_total - common)


def unseen_words(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer | None = None
) -> QueryValues:
    """Return the share of each test query's words that training never met, 0 to 1.

    A word that stands twice in the query counts twice. A query without a word has nothing that is
    new: its share is 0.

    Args:
        train: the training queries.
        test: the test queries.
        words_of: cuts a text into words; by default into those of content.
    """
    words_of = words_of or content_words
    met = {word for text in train.texts for word in words_of(text)}
    shares = []
    for text in test.texts:
        words = words_of(text)
        shares.append(sum(word not in met for word in words) / len(words) if words else 0.0)
    return QueryValues(np.array(shares))
