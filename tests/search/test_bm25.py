from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import bm25s
import numpy as np
import pytest

from msshift_bench.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.records import Passage
from msshift_bench.search import bm25
from msshift_bench.search.bm25 import Bm25, Bm25Parameters


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


@pytest.mark.parametrize(("k1", "b"), [(0.82, 0.68), (0.0, 0.0), (1.2, 1.0)])
def test_weights_are_the_bits_of_bm25s_own_loop(
    k1: float, b: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25, "_AT_ONCE", 1000)
    parameters = Bm25Parameters(k1=k1, b=b)
    texts = [*passages(300), Passage("no word", "?"), Passage("again", "red red red fish")]
    ours = Bm25(texts, parameters)
    theirs = bm25s.BM25(k1=k1, b=b, method="lucene")
    tokenizer = parameters.tokenizer()
    terms = list(tokenizer.streaming_tokenize([text for _, text in texts], allow_empty=False))
    counted = terms, tokenizer.get_vocab_dict()
    theirs.index(counted, create_empty_token=False, show_progress=False)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(ours._index.scores[name], theirs.scores[name], strict=True)


# ---- searching ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", bm25.ENGINES)
def test_queries_without_known_terms_rank_nothing(engine: str) -> None:
    index = Bm25([Passage("1", "red fish"), Passage("2", "blue")], Bm25Parameters(engine=engine))
    rankings = list(index.search(["", "the of", "zebra ?", "fishes", "a", "red fish blue"]))
    assert [list(ranking) for ranking in rankings] == [
        [], [], [], ["1"], [], ["1", "2"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ({}, ["running", "runs", "dog", "ray"]),
        ({"stop_words": "none"}, ["running", "runs", "dog", "the", "an", "ray"]),
        ({"stemmer": "none"}, ["running", "ray"]),
    ],
)
def test_terms_are_what_the_parameters_say(options: dict[str, str], terms: list[str]) -> None:
    texts = [Passage("1", "The Running dogs"), Passage("2", "an x-ray")]
    index = Bm25(texts, Bm25Parameters(**options))  # type: ignore[arg-type]
    words = ["running", "runs", "dog", "the", "an", "ray", "x"]
    assert [word for word in words if index.terms_of(word)] == terms


def test_nothing_depends_on_the_order_of_passages() -> None:
    collection = list(passages(300))
    texts = [query.text for query in queries(300)]
    forth, back = Bm25(collection), Bm25(reversed(collection))
    assert found(forth, texts, depth=20) == found(back, texts, depth=20)


def test_nothing_depends_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Bm25(passages(300))
    texts = [query.text for query in queries(300)]
    monkeypatch.setattr("msshift_bench.plumbing.threads.thread_count", lambda: 1)
    expected = found(index, texts, depth=20)
    monkeypatch.setattr("msshift_bench.plumbing.threads.thread_count", lambda: 5)
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


def test_jax_stays_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise SystemError('it would take the GPU')")
    script = (
        "import sys; from msshift_bench.records import Passage; from msshift_bench.search import "
        "Bm25; Bm25([Passage('1', 'wine')]); print('jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
