"""Division of texts into words, for scripts with and without spaces between words.

The manifest of a data set records a name in `WORDS`, which every command uses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache

from msshift_bench.errors import check_name

WHITESPACE = "whitespace"
"""The default: text is split at white space, or by a function's own pattern, e.g. in BM25."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3005-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\ua48f\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    "\U00011700-\U0001174f\U00016fe0-\U0001b2ff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, as ranges of a regular expression.

Their letters have a Line_Break class SA (Thai, Lao, Burmese, Khmer, Tai), ID or CJ (Chinese
characters, kana, bopomofo, Yi, Tangut, Nushu) in Unicode Standard Annex 14.
"""

WORDS: Mapping[str, str] = {
    WHITESPACE: r"\S+",
    "characters": rf"(?=\w)[{_UNSPACED}][\p{{M}}]*|(?:[^\W{_UNSPACED}]|[\p{{M}}])+",
    "unicode": r"[\w\p{M}]+",
}
r"""Name of a division -> regular expression of a word, in which ``\p{M}`` represents all marks.

- ``whitespace``: a word is a sequence of characters without white space.
- ``unicode``: a word is a sequence of letters, digits, marks and underscores.
- ``characters``: as ``unicode``, but each letter or digit of a script without spaces is a word,
  with its marks.
"""


@cache
def _pattern(words: str) -> re.Pattern[str]:
    check_name("words", words, WORDS)
    # Marks above U+1FFFF only select the shape of a letter.
    marks = "".join(c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c)[0] == "M")
    return re.compile(WORDS[words].replace(r"\p{M}", marks))


def find_words(text: str, words: str) -> list[str]:
    """Return the words of a text, in their order.

    Args:
        text: the text.
        words: a name in `WORDS`.

    Raises:
        UnknownNameError: if the name is not in `WORDS`.

    Examples:
        >>> find_words("iPhone 15多少钱?", "characters")
        ['iPhone', '15', '多', '少', '钱']
        >>> find_words("iPhone 15多少钱?", "unicode")
        ['iPhone', '15多少钱']
    """
    return _pattern(words).findall(text)


def divide(text: str, words: str) -> str:
    """Return a text with single spaces between its words; ``whitespace`` returns it unchanged.

    Raises:
        UnknownNameError: if `words` is not in `WORDS`.
    """
    return text if words == WHITESPACE else " ".join(find_words(text, words))


def words_of(facts: Mapping[str, object]) -> str:
    """Return the name in `WORDS` that the facts of a manifest contain, or else the default."""
    return str(facts.get("words", WHITESPACE))


def words_fact(words: str) -> dict[str, str]:
    """Return the fact ``words`` for a manifest or an identity; `{}` for the default.

    So data sets and systems that were made before this option keep their digests.
    """
    return {} if words == WHITESPACE else {"words": words}
