from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import bm25s
import pytest
import Stemmer

from msshift_bench.data.collection import open_collection
from msshift_bench.mini.generator import passages, queries
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters

SIZE = 600
PARAMETERS = [
    Bm25Parameters(depth=50),
    Bm25Parameters(k1=1.6, b=0.3, stemmer="none", stop_words="none", depth=SIZE),
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=["default", "other"])
def test_rankings_are_those_of_bm25s_alone(parameters: Bm25Parameters) -> None:
    texts = [query.text for query in queries(SIZE)][:150]
    texts.append("Ünïcode WORDS it's_x 3.5mg 日本語 a b red")
    stemmer = Stemmer.Stemmer("english") if parameters.stemmer == "english" else None
    stop_words = "english" if parameters.stop_words == "english" else []

    def words(some: list[str]) -> list[list[str]]:
        return bm25s.tokenize(  # type: ignore[no-any-return]
            some, stopwords=stop_words, stemmer=stemmer, return_ids=False, show_progress=False
        )

    rows = list(passages(SIZE))
    peer = bm25s.BM25(k1=parameters.k1, b=parameters.b, method="lucene")
    peer.index(words([row.text for row in rows]), show_progress=False)
    rankings = Bm25(rows, parameters).search(texts)
    for terms, ranking in zip(words(texts), rankings, strict=True):
        scores = peer.get_scores_from_ids(peer.get_tokens_ids(terms)).tolist()
        pairs = sorted(zip(scores, (row.doc_id for row in rows), strict=True), reverse=True)
        expected = [(doc_id, score) for score, doc_id in pairs if score > 0]
        assert list(ranking.items()) == expected[: parameters.depth]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=["default", "other"])
def test_rank_bm25_gives_the_same_scores_and_rankings(parameters: Bm25Parameters) -> None:
    texts = [query.text for query in queries(SIZE)][:50]
    reference = Bm25Parameters(
        **{name: getattr(parameters, name) for name in ("k1", "b", "stemmer", "stop_words")},
        depth=SIZE,
        engine="rank_bm25",
    )
    theirs = Bm25(passages(SIZE), reference).search(texts)
    for ours, expected in zip(Bm25(passages(SIZE), parameters).search(texts), theirs, strict=True):
        exact = {doc_id: expected[doc_id] for doc_id in ours}
        assert len(ours) == min(parameters.depth, len(expected))
        assert ours == pytest.approx(exact, rel=2e-6)
        # The engines may order differently only what 32 bits cannot tell apart.
        best = list(expected.values())[: len(ours)]
        assert list(exact.values()) == pytest.approx(best, rel=2e-6)


def test_scores_are_the_published_formula() -> None:
    k1, b = 0.82, 0.68
    documents = {"1": "red fish red", "2": "blue fish", "3": "green bird sings loudly today"}
    index = Bm25(Passage(*item) for item in documents.items())
    words = {doc_id: text.split() for doc_id, text in documents.items()}
    average = sum(map(len, words.values())) / 3

    def term(word: str, doc_id: str) -> float:
        df = sum(word in text for text in words.values())
        tf = Counter(words[doc_id])[word]
        idf = math.log(1 + (3 - df + 0.5) / (df + 0.5))
        return idf * tf / (tf + k1 * (1 - b + b * len(words[doc_id]) / average))

    (ranking,) = index.search(["fish red fish"])
    expected = {doc_id: 2 * term("fish", doc_id) + term("red", doc_id) for doc_id in ("1", "2")}
    assert ranking == pytest.approx(expected, rel=1e-6)


@pytest.mark.realdata
@pytest.mark.extended
def test_the_known_figures_on_real_passages(real_data: Path) -> None:
    collection = open_collection(real_data / "msmarco-pool")
    relevant = collection.relevant
    index = Bm25(collection.passages())
    for group, expected in (("short", 0.734), ("long", 0.708)):
        file = real_data / "ms-marco-shift" / "EVAL" / "queries" / f"queries_{group}.tsv"
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
        total = 0.0
        for (query_id, _), ranking in zip(
            rows, index.search((text for _, text in rows), depth=10), strict=True
        ):
            places = (
                place for place, doc_id in enumerate(ranking, 1) if doc_id in relevant[query_id]
            )
            total += 1 / next(places, math.inf)
        assert total / len(rows) == pytest.approx(expected, abs=0.0006)
