"""Rankings of blocks of scores equal brute force."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from scipy import sparse

from msshift_bench.errors import MissingError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.search import (
    Bm25,
    PassageIds,
    Ranking,
    TopK,
    ranking,
    rankings_of,
    search_vectors,
)

DOC_IDS = ["10", "9", "a", "1", "d7", "b", "é"]
IDS = PassageIds(DOC_IDS)
Pairs = list[list[tuple[str, float]]]
Rows = list[list[float]]


def brute_force(
    scores: np.ndarray, doc_ids: list[str], depth: int, floor: float = -np.inf
) -> Pairs:
    """Return rankings by Python's sort; adding 0 makes both zeros the same."""
    rankings = []
    for row in (scores + np.float32(0)).tolist():
        pairs = sorted(zip(row, doc_ids, strict=True), reverse=True)
        rankings.append([(doc_id, score) for score, doc_id in pairs if score > floor][:depth])
    return rankings


def pairs_of(rankings: list[Ranking]) -> Pairs:
    return [list(ranking.items()) for ranking in rankings]


VALUES = st.sampled_from([-1.5, -1.0, -0.0, 0.0, 0.5, 0.5, 2.0, np.nan])


@given(
    st.lists(st.lists(VALUES, min_size=7, max_size=7)),
    st.integers(1, 9),
    st.integers(1, 8),
    st.sampled_from([0.0, -np.inf]),
)
def test_the_cut_of_matrices_is_exact(table: Rows, depth: int, size: int, floor: float) -> None:
    scores = np.array(table, np.float32).reshape(-1, 7)
    best = TopK(IDS, len(scores), depth, floor)
    for start in range(0, 7, size):
        best.add(scores[:, start : start + size], start)
    assert best.keys.shape == (len(scores), min(depth, 7))
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    assert pairs_of(rankings_of(best.keys, IDS)) == brute_force(ranked, DOC_IDS, depth, floor)


WEIGHTS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 2.5])
ROWS = st.lists(st.lists(WEIGHTS, min_size=4, max_size=4), min_size=1, max_size=12)


@given(ROWS, ROWS, st.integers(1, 14), st.integers(1, 13), st.sampled_from([None, 0, 4]))
@example([[1.0] * 4] * 12, [[1.0] * 4, [0.0] * 4], 5, 4, 4)
@example([[1.0] * 4] * 12, [[1.0] * 4, [0.0] * 4], 5, 4, 0)
def test_the_search_of_inverted_indexes_is_brute_force(
    table: Rows, asked: Rows, depth: int, size: int, interpreted: int | None
) -> None:
    weights, factors = np.array(table, np.float32), np.array(asked, np.float32)
    doc_ids = [str(7 * number % 13) for number in range(len(weights))]
    ids = PassageIds(doc_ids)
    best = TopK(ids, len(factors), depth, floor=0.0)
    with pytest.MonkeyPatch.context() as patch:
        # Windows and chunks that end inside a block.
        patch.setattr(ranking, "_WINDOW", 3)
        patch.setattr(ranking, "_CHUNK", 2)
        if interpreted is not None:
            patch.setattr(ranking, "_SPARSE", interpreted)  # at 0, all windows are
            patch.setattr(ranking, "COMPILE_FROM", 0)
            patch.setattr(ranking, "_compiled", lambda: ranking._into_keys)
        for start in range(0, len(weights), size):
            block = weights[start : start + size]
            postings = sparse.csr_array(block.T)
            for queries in (slice(0, 1), slice(1, len(factors))):
                best.add_products(sparse.csr_array(factors), postings, start, len(block), queries)
    expected = brute_force(factors @ weights.T, doc_ids, depth, 0.0)
    assert pairs_of(rankings_of(best.keys, ids)) == expected


@pytest.mark.extended
def test_the_compiled_search_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_WINDOW", 200)
    index = Bm25(passages(1_100))
    texts = ["", "zebra ?", *(query.text for query in queries(1_100))][:300]
    for depth in (3, 1_000):
        monkeypatch.setattr(ranking, "COMPILE_FROM", 2_000)
        interpreted = pairs_of(list(index.search(texts, depth=depth)))
        monkeypatch.setattr(ranking, "COMPILE_FROM", 0)
        assert pairs_of(list(index.search(texts, depth=depth))) == interpreted
    assert ranking._compiled().stats.cache_path is not None  # type: ignore[attr-defined]


def test_large_collections_need_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "COMPILE_FROM", 100)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingError, match=r"20,000 passages or more needs the 'bm25' extra"):
        Bm25(passages(100))


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("depth", [1, 30, 2000])
def test_the_search_of_vectors_is_brute_force(
    kind: type, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole numbers make all products exact in 32 bits, and not in 16, with many ties, below 0, and
    # both zeros.
    random = np.random.default_rng(3)
    vectors = 31 * random.integers(-2, 3, (900, 6)).astype(kind)
    queries = 33 * random.integers(-2, 3, (20, 6)).astype(np.float32)
    asked = np.concatenate([queries, np.zeros((2, 6), np.float32), -np.zeros((1, 6), np.float32)])
    doc_ids = [str(number) for number in random.permutation(10_000)[:900]]
    monkeypatch.setattr(ranking, "_PASSAGES", 64)
    monkeypatch.setattr(ranking, "_QUERIES", 7)
    ids, blocks = (
        PassageIds(doc_ids),
        (vectors[start : start + 250] for start in range(0, 900, 250)),
    )
    found = pairs_of(rankings_of(search_vectors(blocks, asked, ids, depth=depth), ids))
    assert found == brute_force(asked @ vectors.astype(np.float32).T, doc_ids, depth)


def test_the_number_of_blocks_changes_no_bit_of_a_score() -> None:
    random = np.random.default_rng(4)
    vectors, asked = (random.normal(size=(size, 24)).astype(np.float32) for size in (5000, 40))
    ids, found = PassageIds([str(number) for number in range(5000)]), set()
    for size in (5000, 1700, 301):
        blocks = (vectors[start : start + size] for start in range(0, 5000, size))
        found.add(np.sort(search_vectors(blocks, asked, ids, depth=5000), axis=1).tobytes())
    assert len(found) == 1
