"""BM25: its index equals bm25s' bit by bit, and rankings depend on the passages only."""

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
from msshift_bench.errors import DataError, UsageError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.plumbing import lock_folder
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, bm25, cached_index
from tests.support.file_bytes import flip

MINI = [*passages(300)]
ASKED = ["", "the", "unheard zzzz", "Zürich 12", *(query.text for query in queries(300))]


def rankings(index: Bm25) -> list[list[tuple[str, float]]]:
    return [list(ranking.items()) for ranking in index.search(ASKED, depth=20)]


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


def test_nothing_depends_on_the_order_of_passages_or_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = "msshift_bench.plumbing.threads.thread_count"
    monkeypatch.setattr(threads, lambda: 1)
    index = Bm25(MINI)
    expected = rankings(index)
    assert rankings(Bm25(MINI[::-1])) == expected
    monkeypatch.setattr(threads, lambda: 5)
    monkeypatch.setattr(bm25, "BATCH", 7)
    assert rankings(index) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": -0.1}, "k1 must be 0 or more, got -0.1"),
        ({"k1": float("nan")}, "k1 must be 0 or more, got nan"),
        ({"b": 1.5}, "b must be from 0 to 1, got 1.5"),
        ({"depth": 0}, "depth must be 1 or more, got 0"),
        ({"engine": "rank_bm"}, "unknown engine 'rank_bm': did you mean 'rank_bm25'"),
        ({"stemmer": "french"}, "unknown stemmer 'french'"),
        ({"stop_words": "nltk"}, "unknown stop words 'nltk'"),
    ],
)
def test_parameters_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Bm25Parameters(**options)


def test_passages_without_words_are_refused() -> None:
    for texts in ([], ["the", "?"]):
        with pytest.raises(DataError, match=f"none of the {len(texts)} passages contains a word"):
            Bm25(Passage(str(number), text) for number, text in enumerate(texts))


@pytest.mark.extended
def test_jax_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise SystemError('it would take the GPU')")
    script = (
        "import sys; from msshift_bench.records import Passage; from msshift_bench.search import "
        "Bm25; Bm25([Passage('1', 'wine')]); print('jax' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", script], env=environment) == b"False\n"


# ---- the index in the cache: made once, and again when damaged -------------------------------

ODD = [
    Passage("é" * 40, "Zürich broken naïve"),
    Passage("x", "the of"),
    Passage("\N{PILE OF POO}", "ünïcode 12 12 12 red"),
]


class Streams:
    """A collection that counts why it was streamed."""

    def __init__(self, rows: list[Passage] = MINI) -> None:
        self.rows, self.stages, self.sha256 = rows, list[str](), ""

    def __call__(self, stage: str) -> Iterator[Passage]:
        self.stages.append(stage)
        self.sha256 = ContentDigest.of(self.rows).hexdigest()
        yield from self.rows

    def index(self, cache: Path, **options: Any) -> Bm25:
        return cached_index(self, lambda: self.sha256, Bm25Parameters(**options), cache=cache)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msshift_bench.search.bm25.KEEP_FROM", 100)


@pytest.mark.parametrize("stemmer", ["english", "none"])
def test_an_index_is_made_once_and_gives_the_same_bits(stemmer: str, tmp_path: Path) -> None:
    rows = [*MINI, *ODD]
    memory = Bm25(rows, Bm25Parameters(stemmer=stemmer))
    made, opened = Streams(rows), Streams(rows[::-1])
    first = made.index(tmp_path, stemmer=stemmer)
    assert made.stages == ["index"]
    for _ in range(2):
        again = opened.index(tmp_path, depth=7, stemmer=stemmer)
        assert opened.stages == ["read"]  # The digest had to be learnt, and then it is known.
    assert rankings(first) == rankings(again) == rankings(memory)
    assert again.parameters.depth == 7
    asked = ["none", ODD[0].doc_id, "", f"{ODD[2].doc_id}z", MINI[3].doc_id]
    assert (again.ids.rows(asked), again.ids.rows([])) == ([None, 300, None, None, 3], [])
    texts, rows_of_texts = ["red fish", "Zürich 12"], [memory.ids.sorted] * 2
    scored = [list(index.score(texts, rows_of_texts)) for index in (memory, again)]
    np.testing.assert_array_equal(*scored, strict=True)
    # bm25s opens the files, too.
    (folder,) = tmp_path.iterdir()
    scores = bm25s.BM25.load(folder).get_scores(["red"])
    assert (scores[memory.ids.sorted] == next(memory.score(["red"], rows_of_texts[:1]))).all()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("rows", "options", "patch", "stages", "kept"),
    [
        (MINI[:-1], {}, {}, ["read", "index"], 2),
        (MINI, {"b": 0.1}, {}, ["index"], 2),
        # Terms that another version of the stemmer made are no terms of this one.
        (MINI, {}, {"Stemmer.version": lambda: "99"}, ["index"], 2),
        (MINI, {}, {"bm25s.__version__": "99"}, ["index"], 2),
        (MINI[:99], {}, {}, ["read", "index"], 1),
        (MINI, {"engine": "rank_bm25"}, {}, ["index"], 1),
    ],
)
def test_other_parameters_and_passages_are_another_index_if_it_is_kept(
    rows: list[Passage],
    options: dict[str, Any],
    patch: dict[str, Any],
    stages: list[str],
    kept: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Streams().index(tmp_path)
    for name, value in patch.items():
        monkeypatch.setattr(name, value)
    other = Streams(rows)
    expected = rankings(Bm25(rows, Bm25Parameters(**options)))
    assert rankings(other.index(tmp_path, **options)) == expected
    assert (other.stages, len(list(tmp_path.iterdir()))) == (stages, kept)


ARRAYS = "indices.csc.index.npy"


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / ARRAYS, -10),
        lambda folder: flip(folder / "doc_ids.npy", -10),
        lambda folder: (folder / ARRAYS).unlink(),
        lambda folder: (folder / "index.json").write_text("[]"),
        lambda folder: (folder / "index.json").unlink(),
    ],
)
def test_a_damaged_index_is_made_again(
    damage: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = rankings(Streams().index(tmp_path))
    damage(*tmp_path.iterdir())
    for stages in (["read", "index"], ["read"]):
        again = Streams()
        assert rankings(again.index(tmp_path)) == expected
        assert again.stages == stages
    assert "is made again" in caplog.text


def test_an_index_that_cannot_be_kept_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Streams().index(tmp_path)
    (folder,) = tmp_path.iterdir()
    folder.rename(tmp_path / "elsewhere")
    with lock_folder(tmp_path / f".{folder.name}.partial"):
        index = Streams().index(tmp_path)
    assert "is not kept" in caplog.text
    assert "another process is writing" in caplog.text
    assert not folder.exists()
    assert rankings(index) == rankings(Bm25(MINI))
