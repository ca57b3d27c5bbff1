"""Texts as they were before, in files beside the tests.

What differs is meant, or it is a mistake; ``MSSHIFT_WRITE_GOLDEN=1 python -m pytest FILE`` writes
what is meant anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from msshift_bench import __version__
from msshift_bench.errors import MsShiftError

__all__ = ["WRITE", "Golden"]

WRITE = bool(os.environ.get("MSSHIFT_WRITE_GOLDEN"))

Calls = Mapping[str, Callable[[], object]]


class Golden:
    """The golden files of a folder of tests.

    Args:
        folder: where they are.
        hidden: what a text does not show -> the word that stands for it.
    """

    def __init__(self, folder: Path, hidden: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._hidden = {__version__: "VERSION", **(hidden or {})}

    def check(self, name: str, text: str) -> None:
        """Check that a text is that of a golden file, but for paths, versions and digests."""
        for part, word in self._hidden.items():
            text = text.replace(part, word)
        text = re.sub(r"\b(sha256|content)((?: [0-9a-f]{8,})+)", r"\1 DIGESTS", text)
        text = re.sub(r"[^\s']*/built-[0-9a-f]{12}/", "BUILT/", text)
        # Why, a library says in its own words.
        text = re.sub(r"(input is damaged|whole Parquet file|not CSV): [^\[\n]*", r"\1: WHY ", text)
        path = self._folder / name
        if WRITE:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    def check_refusals(self, name: str, calls: Calls) -> None:
        """Check the kind and the words of the error that each call raises.

        Args:
            name: the golden file.
            calls: what is wrong with a call -> the call.
        """
        self.check(name, "".join(f"# {wrong}\n{_refusal(call)}\n" for wrong, call in calls.items()))


def _refusal(call: Callable[[], object]) -> str:
    with pytest.raises((MsShiftError, ValueError)) as caught:
        call()
    return f"{type(caught.value).__name__}: {caught.value}"
