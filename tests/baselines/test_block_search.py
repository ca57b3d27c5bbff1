from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from msshift_bench.baselines.retrievers import block_search
from msshift_bench.baselines.retrievers.biencoder import search_vectors
from msshift_bench.baselines.retrievers.block_search import Arrays, EncodedPassages, encode_passages
from msshift_bench.baselines.retrievers.colbert import rerank, search_tokens
from msshift_bench.baselines.retrievers.splade import inverted_index, search_inverted_index
from msshift_bench.plumbing import reporting
from msshift_bench.records import Passage
from msshift_bench.search import Ranking


class _Encoder:
    """Encodes a text as its length, and remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> Arrays:
        self.texts += texts
        return {"lengths": np.array([len(text) for text in texts])}


def test_blocks_that_are_there_are_not_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_search, "_SIZE", 2)
    given = [Passage(name, name * length) for length, name in enumerate("abcde", 1)]
    seen: list[int] = []

    def run(items: list[Passage]) -> tuple[list[str], list[int]]:
        encoder = _Encoder()
        with reporting(lambda *event: seen.append(event[1])):
            found = encode_passages(encoder, items, tmp_path)
        assert found.ids.ids.tolist() == [passage.doc_id for passage in items]
        assert [block.size for block in found.blocks] == [2] * (len(items) // 2) + [1]
        assert found.bytes == sum(block.path.stat().st_size for block in found.blocks)
        lengths = np.concatenate([block.load()["lengths"] for block in found.blocks])
        assert lengths.tolist() == [len(passage.text) for passage in items]
        return encoder.texts, [block.path.stat().st_mtime_ns for block in found.blocks]

    encoded, first = run(given)
    assert encoded == [passage.text for passage in given]
    assert seen == [0, 2, 4, 5]
    assert run(given) == ([], first)
    next(tmp_path.glob("00001-*")).unlink()
    assert run(given)[0] == ["ccc", "dddd"]
    assert run([*given[:4], Passage("e", "other")])[0] == ["other"]
    assert run([given[0], given[2], given[1]])[0] == ["a", "ccc", "bb"]


PASSAGES, QUERIES, DEPTH = 610, 23, 40

_random = np.random.default_rng(2)
_lengths = _random.integers(1, 30, PASSAGES)
_ends = np.cumsum(_lengths)
_dense = _random.standard_normal((PASSAGES, 96)).astype(np.float32)
_tokens = _random.standard_normal((_lengths.sum(), 32)).astype(np.float16)
_weights = sparse.random_array((PASSAGES, 50), density=0.2, rng=_random, dtype=np.float32).tocsr()
_asked = _random.standard_normal((QUERIES, 96)).astype(np.float32)
_asked_tokens = _random.standard_normal((QUERIES, 8, 32)).astype(np.float32)
_asked_weights = sparse.random_array(
    (QUERIES, 50), density=0.2, rng=_random, dtype=np.float32
).tocsr()
_candidates = [_random.permutation(PASSAGES)[:50] for _ in range(QUERIES)]


def _token_arrays(rows: Any) -> Arrays:
    first = _ends[rows[0]] - _lengths[rows[0]]
    return {"vectors": _tokens[first : _ends[rows[-1]]], "lengths": _lengths[rows]}


FORMS: dict[str, tuple[Callable[[Any], Arrays], Callable[[EncodedPassages], Iterator[Ranking]]]] = {
    "dense": (
        lambda rows: {"vectors": _dense[rows]},
        lambda passages: search_vectors(_asked, passages, DEPTH),
    ),
    "dense in 16 bits": (
        lambda rows: {"vectors": _dense[rows].astype(np.float16)},
        lambda passages: search_vectors(_asked, passages, DEPTH),
    ),
    "sparse": (
        lambda rows: inverted_index(_weights[rows]),
        lambda passages: search_inverted_index(_asked_weights, passages, DEPTH),
    ),
    "tokens": (_token_arrays, lambda passages: search_tokens(_asked_tokens, passages, DEPTH)),
    "candidates": (
        _token_arrays,
        lambda passages: rerank(_asked_tokens, passages, _candidates, DEPTH),
    ),
}


@pytest.mark.neural
@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_blocks_changes_no_ranking(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays, search = FORMS[form]
    given = [Passage(f"d{row * 7919 % PASSAGES}", str(row)) for row in range(PASSAGES)]

    def rankings(size: int) -> list[list[tuple[str, float]]]:
        monkeypatch.setattr(block_search, "_SIZE", size)
        folder = tmp_path / str(size)
        folder.mkdir()
        passages = encode_passages(
            lambda texts: arrays(np.array(texts, dtype=np.int64)), given, folder
        )
        assert len(passages.blocks) == -(-PASSAGES // size)
        return [list(ranking.items()) for ranking in search(passages)]

    whole = rankings(PASSAGES)
    assert len(whole) == QUERIES
    assert all(len(ranking) == DEPTH for ranking in whole)
    # In 2 and in 7 blocks of almost one size, and in 8 of which the last holds one passage.
    for size in (305, 88, 87):
        assert rankings(size) == whole
