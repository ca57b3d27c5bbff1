"""What must hold of every sentence above tables, whatever figures it is computed from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["check_answer"]

_CLAIM = re.compile(r"^(?:[\w-]+: )?\S+ (loses|gains|leads|trails) ")
_NAMED = re.compile(r"(most on|less than on|more than on)\b")
_DECIMAL = re.compile(r"(?<![\w.])-?(\d+\.\d+)")


def check_answer(answer: Mapping[str, Any], shown: str) -> None:
    """Check that a sentence claims no more than its figures show.

    Args:
        answer: an object of ``answers`` in the JSON of a result.
        shown: the tables that the sentence stands above.
    """
    text = answer["text"]
    assert set(_DECIMAL.findall(text)) <= set(_DECIMAL.findall(shown)), text
    if claim := _CLAIM.search(text):
        assert answer["p"] <= 0.05, text
        assert answer["low"] > 0 if claim[1] in ("loses", "leads") else answer["high"] < 0, text
    named, words = answer.get("named"), _NAMED.search(text)
    assert bool(named) == bool(words), text
    if named and words:
        assert named["p"] <= 0.05, text
        assert named["low"] > 0 if words[1] != "less than on" else named["high"] < 0, text
        assert f"on {named['group']}" in text
    assert ("one seed" in text) == (answer.get("seeds") == 1), text
    assert not (named and answer.get("seeds") == 1), text
