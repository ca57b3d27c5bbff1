from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.baselines import encoders
from msshift_bench.baselines.encoders import encode_passages
from msshift_bench.mini import passages
from msshift_bench.records import Passage

pytestmark = pytest.mark.neural


def test_word_pieces_are_the_same_in_every_process() -> None:
    script = (
        "import json; from msshift_bench.baselines.encoders import _learn_word_pieces; "
        "from msshift_bench.mini import passages; "
        "learnt = _learn_word_pieces((p.text for p in passages(600)), 1500); "
        "print(json.dumps(learnt.get_vocab(), sort_keys=True))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100
        ).stdout
        for _ in range(3)
    }
    assert len(found) == 1
    vocabulary = json.loads(found.pop())
    assert len(vocabulary) == 1500
    assert sorted(vocabulary.values()) == list(range(1500))


def test_word_pieces_cover_what_they_were_learnt_from() -> None:
    tokenizer = encoders._learn_word_pieces((p.text for p in passages(100)), 800)
    for passage in passages(100):
        tokens = tokenizer.encode(passage.text).tokens
        assert "[UNK]" not in tokens
        assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
        decoded = tokenizer.decode(tokenizer.encode(passage.text).ids)
        assert decoded.replace(" ", "") == passage.text.lower().replace(" ", "")


class _Model:
    """Encodes a text as its length, and counts what it is given."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_document(self, texts: list[str], **_: object) -> np.ndarray:
        self.encoded += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def test_blocks_that_are_there_are_not_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "_SHARD", 2)
    given = [Passage(name, name * length) for length, name in enumerate("abcde", 1)]
    seen: list[int] = []

    def run(items: list[Passage]) -> tuple[list[str], list[list[float]]]:
        model = _Model()
        doc_ids, files = encode_passages(
            model, items, tmp_path, batch_size=1, progress=lambda *event: seen.append(event[1])
        )
        assert doc_ids == [passage.doc_id for passage in items]
        vectors = np.concatenate([np.load(file) for file in files])
        assert vectors[:, 0].tolist() == [len(passage.text) for passage in items]
        return model.encoded, [np.load(file).tolist() for file in files]

    encoded, first = run(given)
    assert encoded == [passage.text for passage in given]
    assert seen == [2, 4, 5]
    assert run(given) == ([], first)
    next(tmp_path.glob("00001-*")).unlink()
    assert run(given) == (["ccc", "dddd"], first)
    changed = [*given[:4], Passage("e", "other")]
    assert run(changed)[0] == ["other"]
    assert run([given[0], given[2], *given[1:2]])[0] == ["a", "ccc", "bb"]
