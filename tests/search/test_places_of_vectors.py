"""The place of a vector in a matrix product, on processors where that changes a score's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msshift_bench.search.ranking import PassageIds, rankings_of, search_vectors


class PlaceDependent(np.ndarray[Any, np.dtype[np.float32]]):
    """Queries whose products depend on the column, as the last bits do on some processors."""

    def __matmul__(self, other: Any) -> Any:
        columns = np.arange(other.shape[1], dtype=np.float32)
        return np.asarray(self) @ other + np.float32(0.125) * columns


@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_a_passage_has_the_same_place_in_every_number_of_blocks(size: int) -> None:
    ids = PassageIds([f"d{row}" for row in range(10)])
    vectors = np.zeros((10, 2), np.float32)
    queries = np.ones((1, 2), np.float32).view(PlaceDependent)
    blocks = (vectors[start : start + size] for start in range(0, 10, size))
    (ranking,) = rankings_of(search_vectors(blocks, queries, ids, depth=10), ids)
    assert ranking == {f"d{row}": 0.125 * row for row in range(10)}
