"""Dense search: exact dot products on faiss, one block of passages in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import require
from msshift_bench.ranking import PassageIds, Ranking, rank

__all__ = ["search_vectors"]

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""


def search_vectors(
    queries: npt.NDArray[np.float32], files: Sequence[Path], ids: PassageIds, *, depth: int
) -> Iterator[Ranking]:
    """Rank passages by exact dot product, one block of passages in memory at a time.

    Args:
        queries: vectors of shape (queries, dimensions).
        files: arrays of shape (passages of a block, dimensions), as ``.npy``.
        ids: the passages' doc_ids, in the order of the blocks.
        depth: passages per ranking.

    Yields:
        A ranking for each query, in the order given.
    """
    faiss = require("faiss", "neural", "dense search")

    def retrieve(
        which: npt.NDArray[np.int64], k: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        scores = np.empty((len(which), 0), np.float32)
        rows = np.empty((len(which), 0), np.int64)
        start = 0
        for file in files:
            vectors = np.load(file)
            index = faiss.IndexFlatIP(vectors.shape[1])
            index.add(vectors)
            found, places = index.search(block[which], min(k, len(vectors)))
            scores = np.concatenate([scores, found], axis=1)
            rows = np.concatenate([rows, places + start], axis=1)
            best = np.argsort(-scores, axis=1)[:, :k]
            scores = np.take_along_axis(scores, best, axis=1)
            rows = np.take_along_axis(rows, best, axis=1)
            start += len(vectors)
        return scores, rows

    for first in range(0, len(queries), _QUERIES):
        block = queries[first : first + _QUERIES]
        yield from rank(retrieve, ids, len(block), depth=depth)
