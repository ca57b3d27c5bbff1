"""Mean cosine similarity of queries (MS-Shift v1, section 3.1).

The mean cosine of a test query and the training queries is the dot product of its vector, scaled to
length 1, with the mean of theirs, so scaled: one pass over either set. A vector of zeros, as the
encoder ``terms`` gives a text whose terms no other text has, has cosine 0 with all others.
"""

from __future__ import annotations

from msshift_bench.data import QueryColumns
from msshift_bench.similarity.ingredients import Ingredients, QueryValues
from msshift_bench.similarity.text_vectors import mean_vector, products

__all__ = ["mean_cosine"]


def mean_cosine(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> QueryValues:
    """Return each test query's mean cosine with the training queries, -1 to 1."""
    found = ingredients.vectors
    assert found is not None
    mean = mean_vector(found.vectors, found.rows(train), unit=True)
    return QueryValues(products(found.vectors, found.rows(test), mean, unit=True))
