"""Approximate search among dense vectors on faiss, with measured recall.

HNSW walks a graph of near neighbours (Malkov and Yashunin, TPAMI 2020); IVF searches only the lists
whose centroids are near the query (Jegou et al., TPAMI 2011). Both are made for vectors of one
length. An added dimension makes all passages' vectors as long as the longest, and is 0 in queries,
so that dot products stay the same (Bachrach et al., RecSys 2014).

Unlike exact search, either index holds all vectors in memory while it is built, and HNSW while it
is searched: 4 bytes per dimension and passage, and 270 more per passage for the graph.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt

from msshift_bench.baselines.block_search import best_of, search_dense
from msshift_bench.baselines.encoded_passages import EncodedPassages
from msshift_bench.baselines.recipe import SearchSettings
from msshift_bench.errors import require
from msshift_bench.plumbing import write_atomically
from msshift_bench.search import Ranking

__all__ = [
    "HALF",
    "DenseSearch",
    "find_index",
    "index_file",
    "measured_queries",
    "rank_approximately",
    "recall",
    "recall_of",
]

HALF = "float16"
"""The storage of vectors in 16 bits."""

_LINKS = 32
"""Neighbours of a passage in HNSW's graph; twice as many on its lowest level."""

_LISTS = 64
"""Lists that IVF searches, unless the recipe says otherwise."""

_SAMPLE = 64
"""Passages per list from which IVF's centroids are learnt."""

_MEASURED = 100
"""Queries on which the recall is measured."""

_EXTRA = 100
"""Passages to retrieve beyond the depth, so that ties at the cut are usually inside."""

_QUERIES = 1_024
"""Queries searched together."""

_Vectors = npt.NDArray[np.float32]


class DenseSearch(SearchSettings):
    """How a bi-encoder searches the passages, beyond the fields of `SearchSettings`.

    Attributes:
        approximate: ``hnsw`` or ``ivf``; without it, search is exact.
        effort: more is slower and nearer to exact. ``hnsw``: passages kept in view, never less than
            `depth`; by default twice `depth`. ``ivf``: lists searched; by default 64.
        storage: ``float16`` keeps passages' vectors on disk in half the bytes, rounded; exact
            search sums their products with the queries' vectors in 32 bits all the same. Without
            it they are kept as they are, in 32 bits.
    """

    approximate: Literal["hnsw", "ivf"] | None = None
    effort: PositiveInt | None = None
    storage: Literal["float16"] | None = None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        if self.effort is not None and self.approximate is None:
            yield "effort", "it is of approximate search; exact search knows none"
        if self.storage == HALF and self.approximate is not None:
            yield "storage", f"{HALF!r} is of exact search; approximate search knows none"


def find_index(passages: EncodedPassages, kind: str, folder: Path) -> Path:
    """Return the file of an index of passages; make it if it is missing.

    Args:
        passages: blocks that hold ``vectors``.
        kind: ``hnsw`` or ``ivf``.
        folder: the folder of the index; it belongs to one model.
    """
    return index_file(passages, kind, folder, lambda: _made(passages, kind))


def index_file(passages: EncodedPassages, name: str, folder: Path, make: Callable[[], Any]) -> Path:
    """Return the file of an index of faiss; make it if it is missing.

    Args:
        passages: the passages to index.
        name: the kind of index, for the file's name.
        folder: the folder of the index; it belongs to one model.
        make: makes the index.
    """
    names = "".join(block.path.name for block in passages.blocks)
    path = folder / f"{name}-{hashlib.sha256(names.encode()).hexdigest()[:32]}.faiss"
    if not path.exists():
        faiss = require("faiss", "neural", "approximate search")
        index = make()
        with write_atomically(path) as file:
            faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
    return path


def _made(passages: EncodedPassages, kind: str) -> Any:
    faiss = require("faiss", "neural", "dense search")
    longest = max(float(_squares(block.load()["vectors"]).max()) for block in passages.blocks)
    size = passages.blocks[0].load()["vectors"].shape[1] + 1
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(size, _LINKS, faiss.METRIC_INNER_PRODUCT)
    else:
        lists = max(1, min(int(4 * math.sqrt(len(passages.ids))), len(passages.ids) // _SAMPLE))
        centroids = faiss.IndexFlatL2(size)
        index = faiss.IndexIVFFlat(centroids, size, lists, faiss.METRIC_INNER_PRODUCT)
        index.train(_sample(passages, _SAMPLE * lists, longest))
    # Several threads that link passages would make another graph each time.
    with _threads(1 if kind == "hnsw" else faiss.omp_get_max_threads()):
        for block in passages.blocks:
            index.add(_lengthened(block.load()["vectors"], longest))
    return index


def rank_approximately(
    queries: _Vectors, passages: EncodedPassages, file: Path, search: DenseSearch
) -> Iterator[Ranking]:
    """Rank passages for each query, with an approximate index.

    Args:
        queries: vectors of shape (queries, dimensions).
        passages: the passages to search.
        file: the index.
        search: how.
    """
    faiss = require("faiss", "neural", "dense search")
    if search.approximate == "hnsw":
        index = faiss.read_index(str(file))
        effort = search.effort or 2 * search.depth
        parameters = faiss.SearchParametersHNSW(efSearch=max(effort, search.depth + _EXTRA))
    else:
        index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
        parameters = faiss.SearchParametersIVF(nprobe=min(search.effort or _LISTS, index.nlist))
    reach = min(search.depth + _EXTRA, len(passages.ids))
    for first in range(0, len(queries), _QUERIES):
        part = queries[first : first + _QUERIES]
        padded = np.concatenate([part, np.zeros((len(part), 1), np.float32)], axis=1)
        for scores, rows in zip(*index.search(padded, reach, params=parameters), strict=True):
            is_passage = rows >= 0
            yield best_of(passages.ids, rows[is_passage], scores[is_passage], search.depth)


def recall(
    queries: _Vectors, passages: EncodedPassages, file: Path, search: DenseSearch
) -> dict[str, object]:
    """Return the share of the exact rankings that an index finds, for some of the queries.

    Args:
        queries: vectors of shape (queries, dimensions).
        passages: the passages to search.
        file: the index.
        search: how.

    Returns:
        ``recall``, the mean share, 0 to 1, of the exact ranking's passages that the approximate one
        holds, and ``recall_queries``, the number of queries.
    """
    some = measured_queries(queries)
    exact = search_dense(some, passages, depth=search.depth)
    return recall_of(exact, rank_approximately(some, passages, file, search))


def measured_queries(queries: _Vectors) -> _Vectors:
    """Return the queries on which the recall is measured, spread over all."""
    return queries[np.linspace(0, len(queries) - 1, min(_MEASURED, len(queries)), dtype=np.int64)]


def recall_of(exact: Iterable[Ranking], approximate: Iterable[Ranking]) -> dict[str, object]:
    """Return ``recall`` and ``recall_queries``, as `recall` does, for given rankings."""
    parts = [
        len(exact_ranking.keys() & approximate_ranking.keys()) / len(exact_ranking)
        for exact_ranking, approximate_ranking in zip(exact, approximate, strict=True)
    ]
    return {"recall": sum(parts) / len(parts), "recall_queries": len(parts)}


def _squares(vectors: _Vectors) -> _Vectors:
    squares: _Vectors = np.einsum("ij,ij->i", vectors, vectors)
    return squares


def _lengthened(vectors: _Vectors, longest: float) -> _Vectors:
    """Return vectors with one dimension more, in which the square of their length is `longest`."""
    rest = np.sqrt(np.maximum(longest - _squares(vectors), 0, dtype=np.float32))
    return np.concatenate([vectors, rest[:, None]], axis=1)


def _sample(passages: EncodedPassages, size: int, longest: float) -> _Vectors:
    """Return about `size` of the passages' vectors, the same number from every block."""
    step = max(1, len(passages.ids) // size)
    return np.concatenate(
        [_lengthened(block.load()["vectors"][::step], longest) for block in passages.blocks]
    )


@contextmanager
def _threads(number: int) -> Iterator[None]:
    faiss = require("faiss", "neural", "dense search")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
