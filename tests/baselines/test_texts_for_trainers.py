"""Training pairs and validation candidates, as the trainers of sentence-transformers take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench import add_triples, build_dataset, load_dataset, load_triples, open_collection
from msshift_bench.baselines import training_pairs, validation_candidates
from msshift_bench.errors import DataError, UnknownNameError, UsageError

pytestmark = pytest.mark.neural

MINI = open_collection("mini:300")
CONFIG = "length-short"


@pytest.fixture(scope="module")
def with_triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with twelve negatives for each training query."""
    folder = tmp_path_factory.mktemp("triples") / "msshift"
    build_dataset(MINI, ["length"], folder)
    add_triples(folder, MINI, count=12, depth=30)
    return folder


@pytest.fixture(scope="module")
def doc_ids() -> dict[str, str]:
    """Return text -> doc_id."""
    return {passage.text: passage.doc_id for passage in MINI.passages()}


def test_pairs_are_the_relevant_passages_of_the_training_queries(
    build_once: Any, doc_ids: dict[str, str]
) -> None:
    folder = build_once("mini:300", "length")
    pairs = training_pairs(CONFIG, folder)
    rows = load_dataset(folder, CONFIG)
    expected = {(row.text, doc_id) for row in rows["train"] for doc_id in row.relevant_doc_ids}
    assert pairs.column_names == ["anchor", "positive"]
    found = [(row["anchor"], doc_ids[row["positive"]]) for row in pairs]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert {row.text for row in rows["test"]}.isdisjoint(pairs["anchor"])
    assert training_pairs(CONFIG, folder, limit=7).to_list() == pairs.to_list()[:7]


def test_negatives_are_the_first_of_the_triples(
    with_triples: Path, doc_ids: dict[str, str]
) -> None:
    triples: dict[tuple[str, str], list[str]] = {}
    for query_id, positive_id, negative_id in load_triples(with_triples, f"{CONFIG}-triples"):
        triples.setdefault((MINI.queries[query_id], positive_id), []).append(negative_id)
    names = ["anchor", "positive", "negative_1"]
    for count, columns in ((None, names), (1, names), (2, [*names, "negative_2"])):
        pairs = training_pairs(CONFIG, with_triples, negatives=count)
        assert pairs.column_names == columns
        found = [
            [text, *(doc_ids[part] for part in rest)] for text, *rest in map(dict.values, pairs)
        ]
        assert sorted(found) == sorted(
            [*pair, *negatives[: len(columns) - 2]] for pair, negatives in triples.items()
        )
    assert training_pairs(CONFIG, with_triples, negatives=0).column_names == names[:2]


def test_calls_that_are_refused(with_triples: Path, build_once: Any, tsv_folder: Any) -> None:
    without = build_once("mini:300", "length")
    refused: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (UnknownNameError, "'length-shrt'", {"config": "length-shrt"}),
        (UsageError, "'length' is a complete shift.*: length-short", {"config": "length"}),
        (UsageError, "limit at least 1, got None and 0", {"limit": 0}),
        (UsageError, "negatives must be at least 0 .* got -1", {"negatives": -1}),
        (UsageError, "got 13. Lower it", {"negatives": 13, "data": with_triples}),
        (UsageError, "no length-short-triples, .*=2 .* 'msshift triples'", {"negatives": 2}),
        (UsageError, "'mini:300'.*'toy'", {"collection": tsv_folder("toy")}),
    ]
    for error, said, changes in refused:
        with pytest.raises(error, match=said):
            training_pairs(**{"config": CONFIG, "data": without, **changes})
    with pytest.raises(UsageError, match="queries and depth must be at least 1, got 0 and 9"):
        validation_candidates(CONFIG, without, queries=0, depth=9)


def test_passages_that_the_collection_lacks(
    tmp_path: Path, tsv_folder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {f"q{i}": f"what is {'x ' * (i % 4)}number {i}" for i in range(120)}
    given = {
        "queries": "".join(f"{name}\t{text}\n" for name, text in texts.items()),
        "qrels": "".join(f"{name} 0 {doc} 1\n" for name in texts for doc in ("d1", "gone")),
        "collection": "d1\tone\nd2\tanother\n",
    }
    folder = tmp_path / "msshift"
    toy = tsv_folder("toy", **given)
    build_dataset(toy, ["length"], folder, licence="cc-by-4.0")
    pairs = training_pairs(CONFIG, folder, toy)
    assert set(pairs["positive"]) == {"one"}
    assert "1 of 2 passages relevant to the train queries of length are not in toy" in caplog.text
    add_triples(folder, toy, count=1, depth=5)
    fewer = tsv_folder("fewer", **{**given, "collection": "d2\tanother\n"})
    with pytest.raises(DataError, match="fewer lacks 1 passages of the triples of length-short"):
        training_pairs(CONFIG, folder, fewer)
    with pytest.raises(DataError, match="has a relevant passage in fewer"):
        validation_candidates(CONFIG, folder, fewer)


def test_candidates_are_those_of_validation_queries(build_once: Any) -> None:
    folder = build_once("mini:300", "length")
    rows = {row.query_id: row for row in load_dataset(folder, CONFIG, split="validation")}
    found = validation_candidates(CONFIG, folder, queries=9, depth=10)
    assert len(found.queries) == 9
    for query_id, text in found.queries.items():
        row, candidates = rows[query_id], found.candidates[query_id]
        assert row.text == text
        assert found.relevant_docs[query_id] == set(row.relevant_doc_ids) <= set(candidates)
        assert len(candidates) <= 10 + len(row.relevant_doc_ids)
        assert candidates == sorted(candidates, reverse=True)
    assert set().union(*found.candidates.values()) == found.corpus.keys()
    texts = {passage.doc_id: passage.text for passage in MINI.passages()}
    assert found.corpus.items() <= texts.items()
    first, query_id = found.samples()[0], next(iter(found.queries))
    assert first["query"] == found.queries[query_id]
    assert set(first["positive"]) == {texts[doc_id] for doc_id in found.relevant_docs[query_id]}
    assert len(first["positive"] + first["negative"]) == len(found.candidates[query_id])


@pytest.mark.extended
def test_evaluators_of_sentence_transformers_take_them(build_once: Any, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
        RerankingEvaluator,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from tests.support.tiny_encoder import make_tiny_encoder

    make_tiny_encoder(tmp_path / "bert", ["what is a passage"], length=32, layers=1, hidden=8)
    transformer = Transformer(str(tmp_path / "bert"))
    model = SentenceTransformer(modules=[transformer, Pooling(8)], device="cpu")
    found = validation_candidates(CONFIG, build_once("mini:300", "length"), queries=5, depth=10)
    searched = InformationRetrievalEvaluator(found.queries, found.corpus, found.relevant_docs)
    assert 0 <= searched(model)[searched.primary_metric] <= 1
    reranked = RerankingEvaluator(found.samples())
    assert 0 <= reranked(model)[reranked.primary_metric] <= 1
    pairs = training_pairs(CONFIG, build_once("mini:300", "length"), limit=4)
    features = [model.preprocess(pairs[name][:]) for name in pairs.column_names]
    assert MultipleNegativesRankingLoss(model)(features, None).item() > 0
