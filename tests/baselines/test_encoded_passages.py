from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench.baselines import encoded_passages
from msshift_bench.baselines.encoded_passages import Arrays, encode_passages
from msshift_bench.records import Passage


class _Encoder:
    """Encodes a text as its length, and remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> Arrays:
        self.texts += texts
        return {"lengths": np.array([len(text) for text in texts])}


def test_blocks_that_are_there_are_not_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded_passages, "_SIZE", 2)
    given = [Passage(name, name * length) for length, name in enumerate("abcde", 1)]
    seen: list[int] = []

    def run(items: list[Passage]) -> tuple[list[str], list[int]]:
        encoder = _Encoder()
        found = encode_passages(encoder, items, tmp_path, lambda *event: seen.append(event[1]))
        assert found.ids.ids.tolist() == [passage.doc_id for passage in items]
        assert [block.size for block in found.blocks] == [2] * (len(items) // 2) + [1]
        assert found.bytes == sum(block.path.stat().st_size for block in found.blocks)
        lengths = np.concatenate([block.load()["lengths"] for block in found.blocks])
        assert lengths.tolist() == [len(passage.text) for passage in items]
        return encoder.texts, [block.path.stat().st_mtime_ns for block in found.blocks]

    encoded, first = run(given)
    assert encoded == [passage.text for passage in given]
    assert seen == [0, 2, 4, 5]
    assert run(given) == ([], first)
    next(tmp_path.glob("00001-*")).unlink()
    assert run(given)[0] == ["ccc", "dddd"]
    assert run([*given[:4], Passage("e", "other")])[0] == ["other"]
    assert run([given[0], given[2], given[1]])[0] == ["a", "ccc", "bb"]
