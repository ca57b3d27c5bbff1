from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.records import Passage
from msshift_bench.search import bm25
from msshift_bench.search.bm25 import Bm25, Bm25Parameters
from msshift_bench.search.ranking import PassageIds, rank

# ---- the cut --------------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(st.sampled_from([-1.5, -1.0, -0.0, 0.0, 0.5, 0.5, 2.0]), min_size=7, max_size=7)
    ),
    st.integers(1, 9),
    st.sampled_from([0.0, -np.inf]),
)
def test_the_cut_is_exact_however_ties_are_broken(
    table: list[list[float]], depth: int, floor: float
) -> None:
    ids = PassageIds(["10", "9", "a", "1", "d7", "b", "é"])
    scores = np.array(table, np.float32).reshape(-1, 7)

    def adversarial(which: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        # Of the passages that tie, the ones that should come last.
        keys = (ids.order[None, :].repeat(len(which), 0), -scores[which])
        rows = np.lexsort(keys)[:, :k]
        return np.take_along_axis(scores[which], rows, 1), rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msshift_bench.search.ranking.EXTRA_PASSAGES", 1)
        rankings = rank(adversarial, ids, len(scores), depth=depth, floor=floor)
    for row, ranking in zip(scores.tolist(), rankings, strict=True):
        pairs = [(score, doc_id) for score, doc_id in zip(row, ids.ids.tolist(), strict=True)]
        expected = sorted((pair for pair in pairs if pair[0] > floor), reverse=True)[:depth]
        assert list(ranking.items()) == [(doc_id, score) for score, doc_id in expected]


def test_ids_find_their_rows() -> None:
    ids = PassageIds(["b", "10", "9"])
    assert ids.rows(["9", "none", "b", "zz", ""]) == [2, None, 0, None, None]
    assert ids.rows([]) == []


def test_hundreds_of_equal_passages_are_cut_by_doc_id() -> None:
    doc_ids = [str(number) for number in range(500)]
    index = Bm25(Passage(doc_id, "the same red text") for doc_id in doc_ids)
    expected = sorted(doc_ids, reverse=True)
    for depth in (1, 10, 499):
        (ranking,) = index.search(["red"], depth=depth)
        assert list(ranking) == expected[:depth]
        assert len(set(ranking.values())) == 1


def found(index: Bm25, texts: list[str], **options: int) -> list[list[tuple[str, float]]]:
    return [list(ranking.items()) for ranking in index.search(texts, **options)]


# ---- searching ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", bm25.ENGINES)
def test_queries_without_known_terms_rank_nothing(engine: str) -> None:
    index = Bm25([Passage("1", "red fish"), Passage("2", "blue")], Bm25Parameters(engine=engine))
    rankings = list(index.search(["", "the of", "zebra ?", "fishes", "a", "red fish blue"]))
    assert [list(ranking) for ranking in rankings] == [
        [], [], [], ["1"], [], ["1", "2"],
    ]  # fmt: skip


def test_terms_are_what_the_parameters_say() -> None:
    texts = [Passage("1", "The Running dogs"), Passage("2", "an x-ray")]

    def terms(**options: str) -> list[str]:
        index = Bm25(texts, Bm25Parameters(**options))  # type: ignore[arg-type]
        return list(index._vocabulary.terms)

    assert terms() == ["run", "dog", "ray"]
    assert terms(stop_words="none") == ["the", "run", "dog", "an", "ray"]
    assert terms(stemmer="none") == ["running", "dogs", "ray"]


def test_nothing_depends_on_the_order_of_passages() -> None:
    collection = list(passages(300))
    texts = [query.text for query in queries(300)]
    forth, back = Bm25(collection), Bm25(reversed(collection))
    assert found(forth, texts, depth=20) == found(back, texts, depth=20)


def test_nothing_depends_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Bm25(passages(300))
    texts = [query.text for query in queries(300)]
    monkeypatch.setattr("msshift_bench.plumbing.batching.thread_count", lambda: 1)
    expected = found(index, texts, depth=20)
    monkeypatch.setattr("msshift_bench.plumbing.batching.thread_count", lambda: 5)
    monkeypatch.setattr(bm25, "BATCH", 7)
    assert found(index, texts, depth=20) == expected


def test_selecting_gives_the_passages_that_are_ranked() -> None:
    index = Bm25(passages(300))
    texts = ["", *(query.text for query in queries(300)), "zebra"]
    for depth in (7, 299, 400):
        selected = index.select(texts, depth=depth)
        for ranking, rows in zip(index.search(texts, depth=depth), selected, strict=True):
            doc_ids = index.ids.ids[rows[rows >= 0]].tolist()
            assert sorted(doc_ids) == sorted(ranking)


# ---- what cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": -0.1}, "k1 is -0.1; it must be 0 or more"),
        ({"k1": float("nan")}, "k1 is nan"),
        ({"b": 1.5}, "b is 1.5; it must be from 0 to 1"),
        ({"depth": 0}, "depth is 0; it must be 1 or more"),
    ],
)
def test_parameters_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Bm25Parameters(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "rank_bm"}, "unknown engine 'rank_bm': did you mean 'rank_bm25'"),
        ({"stemmer": "french"}, "unknown stemmer 'french'"),
        ({"stop_words": "nltk"}, "unknown stop words 'nltk'"),
    ],
)
def test_unknown_names(options: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        Bm25Parameters(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("texts", [[], ["the", "?"]])
def test_a_collection_without_words(texts: list[str]) -> None:
    with pytest.raises(DataError, match=f"none of the {len(texts)} passages holds a word"):
        Bm25(Passage(str(number), text) for number, text in enumerate(texts))


def test_a_missing_engine_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(MissingExtraError, match=r"the engine rank_bm25 needs the 'bm25' extra"):
        Bm25(passages(10), Bm25Parameters(engine="rank_bm25"))
