"""BM25: its index is bm25s' to the bit, and rankings depend on nothing but the passages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest

from msshift_bench.data import ContentDigest
from msshift_bench.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.plumbing import hold_folder
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, bm25, kept_index
from tests.support.file_bytes import flip

MINI = [*passages(300)]
TEXTS = ["", *(query.text for query in queries(300)), "zebra"]


def found(index: Bm25, **options: int) -> list[list[tuple[str, float]]]:
    return [list(ranking.items()) for ranking in index.search(TEXTS, **options)]


def test_hundreds_of_equal_passages_are_cut_by_doc_id() -> None:
    doc_ids = [str(number) for number in range(500)]
    index = Bm25(Passage(doc_id, "the same red text") for doc_id in doc_ids)
    expected = sorted(doc_ids, reverse=True)
    for depth in (1, 10, 499):
        (ranking,) = index.search(["red"], depth=depth)
        assert list(ranking) == expected[:depth]
        assert len(set(ranking.values())) == 1


@pytest.mark.parametrize(("k1", "b"), [(0.82, 0.68), (0.0, 0.0), (1.2, 1.0)])
def test_weights_are_the_bits_of_bm25s_own_loop(
    k1: float, b: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25, "_AT_ONCE", 1000)
    parameters = Bm25Parameters(k1=k1, b=b)
    texts = [*MINI, Passage("no word", "?"), Passage("again", "red red red fish")]
    ours, theirs = Bm25(texts, parameters), bm25s.BM25(k1=k1, b=b, method="lucene")
    tokenizer = parameters.tokenizer()
    terms = list(tokenizer.streaming_tokenize([text for _, text in texts], allow_empty=False))
    counted = terms, tokenizer.get_vocab_dict()
    theirs.index(counted, create_empty_token=False, show_progress=False)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(ours._index.scores[name], theirs.scores[name], strict=True)


@pytest.mark.parametrize("engine", bm25.ENGINES)
def test_queries_without_known_terms_rank_nothing(engine: str) -> None:
    index = Bm25([Passage("1", "red fish"), Passage("2", "blue")], Bm25Parameters(engine=engine))
    rankings = index.search(["", "the of", "zebra ?", "fishes", "a", "red fish blue"])
    assert [list(ranking) for ranking in rankings] == [[], [], [], ["1"], [], ["1", "2"]]


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ({}, ["running", "runs", "dog", "ray"]),
        ({"stop_words": "none"}, ["running", "runs", "dog", "the", "an", "ray"]),
        ({"stemmer": "none"}, ["running", "ray"]),
    ],
)
def test_terms_are_what_the_parameters_say(options: dict[str, Any], terms: list[str]) -> None:
    texts = [Passage("1", "The Running dogs"), Passage("2", "an x-ray")]
    index = Bm25(texts, Bm25Parameters(**options))
    words = ["running", "runs", "dog", "the", "an", "ray", "x"]
    assert [word for word in words if index.terms_of(word)] == terms


def test_nothing_depends_on_the_order_of_passages_or_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = "msshift_bench.plumbing.threads.thread_count"
    monkeypatch.setattr(threads, lambda: 1)
    index = Bm25(MINI)
    expected = found(index, depth=20)
    assert found(Bm25(MINI[::-1]), depth=20) == expected
    monkeypatch.setattr(threads, lambda: 5)
    monkeypatch.setattr(bm25, "BATCH", 7)
    assert found(index, depth=20) == expected


def test_selecting_gives_the_passages_that_are_ranked() -> None:
    index = Bm25(MINI)
    for depth in (7, 299, 400):
        selected = index.select(TEXTS, depth=depth)
        for ranking, rows in zip(index.search(TEXTS, depth=depth), selected, strict=True):
            assert sorted(index.ids.ids[rows[rows >= 0]].tolist()) == sorted(ranking)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k1": -0.1}, UsageError, "k1 is -0.1; it must be 0 or more"),
        ({"k1": float("nan")}, UsageError, "k1 is nan"),
        ({"b": 1.5}, UsageError, "b is 1.5; it must be from 0 to 1"),
        ({"depth": 0}, UsageError, "depth is 0; it must be 1 or more"),
        ({"engine": "rank_bm"}, UnknownNameError, "engine 'rank_bm': did you mean 'rank_bm25'"),
        ({"stemmer": "french"}, UnknownNameError, "unknown stemmer 'french'"),
        ({"stop_words": "nltk"}, UnknownNameError, "unknown stop words 'nltk'"),
    ],
)
def test_parameters_that_cannot_be(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Bm25Parameters(**options)


def test_what_cannot_be_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    for texts in ([], ["the", "?"]):
        with pytest.raises(DataError, match=f"none of the {len(texts)} passages holds a word"):
            Bm25(Passage(str(number), text) for number, text in enumerate(texts))
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(MissingExtraError, match=r"the engine rank_bm25 needs the 'bm25' extra"):
        Bm25(MINI, Bm25Parameters(engine="rank_bm25"))


@pytest.mark.slow
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


# ---- the index in the cache: made once, and again when damaged -------------------------------

ODD = [
    Passage("é" * 40, "Zürich broken naïve"),
    Passage("x", "the of"),
    Passage("\N{PILE OF POO}", "ünïcode 12 12 12 red"),
]
ASKED = ["", "the", "unheard zzzz", "Zürich 12", *(query.text for query in queries(300))]


class Streams:
    """A collection that counts why it was streamed."""

    def __init__(self, rows: list[Passage] = MINI) -> None:
        self.rows, self.stages, self.sha256 = rows, list[str](), ""

    def __call__(self, stage: str) -> Iterator[Passage]:
        self.stages.append(stage)
        self.sha256 = ContentDigest.of(self.rows).hexdigest()
        yield from self.rows

    def index(self, cache: Path, **options: Any) -> Bm25:
        return kept_index(self, lambda: self.sha256, Bm25Parameters(**options), cache=cache)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msshift_bench.search.bm25.KEEP_FROM", 100)


def rankings(index: Bm25) -> list[list[tuple[str, float]]]:
    return [list(ranking.items()) for ranking in index.search(ASKED, depth=50)]


def folder_in(cache: Path) -> Path:
    (folder,) = cache.iterdir()
    return folder


@pytest.mark.parametrize("stemmer", ["english", "none"])
def test_an_index_is_made_once_and_gives_the_same_bits(stemmer: str, tmp_path: Path) -> None:
    rows = [*MINI, *ODD]
    memory = Bm25(rows, Bm25Parameters(stemmer=stemmer))
    made = Streams(rows)
    first = made.index(tmp_path, stemmer=stemmer)
    assert made.stages == ["index"]
    opened = Streams(rows[::-1])
    again = opened.index(tmp_path, depth=7, stemmer=stemmer)
    # The digest had to be learnt, and then it is known.
    assert opened.stages == ["read"]
    opened.index(tmp_path, stemmer=stemmer)
    assert opened.stages == ["read"]
    assert rankings(first) == rankings(again) == rankings(memory)
    assert (memory.select(ASKED, depth=9) == again.select(ASKED, depth=9)).all()
    assert again.parameters.depth == 7
    assert again.ids.rows([ODD[0].doc_id, "none"]) == [300, None]
    for texts in (["red fish"], ["Zürich 12"]):
        (one,) = memory.score(texts, [memory.ids.sorted])
        (two,) = again.score(texts, [again.ids.sorted])
        assert one.tobytes() == two.tobytes()
    # The files are those of bm25s: it opens them alone.
    peer = bm25s.BM25.load(folder_in(tmp_path))
    assert (peer.get_scores(["red"]) == next(memory.score(["red"], [slice(None)]))).all()  # type: ignore[list-item]


@pytest.mark.slow
def test_other_parameters_and_passages_are_another_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Streams().index(tmp_path)
    other = Streams(MINI[:-1])
    assert rankings(other.index(tmp_path)) == rankings(Bm25(MINI[:-1]))
    assert other.stages == ["read", "index"]
    expected = rankings(Bm25(MINI, Bm25Parameters(b=0.1)))
    assert rankings(Streams().index(tmp_path, b=0.1)) == expected
    assert len(list(tmp_path.iterdir())) == 3
    # Terms that another version of the stemmer made are no terms of this one.
    for number, (name, value) in enumerate(
        (("Stemmer.version", lambda: "99"), ("bm25s.__version__", "99")), 4
    ):
        newer = Streams()
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            newer.index(tmp_path)
        assert newer.stages == ["index"]
        assert len(list(tmp_path.iterdir())) == number
    few = Streams(MINI[:99])
    few.index(tmp_path)
    assert few.stages == ["read", "index"]
    peer = Streams()
    peer.index(tmp_path, engine="rank_bm25")  # which keeps none
    assert peer.stages == ["index"]
    assert len(list(tmp_path.iterdir())) == 5


ARRAYS = "indices.csc.index.npy"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "bit": lambda folder: flip(folder / ARRAYS, -10),
    "doc_ids": lambda folder: flip(folder / "doc_ids.npy", -10),
    "short": lambda folder: os.truncate(folder / ARRAYS, (folder / ARRAYS).stat().st_size - 8),
    "gone": lambda folder: (folder / ARRAYS).unlink(),
    "contents": lambda folder: (folder / "index.json").write_text("[]"),
    "no contents": lambda folder: (folder / "index.json").unlink(),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_index_is_made_again(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = rankings(Streams().index(tmp_path))
    DAMAGE[what](folder_in(tmp_path))
    for stages in (["read", "index"], ["read"]):
        again = Streams()
        assert rankings(again.index(tmp_path)) == expected
        assert again.stages == stages
    assert "is made again" in caplog.text


def test_an_index_that_cannot_be_kept_serves_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Streams().index(tmp_path)
    folder = folder_in(tmp_path)
    folder.rename(tmp_path / "elsewhere")
    with hold_folder(tmp_path / f".{folder.name}.partial"):
        index = Streams().index(tmp_path)
    assert "is not kept" in caplog.text
    assert "another process is writing" in caplog.text
    assert not folder.exists()
    assert rankings(index) == rankings(Bm25(MINI))
