"""Weighted Jaccard similarity of the words of two sets of queries (MS-Shift, section 5.2).

With S_k and T_k the shares of word k among all words of the two sets,

    J(S, T) = sum over k of min(S_k, T_k) / sum over k of max(S_k, T_k)

Both sums are of whole numbers here (counts times the other set's total), so that the value is the
exact one, rounded once: neither the order of the queries nor that of the words can change a bit.
"""

from __future__ import annotations

from collections import Counter

from msshift_bench.data import QueryColumns
from msshift_bench.errors import DataError
from msshift_bench.similarity.ingredients import Ingredients, Tokenizer

__all__ = ["split_words", "weighted_jaccard", "word_counts"]


def split_words(text: str) -> list[str]:
    """Return the words of a text as the paper counts them: lower-cased, split at white space."""
    return text.lower().split()


def weighted_jaccard(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> float:
    """Return the weighted Jaccard similarity of two sets of queries, 0 to 1; it is symmetric.

    Raises:
        DataError: if the tokenizer finds no word in one of them.
    """
    tokenizer = ingredients.tokenizer or split_words
    one, other = word_counts(train, tokenizer), word_counts(test, tokenizer)
    total, other_total = one.total(), other.total()
    if not total or not other_total:
        which = "training" if not total else "test"
        raise DataError(f"the tokenizer finds no word in the {which} queries")
    common = sum(
        min(one[word] * other_total, other[word] * total) for word in one.keys() & other.keys()
    )
    # min + max = S_k + T_k, and each of the two sums to 1.
    return common / (2 * total * other_total - common)


def word_counts(queries: QueryColumns, tokenizer: Tokenizer) -> Counter[str]:
    """Return word -> how often it stands in the queries' texts."""
    counts: Counter[str] = Counter()
    for text in queries.texts:
        counts.update(tokenizer(text))
    return counts
