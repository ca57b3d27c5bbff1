"""Model-based similarity R of a test query to a training set (MS-Shift, section 5.2, equation 1).

    R(q, T) = 1 / |T| * sum over t in T of s(q, t)

with s the dot product of the queries' vectors under a bi-encoder that was trained on T, without the
group of q. As s is linear, R is the dot product with the mean vector of T: as exact, and one pass
over T for all test queries in place of one for each.
"""

from __future__ import annotations

from msshift_bench.data import QueryColumns
from msshift_bench.similarity.ingredients import Ingredients, QueryValues
from msshift_bench.similarity.text_vectors import mean_vector, products

__all__ = ["model_based"]


def model_based(train: QueryColumns, test: QueryColumns, ingredients: Ingredients) -> QueryValues:
    """Return R of each test query; its range is that of the model's dot products."""
    found = ingredients.vectors
    assert found is not None
    mean = mean_vector(found.vectors, found.rows(train))
    return QueryValues(products(found.vectors, found.rows(test), mean))
