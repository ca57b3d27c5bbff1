"""BM25's index in the cache: the same bits as in memory, made once, and again when damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import bm25s
import pytest

from msshift_bench.data import ContentDigest
from msshift_bench.mini.generator import passages, queries
from msshift_bench.plumbing import hold_folder
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, kept_index

ODD = [
    Passage("é" * 40, "Zürich broken naïve"),
    Passage("x", "the of"),
    Passage("\N{PILE OF POO}", "ünïcode 12 12 12 red"),
]
TEXTS = ["", "the", "unheard zzzz", "Zürich 12", *(query.text for query in queries(300))]


class Streams:
    """A collection that counts why it was streamed."""

    def __init__(self, rows: list[Passage]) -> None:
        self.rows, self.stages, self.sha256 = rows, list[str](), ""

    def __call__(self, stage: str) -> Iterator[Passage]:
        self.stages.append(stage)
        digest = ContentDigest()
        for row in self.rows:
            digest.add(row)
            yield row
        self.sha256 = digest.hexdigest()

    def index(self, cache: Path, **options: float) -> Bm25:
        return kept_index(self, lambda: self.sha256, Bm25Parameters(**options), cache=cache)  # type: ignore[arg-type]


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
    rows = [*passages(300), *ODD]
    memory = Bm25(rows, Bm25Parameters(stemmer=stemmer))
    made = Streams(rows)
    first = made.index(tmp_path, stemmer=stemmer)  # type: ignore[arg-type]
    assert made.stages == ["index"]
    opened = Streams(rows[::-1])
    again = opened.index(tmp_path, depth=7, stemmer=stemmer)  # type: ignore[arg-type]
    # The digest had to be learnt, and then it is known.
    assert opened.stages == ["read"]
    opened.index(tmp_path, stemmer=stemmer)  # type: ignore[arg-type]
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
    rows = list(passages(300))
    Streams(rows).index(tmp_path)
    other = Streams(rows[:-1])
    assert rankings(other.index(tmp_path)) == rankings(Bm25(rows[:-1]))
    assert other.stages == ["read", "index"]
    assert rankings(Streams(rows).index(tmp_path, b=0.1)) == rankings(
        Bm25(rows, Bm25Parameters(b=0.1))
    )
    assert len(list(tmp_path.iterdir())) == 3
    # Terms that another version of the stemmer made are no terms of this one.
    for number, name in enumerate(("Stemmer.version", "bm25s.__version__"), 4):
        newer = Streams(rows)
        with monkeypatch.context() as patch:
            patch.setattr(name, (lambda: "99") if name == "Stemmer.version" else "99")
            newer.index(tmp_path)
        assert newer.stages == ["index"]
        assert len(list(tmp_path.iterdir())) == number
    few = Streams(rows[:99])
    few.index(tmp_path)
    assert few.stages == ["read", "index"]
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("what", ["bit", "short", "gone", "doc_ids", "contents", "no contents"])
def test_a_damaged_index_is_made_again(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = list(passages(300))
    expected = rankings(Streams(rows).index(tmp_path))
    folder = folder_in(tmp_path)
    arrays = folder / ("doc_ids.npy" if what == "doc_ids" else "indices.csc.index.npy")
    if what in ("bit", "doc_ids"):
        data = bytearray(arrays.read_bytes())
        data[-10] ^= 1
        arrays.write_bytes(data)
    elif what == "short":
        os.truncate(arrays, arrays.stat().st_size - 8)
    elif what == "gone":
        arrays.unlink()
    elif what == "contents":
        (folder / "index.json").write_text("[]")
    else:
        (folder / "index.json").unlink()
    again = Streams(rows)
    assert rankings(again.index(tmp_path)) == expected
    assert again.stages == ["read", "index"]
    assert "is made again" in caplog.text
    opened = Streams(rows)
    assert rankings(opened.index(tmp_path)) == expected
    assert opened.stages == ["read"]


def test_an_index_that_cannot_be_kept_serves_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = list(passages(300))
    Streams(rows).index(tmp_path)
    folder = folder_in(tmp_path)
    name = folder.name
    folder.rename(tmp_path / "elsewhere")
    with hold_folder(tmp_path / f".{name}.partial"):
        index = Streams(rows).index(tmp_path)
    assert "is not kept" in caplog.text
    assert "another process is writing" in caplog.text
    assert not (tmp_path / name).exists()
    assert rankings(index) == rankings(Bm25(rows))
