"""BM25's index in the cache: the same bits as in memory, made once, and again when damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bm25s
import pytest

from msshift_bench.data import ContentDigest
from msshift_bench.mini.generator import passages, queries
from msshift_bench.plumbing import hold_folder
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, kept_index
from tests.support.file_bytes import flip

ODD = [
    Passage("é" * 40, "Zürich broken naïve"),
    Passage("x", "the of"),
    Passage("\N{PILE OF POO}", "ünïcode 12 12 12 red"),
]
TEXTS = ["", "the", "unheard zzzz", "Zürich 12", *(query.text for query in queries(300))]


MINI = [*passages(300)]


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
    return [list(ranking.items()) for ranking in index.search(TEXTS, depth=50)]


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
    assert (memory.select(TEXTS, depth=9) == again.select(TEXTS, depth=9)).all()
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
