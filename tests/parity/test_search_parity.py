"""Search in blocks of encoded passages against brute force: dense, sparse, and ColBERT's MaxSim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from msshift_bench.baselines.retrievers import colbert
from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.retrievers.colbert import ColBertSearch, max_sim, rerank
from msshift_bench.baselines.retrievers.splade import SparseSearch, inverted_index
from msshift_bench.baselines.systems.searcher import EncodedPassages
from msshift_bench.plumbing import slices
from msshift_bench.search.ranking import PassageIds

pytestmark = pytest.mark.neural

Floats = npt.NDArray[np.float32]
Case = tuple[Any, Floats, Callable[[slice], Mapping[str, Any]]]
"""Queries, their scores for all passages by brute force, and the arrays of a block."""

COUNT = 80

# Small whole numbers make every product exact, and ties frequent.


def dense() -> Case:
    rng = np.random.default_rng(0)
    passages = rng.integers(-3, 4, (COUNT, 6)).astype(np.float32)
    queries = rng.integers(-3, 4, (40, 6)).astype(np.float32)
    return queries, queries @ passages.T, lambda rows: {"vectors": passages[rows]}


def sparse_terms() -> Case:
    rng = np.random.default_rng(0)
    queries, passages = (
        (rng.integers(1, 4, (count, 30)) * (rng.random((count, 30)) < 0.1)).astype(np.float32)
        for count in (40, COUNT)
    )
    scores = queries @ passages.T
    return (
        sparse.csr_array(queries),
        np.where(scores > 0, scores, -np.inf),
        lambda rows: inverted_index(sparse.csr_array(passages[rows])),
    )


def tokens() -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return queries, tokens of passages, and the number of tokens of each passage."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, COUNT)
    vectors = rng.integers(-2, 3, (lengths.sum(), 4)).astype(np.float16)
    queries = rng.integers(-2, 3, (9, 5, 4)).astype(np.float32)
    queries[3, 2:] = 0
    return queries, vectors, lengths


def naive(queries: Floats, vectors: Floats, lengths: npt.NDArray[np.int64]) -> Floats:
    """MaxSim by three loops (ColBERT, equation 3)."""
    scores = np.zeros((len(queries), len(lengths)), np.float32)
    for place, query in enumerate(queries):
        for passage, part in enumerate(np.split(vectors, np.cumsum(lengths)[:-1])):
            for vector in query:
                scores[place, passage] += max(float(vector @ token) for token in part)
    return scores


def late() -> Case:
    queries, vectors, lengths = tokens()
    ends = [0, *np.cumsum(lengths).tolist()]

    def arrays(rows: slice) -> Mapping[str, Any]:
        return {"vectors": vectors[ends[rows.start] : ends[rows.stop]], "lengths": lengths[rows]}

    return queries, naive(queries, vectors, lengths), arrays


def encoded(case: Case, folder: Path, size: int) -> EncodedPassages:
    doc_ids = [str(n) for n in np.random.default_rng(1).permutation(1000)[:COUNT]]
    files = {folder / f"{rows.start}.npz": rows for rows in slices(COUNT, size)}
    for file, rows in files.items():
        np.savez(file, **case[2](rows))
    return EncodedPassages(PassageIds(doc_ids), files)


def best(scores: Sequence[float], doc_ids: Sequence[str], depth: int) -> list[tuple[str, float]]:
    pairs = sorted(zip(scores, doc_ids, strict=True), reverse=True)[:depth]
    return [(doc_id, score) for score, doc_id in pairs if score > -np.inf]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msshift_bench.baselines.systems.searcher._QUERIES", 16)
    monkeypatch.setattr(colbert, "_TOGETHER", 4)


@pytest.mark.parametrize("size", [7, COUNT])
@pytest.mark.parametrize("depth", [1, 20, 200])
@pytest.mark.parametrize(
    ("search", "make"), [(DenseSearch, dense), (SparseSearch, sparse_terms), (ColBertSearch, late)]
)
def test_search_is_brute_force(
    search: Any, make: Callable[[], Case], depth: int, size: int, tmp_path: Path
) -> None:
    case = queries, scores, _ = make()
    passages = encoded(case, tmp_path, size)
    rankings = search(depth=depth).search(queries, passages)
    assert [list(ranking.items()) for ranking in rankings] == [
        best(row, passages.ids.ids.tolist(), depth) for row in scores.tolist()
    ]


@pytest.mark.parametrize("size", [7, COUNT])
@pytest.mark.parametrize("depth", [1, 200])
def test_reranking_by_max_sim_is_brute_force(size: int, depth: int, tmp_path: Path) -> None:
    case = queries, scores, _ = late()
    passages = encoded(case, tmp_path, size)
    doc_ids, rng = passages.ids.ids.tolist(), np.random.default_rng(1)
    chosen = [rng.permutation(COUNT)[: 5 * place] for place in range(len(queries))]
    found = rerank(queries, passages, chosen, depth)
    assert [list(ranking.items()) for ranking in found] == [
        best([row[place] for place in places], [doc_ids[place] for place in places], depth)
        for row, places in zip(scores.tolist(), chosen, strict=True)
    ]


def test_max_sim_is_the_triple_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = naive(*tokens()).tolist()
    assert max_sim(*tokens()).tolist() == expected
    monkeypatch.setattr(colbert, "_TILE", {"cpu": (3000, 2)})
    assert max_sim(*tokens()).tolist() == expected
