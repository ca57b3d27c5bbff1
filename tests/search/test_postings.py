from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from msshift_bench.errors import MissingError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.search import impacts, postings
from msshift_bench.search.bm25 import Bm25
from msshift_bench.search.postings import Block, Spans, search_postings
from msshift_bench.search.ranking import PassageIds, rankings_of

TERMS = 4
WEIGHTS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 2.5])
PASSAGE = st.lists(WEIGHTS, min_size=TERMS, max_size=TERMS)
QUERY = st.lists(st.tuples(st.integers(0, TERMS), st.sampled_from([1.0, 2.0])), max_size=6)


def in_blocks(
    weights: np.ndarray, queries: list[list[tuple[int, float]]], size: int
) -> Iterator[tuple[Block, Spans]]:
    """Yield inverted indexes of `size` passages; the last term of queries stands in no passage."""
    asked = np.array([term for query in queries for term, _ in query], np.int64)
    factors = np.array([factor for query in queries for _, factor in query], np.float32)
    bounds = np.cumsum([0, *map(len, queries)], dtype=np.int64)
    for start in range(0, len(weights), size):
        part = weights[start : start + size]
        terms, rows = np.nonzero(part.T)
        starts = np.searchsorted(terms, np.arange(TERMS + 2))
        block = Block(len(part), rows.astype(np.uint16), part[rows, terms])
        yield block, Spans(starts[asked], starts[asked + 1], factors, bounds)


def by_python(block: Block, spans: Spans, order: np.ndarray, pools: postings._Pools) -> None:
    """Do what `_compiled` does, but uncompiled."""
    terms = (spans.starts, spans.ends, spans.factors, spans.queries)
    scores = np.zeros(block.size, np.float32)
    kept = (pools.keys, pools.filled, pools.lowest, pools.depth)
    postings._into_pools(block.rows, block.weights, *terms, order, scores, *kept)
    assert not scores.any()


@given(
    st.lists(PASSAGE, min_size=1, max_size=12),
    st.lists(QUERY, max_size=4),
    st.integers(1, 14),
    st.integers(1, 13),
    st.sampled_from([1, 3, 10_000]),
    st.booleans(),
)
@example([[1.0] * 4] * 12, [[(0, 1.0)], [], [(4, 1.0)]], 5, 4, 1, True)
def test_every_search_is_brute_force(
    table: list[list[float]],
    asked: list[list[tuple[int, float]]],
    depth: int,
    size: int,
    sparse: int,
    interpreted: bool,
) -> None:
    weights = np.array(table, np.float32)
    doc_ids = [str(7 * number % 13) for number in range(len(weights))]
    ids = PassageIds(doc_ids)
    with pytest.MonkeyPatch.context() as patch:
        # Chunks that end inside a block; one passage in so many held, so that both scans are tried.
        patch.setattr(postings, "_CHUNK", 2)
        patch.setattr(postings, "_SPARSE", sparse)
        patch.setattr(postings, "BATCH", 2)
        if interpreted:
            patch.setattr(postings, "_by_numpy", by_python)
        blocks = in_blocks(weights, asked, size)
        best = search_postings(blocks, ids, len(asked), depth=depth)
    assert best.shape == (len(asked), min(depth, len(weights)))
    whole = np.c_[weights, np.zeros(len(weights), np.float32)]
    for query, ranking in zip(asked, rankings_of(best, ids, floor=0.0), strict=True):
        scores = sum((factor * whole[:, term] for term, factor in query), np.zeros(len(whole)))
        pairs = sorted(zip(scores.tolist(), doc_ids, strict=True), reverse=True)[:depth]
        assert list(ranking.items()) == [(doc_id, score) for score, doc_id in pairs if score > 0]
        assert all(a > b for a, b in pairwise((s, d) for d, s in ranking.items()))


@pytest.mark.slow
def test_the_compiled_search_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impacts, "BLOCK_SIZE", 200)
    index = Bm25(passages(1_100))
    texts = ["", "zebra ?", *(query.text for query in queries(1_100))][:300]
    for depth in (3, 1_000):
        monkeypatch.setattr(postings, "COMPILE_FROM", 2_000)
        interpreted = [list(ranking.items()) for ranking in index.search(texts, depth=depth)]
        monkeypatch.setattr(postings, "COMPILE_FROM", 0)
        compiled = [list(ranking.items()) for ranking in index.search(texts, depth=depth)]
        assert compiled == interpreted
    assert postings._compile().stats.cache_path is not None  # type: ignore[attr-defined]


def test_large_collections_need_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "COMPILE_FROM", 100)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingError, match=r"20,000 passages or more needs the 'bm25' extra"):
        Bm25(passages(100))
