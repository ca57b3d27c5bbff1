"""monoBERT: its order follows its scores, and its losses equal the formulas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.rerankers.reranker import MonoBert, RerankSearch, pair_scores
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.records import Query, Row
from msshift_bench.search.bm25 import Bm25
from tests.parity.conftest import loss_of
from tests.support.bare_runs import bare_run

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(6)]


def _score(model: Any, query: str, passage: str) -> float:
    """The score of one pair, without a batch."""
    import torch

    tokens = model.tokenizer(query, passage, truncation=True, max_length=52, return_tensors="pt")
    with torch.no_grad():
        return float(model[0].model(**tokens).logits)


def test_the_order_is_that_of_the_scores(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.baselines.rerankers.reranker._PAIRS", 25)
    model, _ = small_model(MonoBert)
    collection = open_collection("mini:60")
    queries = [Query(*query) for query in (*collection.queries.items(), ("none", "zzzz"))]
    queries = [*queries[:7], queries[-1]]
    rows = tuple(Row.judged(*query, "short", {}) for query in queries)
    run = bare_run(collection, tmp_path, queries=rows)
    texts = {passage.doc_id: passage.text for passage in collection.passages()}
    bm25 = Bm25(collection.passages())
    search = RerankSearch(depth=10, batch_size=4)

    found = dict(search.rank(model, run))

    assert list(found) == [query.query_id for query in queries]
    assert found["none"] == {}
    for query, candidates in zip(queries, bm25.search(q.text for q in queries), strict=True):
        ranking = found[query.query_id]
        assert ranking.keys() == set(list(candidates)[:10])
        pairs = list(ranking.items())
        assert pairs == sorted(pairs, key=lambda pair: (pair[1], pair[0]), reverse=True)
        for doc_id, score in pairs:
            expected = _score(model, query.text, texts[doc_id])
            assert score == pytest.approx(expected, abs=1e-5)

    # What was scored is not scored again.
    assert len(list((tmp_path / "scores").iterdir())) == 4
    assert dict(search.rank(None, run)) == found


@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_the_loss_by_hand(small_model: Any, kind: str) -> None:
    import torch

    model, recipe = small_model(MonoBert, loss=kind)
    loss = loss_of(recipe, model, TEXTS)
    scores = torch.tensor(
        [
            [_score(model, TEXTS[row], TEXTS[row + 2 * column]) for column in (1, 2)]
            for row in (0, 1)
        ]
    )
    if kind == "softmax":
        expected = -torch.log_softmax(scores, dim=1)[:, 0].mean()
    else:
        relevant = torch.sigmoid(scores)
        expected = -torch.log(torch.stack([relevant[:, 0], 1 - relevant[:, 1]])).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_model_of_two_classes_scores_their_difference() -> None:
    logits = np.array([[0.5, 2.0], [1.0, -1.0]], np.float32)
    model = SimpleNamespace(num_labels=2, predict=lambda *_, **__: logits)
    assert pair_scores(model, [("a", "b")] * 2, 2).tolist() == [1.5, -2.0]
    with pytest.raises(UsageError, match="the model has 3 classes"):
        RerankSearch().check_model(SimpleNamespace(num_labels=3))
