"""The share of a query's content words that no training query holds."""

from __future__ import annotations

import numpy as np

from msshift_bench.data import QueryColumns
from msshift_bench.search import content_words
from msshift_bench.similarity.ingredients import Ingredients, QueryValues

__all__ = ["unseen_words"]


def unseen_words(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> QueryValues:
    """Return the share of each test query's words that training never met, 0 to 1.

    A word that stands twice in the query counts twice. A query without a word has nothing that is
    new: its share is 0.
    """
    words_of = ingredients.tokenizer or content_words
    met = {word for text in train.texts for word in words_of(text)}
    shares = []
    for text in test.texts:
        words = words_of(text)
        shares.append(sum(word not in met for word in words) / len(words) if words else 0.0)
    return QueryValues(np.array(shares))
