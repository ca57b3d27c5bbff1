"""BM25's index in the cache: the same bits as in memory, made once, and refused when damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.data import ContentDigest
from msshift_bench.errors import IntegrityError
from msshift_bench.mini.generator import passages, queries
from msshift_bench.plumbing import hold_folder, with_checksum
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, kept_index
from msshift_bench.search.index_files import StoredTerms

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
    monkeypatch.setattr("msshift_bench.search.index_cache.KEEP_FROM", 100)
    monkeypatch.setattr("msshift_bench.search.impacts.BLOCK_SIZE", 64)


def rankings(index: Bm25) -> list[list[tuple[str, float]]]:
    return [list(ranking.items()) for ranking in index.search(TEXTS, depth=50)]


def folder_in(cache: Path) -> Path:
    (folder,) = cache.iterdir()
    return folder


def test_an_index_is_made_once_and_gives_the_same_bits(tmp_path: Path) -> None:
    rows = [*passages(300), *ODD]
    memory = Bm25(rows)
    made = Streams(rows)
    first = made.index(tmp_path)
    assert made.stages == ["index"]
    opened = Streams(rows[::-1])
    again = opened.index(tmp_path, depth=7)
    # The digest had to be learnt, and then it is known.
    assert opened.stages == ["read"]
    opened.index(tmp_path)
    assert opened.stages == ["read"]
    expected = rankings(memory)
    assert rankings(first) == rankings(again) == expected
    assert (memory.select(TEXTS, depth=9) == first.select(TEXTS, depth=9)).all()
    assert again.parameters.depth == 7
    assert len(again.ids) == len(rows)
    assert again.ids.rows([ODD[0].doc_id, "none"]) == [300, None]
    assert again.terms_of("Zürich zzzz 12") == memory.terms_of("Zürich zzzz 12")
    assert dict(again._vocabulary.terms) == dict(memory._vocabulary.terms)
    for texts in (["red fish"], ["Zürich 12"]):
        (one,) = memory.score(texts, [memory.ids.sorted])
        (two,) = again.score(texts, [again.ids.sorted])
        assert one.tobytes() == two.tobytes()


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
    newer = Streams(rows)
    with monkeypatch.context() as patch:
        patch.setattr("Stemmer.version", lambda: "99")
        newer.index(tmp_path)
    assert newer.stages == ["index"]
    assert len(list(tmp_path.iterdir())) == 4
    few = Streams(rows[:99])
    few.index(tmp_path)
    assert few.stages == ["read", "index"]
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    "what", ["block", "terms", "short", "format", "passages", "json", "gone", "digit"]
)
def test_a_damaged_or_foreign_index_is_refused(what: str, tmp_path: Path) -> None:
    rows = list(passages(300))
    Streams(rows).index(tmp_path)
    folder = folder_in(tmp_path)
    arrays, contents = folder / "index.bin", folder / "index.json"
    facts = json.loads(contents.read_bytes())
    if what in ("block", "terms"):
        part = facts["parts"][-1 if what == "block" else 1]
        data = bytearray(arrays.read_bytes())
        data[part["begin"] + part["bytes"] // 2] ^= 1
        arrays.write_bytes(data)
    elif what == "short":
        os.truncate(arrays, arrays.stat().st_size - 8)
    elif what == "gone":
        arrays.unlink()
    elif what == "json":
        contents.write_text("[]")
    elif what == "digit":
        contents.write_text(json.dumps({**facts, "bytes": facts["bytes"] + 1}))
    else:
        contents.write_text(json.dumps(with_checksum({**facts, what: "other"})))
    expected = {
        "block": "of index.bin were changed", "terms": "of index.bin were changed",
        "short": "bytes instead of", "gone": "cannot be read", "json": "is not what was written",
        "digit": "index.json was changed",
        "format": "format is 'other', and 'msshift BM25 index 1' was expected",
        "passages": "passages is 'other'",
    }[what]  # fmt: skip
    with pytest.raises(IntegrityError, match=f"{expected}.*; delete this folder"):
        rankings(Streams(rows).index(tmp_path))


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


def test_terms_are_found_among_none_and_many() -> None:
    index = Bm25([Passage("1", "b bb bbb cc ccc dddd é ça")], Bm25Parameters(stemmer="none"))
    encoded = sorted((term.encode(), number) for term, number in index._vocabulary.terms.items())
    terms = StoredTerms(
        np.cumsum([len(term) for term, _ in encoded]),
        np.array([number for _, number in encoded], np.int32),
        np.frombuffer(b"".join(term for term, _ in encoded), np.uint8),
    )
    assert dict(terms) == dict(index._vocabulary.terms)
    assert [term in terms for term in ("", "a", "bb", "b", "zz", "ça")] == [
        False, False, True, False, False, True,
    ]  # fmt: skip
