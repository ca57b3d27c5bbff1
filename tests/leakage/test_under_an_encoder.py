"""Near-duplicates under a neural encoder: those of brute force on its vectors, in any block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench import find_leakage
from msshift_bench.data import QueryColumns
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.leakage import search
from msshift_bench.mini import queries
from msshift_bench.search import sorted_words
from msshift_bench.similarity import unit_rows
from tests.support.tiny_encoder import make_tiny_encoder

TRAIN = dict(list(queries(60))[:60])
TESTS = {f"t{query_id}": text for query_id, text in list(queries(60))[60:]} | {"t0": "who is it"}


@pytest.mark.neural
def test_near_duplicates_are_those_of_brute_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "encoder"
    every = [*TRAIN.values(), *TESTS.values()]
    make_tiny_encoder(folder, every, length=64, layers=1, hidden=16)
    distinct = tuple(sorted(set(every)))
    spec = EncoderSpec(str(folder), pooling="mean")
    vectors = unit_rows(embed_queries(QueryColumns(distinct, distinct), spec).vectors)
    row_of = {text: row for row, text in enumerate(distinct)}
    expected = {
        (test_id, train_id): float(vectors[row_of[test]] @ vectors[row_of[train]])
        for test_id, test in TESTS.items()
        for train_id, train in TRAIN.items()
        if sorted_words(test) != sorted_words(train)
    }
    threshold = float(np.mean(sorted(expected.values())[-200:-198]))
    monkeypatch.setattr(search, "_BLOCK", 25)
    options = {"encoder": str(folder), "pooling": "mean"}
    found = find_leakage(TRAIN, TESTS, threshold=threshold, **options)
    near = {
        (one.test_id, one.train_id): one.cosine
        for one in found.pairs
        if one.tier == "near-duplicate"
    }
    assert near.keys() == {pair for pair, cosine in expected.items() if cosine >= threshold}
    assert len(near) == 199
    assert np.allclose([near[pair] for pair in near], [expected[pair] for pair in near])
    assert found.to_json()["encoder"]["pooling"] == "mean"
    assert find_leakage(TRAIN, TESTS, **options).facts["threshold"] == 0.91
