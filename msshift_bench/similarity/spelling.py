"""What stays of a text without case, punctuation, spaces and accents."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["normalise", "sorted_words"]

_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
_ACCENTS = re.compile("[\u0300-\u036f]")
"""The marks that Latin, Greek and Cyrillic letters carry; those of other scripts are letters."""


class _Separators(dict[int, str]):
    """A code point -> a space if it is punctuation, a separator or a control; else itself."""

    def __missing__(self, code: int) -> str:
        kind = unicodedata.category(chr(code))
        self[code] = " " if kind[0] in "PZC" else chr(code)
        return self[code]


_SEPARATORS = _Separators()


def normalise(text: str) -> str:
    """Return a text in lower case, without accents, its words separated by single spaces.

    An apostrophe between two letters goes without a trace (``what's`` is ``whats``); all other
    punctuation separates words (``1.5`` is not ``15``). Symbols such as ``+`` and ``$`` stay.
    Compatibility forms are taken apart (NFKD): full-width letters are the letters that they show.
    """
    return " ".join(_words(text))


def sorted_words(text: str) -> str:
    """Return the words of `normalise` in alphabetical order; of a text without any, the text."""
    return " ".join(sorted(_words(text))) or text


def _words(text: str) -> list[str]:
    if "'" in text or "\u2019" in text:
        text = _APOSTROPHE.sub("", text)
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKD", text).casefold()
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return text.translate(_SEPARATORS).split()
