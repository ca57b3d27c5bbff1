"""Texts that were decoded by the wrong rule, as many of MS MARCO's passages were.

Their UTF-8 bytes were once read as Latin-1, so that "don't" with a curly apostrophe reads "donâ"
and two invisible characters. ir_datasets repairs the passages of ``msmarco-passage``; most others
keep them. Scores differ a little, so every baseline says how many it met.
"""

from __future__ import annotations

import re

__all__ = ["is_double_encoded"]

_UTF8_AS_LATIN1 = re.compile(
    "[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


def is_double_encoded(text: str) -> bool:
    """Say whether a text holds characters that are the bytes of one UTF-8 character."""
    # Most texts are ASCII, which Python knows of a text without looking at it.
    return not text.isascii() and _UTF8_AS_LATIN1.search(text) is not None
