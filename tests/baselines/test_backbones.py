from __future__ import annotations

import json
import subprocess
import sys

import pytest

from msshift_bench.baselines import backbones
from msshift_bench.mini.generator import passages

pytestmark = pytest.mark.neural


def test_word_pieces_are_the_same_in_every_process() -> None:
    script = (
        "import json; from msshift_bench.baselines.backbones import learn_word_pieces; "
        "from msshift_bench.mini.generator import passages; "
        "learnt = learn_word_pieces((p.text for p in passages(600)), 1500); "
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
    tokenizer = backbones.learn_word_pieces((p.text for p in passages(100)), 800)
    for passage in passages(100):
        tokens = tokenizer.encode(passage.text).tokens
        assert "[UNK]" not in tokens
        assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
        decoded = tokenizer.decode(tokenizer.encode(passage.text).ids)
        assert decoded.replace(" ", "") == passage.text.lower().replace(" ", "")
