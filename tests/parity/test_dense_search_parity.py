from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.systems.searcher import EncodedPassages
from msshift_bench.plumbing import slices
from msshift_bench.search.ranking import PassageIds

pytestmark = pytest.mark.neural


def _blocks(
    folder: Path, vectors: npt.NDArray[np.float32], doc_ids: list[str], size: int
) -> EncodedPassages:
    files = {folder / f"{rows.start}.npz": rows for rows in slices(len(vectors), size)}
    for file, rows in files.items():
        np.savez(file, vectors=vectors[rows])
    return EncodedPassages(PassageIds(doc_ids), files)


@pytest.mark.parametrize("size", [7, 100, 1000])
@pytest.mark.parametrize("depth", [1, 30, 2000])
def test_blockwise_search_is_brute_force(tmp_path: Path, size: int, depth: int) -> None:
    # Small whole numbers make every dot product exact, and ties plentiful.
    rng = np.random.default_rng(0)
    passages = rng.integers(-3, 4, (600, 6)).astype(np.float32)
    queries = rng.integers(-3, 4, (40, 6)).astype(np.float32)
    doc_ids = [str(number) for number in rng.permutation(10_000)[:600]]
    blocks = _blocks(tmp_path, passages, doc_ids, size)

    rankings = list(DenseSearch(depth=depth).search(queries, blocks))

    for scores, ranking in zip(queries @ passages.T, rankings, strict=True):
        expected = sorted(zip(scores.tolist(), doc_ids, strict=True), reverse=True)[:depth]
        assert list(ranking.items()) == [(doc_id, score) for score, doc_id in expected]


def test_queries_are_searched_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    passages = rng.standard_normal((50, 4)).astype(np.float32)
    queries = rng.integers(-3, 4, (45, 4)).astype(np.float32)
    blocks = _blocks(tmp_path, passages, [str(number) for number in range(50)], 50)

    def run() -> list[list[str]]:
        found = DenseSearch(depth=5).search(queries, blocks)
        return [list(ranking) for ranking in found]

    expected = run()
    monkeypatch.setattr("msshift_bench.baselines.systems.searcher._QUERIES", 40)
    assert run() == expected
