from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench.baselines.search import search_vectors
from msshift_bench.ranking import PassageIds

pytestmark = pytest.mark.neural


@pytest.mark.parametrize("block", [7, 100, 1000])
@pytest.mark.parametrize("depth", [1, 30, 2000])
def test_blockwise_search_is_brute_force(tmp_path: Path, block: int, depth: int) -> None:
    # Small whole numbers make every dot product exact, and ties plentiful.
    rng = np.random.default_rng(0)
    passages = rng.integers(-3, 4, (600, 6)).astype(np.float32)
    queries = rng.integers(-3, 4, (40, 6)).astype(np.float32)
    doc_ids = [str(number) for number in rng.permutation(10_000)[:600]]
    files = []
    for start in range(0, len(passages), block):
        files.append(tmp_path / f"{start}.npy")
        np.save(files[-1], passages[start : start + block])

    rankings = list(search_vectors(queries, files, PassageIds(doc_ids), depth=depth))

    for scores, ranking in zip(queries @ passages.T, rankings, strict=True):
        expected = sorted(zip(scores.tolist(), doc_ids, strict=True), reverse=True)[:depth]
        assert ranking == [(doc_id, score) for score, doc_id in expected]


def test_queries_are_searched_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "all.npy", rng.standard_normal((50, 4)).astype(np.float32))
    queries = rng.integers(-3, 4, (45, 4)).astype(np.float32)
    ids = PassageIds([str(number) for number in range(50)])
    expected = list(search_vectors(queries, [tmp_path / "all.npy"], ids, depth=5))
    monkeypatch.setattr("msshift_bench.baselines.search._QUERIES", 40)
    found = list(search_vectors(queries, [tmp_path / "all.npy"], ids, depth=5))
    assert [[doc_id for doc_id, _ in ranking] for ranking in found] == [
        [doc_id for doc_id, _ in ranking] for ranking in expected
    ]
