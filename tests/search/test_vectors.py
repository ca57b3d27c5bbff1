"""Exact search of vectors: brute force, the rule for ties, and the same bits with a compiler."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.search import PassageIds, search_vectors, vectors
from msshift_bench.search.ranking import rankings_of

# The first one compiles the search.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
IDS = PassageIds([str(number) for number in RNG.permutation(10_000)[:900]])


def found(
    passages: np.ndarray, queries: np.ndarray, depth: int, size: int
) -> list[list[tuple[str, float]]]:
    blocks = (passages[start : start + size] for start in range(0, len(passages), size))
    best = search_vectors(blocks, queries, IDS, depth=depth)
    assert best.shape == (len(queries), min(depth, len(passages)))
    return [list(ranking.items()) for ranking in rankings_of(best, IDS)]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("depth", [1, 30, 2000])
def test_it_is_brute_force_with_and_without_a_compiler(
    kind: type, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small whole numbers make every product exact, with many ties, below 0, and both zeros.
    passages = RNG.integers(-2, 3, (900, 6)).astype(kind)
    queries = np.concatenate([RNG.integers(-2, 3, (20, 6)), np.zeros((2, 6)), -np.zeros((1, 6))])
    queries = queries.astype(np.float32)
    scores = queries @ passages.astype(np.float32).T
    expected = [
        sorted(zip(row.tolist(), IDS.ids.tolist(), strict=True), reverse=True)[:depth]
        for row in scores + np.float32(0)
    ]
    pairs = [[(doc_id, score) for score, doc_id in row] for row in expected]
    monkeypatch.setattr(vectors, "_PASSAGES", 64)
    monkeypatch.setattr(vectors, "_QUERIES", 7)
    for least in (0, 10**9):
        monkeypatch.setattr(vectors, "COMPILE_FROM", least)
        assert found(passages, queries, depth, 250) == pairs


def test_16_bits_are_searched_as_their_values_in_32(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = RNG.standard_normal((900, 48)).astype(np.float16)
    queries = RNG.standard_normal((30, 48)).astype(np.float32)
    narrow = found(passages, queries, 100, 400)
    assert narrow == found(passages.astype(np.float32), queries, 100, 400)
    monkeypatch.setattr(vectors, "COMPILE_FROM", 0)
    assert narrow == found(passages, queries, 100, 400)


def test_what_is_no_number_is_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = RNG.standard_normal((900, 4)).astype(np.float32)
    passages[5:] = np.nan
    queries = np.ones((1, 4), np.float32)
    for least in (0, 10**9):
        monkeypatch.setattr(vectors, "COMPILE_FROM", least)
        (ranking,) = found(passages, queries, 10, 400)
        assert {doc_id for doc_id, _ in ranking} == set(IDS.ids[:5].tolist())


def test_the_compiled_function_is_the_one_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = RNG.integers(-3, 4, (120, 5)).astype(np.float32)
    queries = np.concatenate([RNG.integers(-3, 4, (4, 5)), np.zeros((1, 5))]).astype(np.float32)
    monkeypatch.setattr(vectors, "COMPILE_FROM", 0)
    monkeypatch.setattr(vectors, "_CHUNK", 16)
    compiled = found(passages, queries, 7, 50)
    monkeypatch.setattr(vectors, "_compile", lambda: vectors._into_pools)
    assert found(passages, queries, 7, 50) == compiled
