"""Words of a query: content words, normalised text, and sorted words."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Collection

from msshift_bench.words import WHITESPACE, divide, find_words

_logger = logging.getLogger(__name__)

_STOP_WORDS_TEXT = """
    about after all also am an and any are as at be because been before being between both but by
    can could definition define did do does doing done during each every for from get had has have
    having he her here hers him his how if in into is it its just like long made make many me mean
    meaning means more most much my need no not of off on one only or other our out over own per
    she should so some such take than that the their them then there these they this those through
    to too two under until up use used uses using very was we were what whats when where which
    while who whom whose why will with without would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
"""Frequent words of queries on any subject, including question words."""

_WORD = re.compile(r"\w\w+")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents of Latin, Greek and Cyrillic letters; marks of other scripts are kept."""


class _Separators(dict[int, str]):
    """Code point -> a space for punctuation, separators and controls, or else the character."""

    def __missing__(self, code: int) -> str:
        self[code] = " " if unicodedata.category(chr(code))[0] in "PZC" else chr(code)
        return self[code]


_SEPARATORS = _Separators()


def content_words(text: str, words: str = WHITESPACE) -> list[str]:
    """Return a text's lower-cased words of two or more letters or digits, without `STOP_WORDS`.

    Words are in the order of the text, repetitions included.

    Args:
        text: the text.
        words: the division into words, a name in `WORDS`. If it is not ``whitespace``, single
            letters outside ASCII are also words.
    """
    text = text.lower()
    all_words = _WORD.findall(text) if words == WHITESPACE else find_words(text, words)
    return [w for w in all_words if w not in STOP_WORDS and (len(w) > 1 or not w.isascii())]


def normalise(text: str, words: str = WHITESPACE) -> str:
    """Return a text in lower case, without accents, with single spaces between words; "" for none.

    - An apostrophe between two letters is removed: ``what's`` becomes ``whats``.
    - All other punctuation separates words: ``1.5`` becomes ``1 5``.
    - Symbols such as ``+`` and ``$`` are kept if `words` is ``whitespace``.
    - Compatibility characters are replaced (NFKD): full-width letters become normal letters.

    Args:
        text: the text.
        words: the division into words, a name in `WORDS`.
    """
    return " ".join(_words(text, words))


def sorted_words(text: str, words: str = WHITESPACE) -> str:
    """Return the words of `normalise` in alphabetical order; a text without words is unchanged."""
    return " ".join(sorted(_words(text, words))) or text


def warn_of_words(texts: Collection[str], words: str = WHITESPACE) -> None:
    """Log a warning if `words` is the wrong division for more than half of the texts.

    It warns of non-ASCII texts that are one word: Chinese, Japanese and Thai have no spaces between
    words. With `WHITESPACE` it also warns of marks within words. In Hindi, Tamil or Bengali, bm25s'
    pattern ends a word at a vowel sign (`findings/bm25s_words_of_hindi.sh`, bm25s 0.3.16).

    Args:
        texts: the texts of the queries.
        words: the division into words, a name in `WORDS`.
    """
    single = sum(not text.isascii() and len(divide(text, words).split()) == 1 for text in texts)
    if 2 * single > len(texts):
        _logger.warning(
            "%d of %d queries are a single word, e.g. in Chinese, Japanese or Thai, which have no "
            "spaces: BM25 and all counts of words do not work for them. Use --words characters "
            "(for a data set, when it is built; in Python, words='characters')",
            *(single, len(texts)),
        )
    elif words == WHITESPACE:
        cut = sum(
            not text.isascii() and find_words(text, "unicode") != re.findall(r"\w+", text)
            for text in texts
        )
        if 2 * cut > len(texts):
            _logger.warning(
                "%d of %d queries contain marks within words, e.g. vowel signs of Hindi, Tamil or "
                "Bengali: BM25 and rules cut words at these marks. Use --words unicode (for a data "
                "set, when it is built; in Python, words='unicode')",
                *(cut, len(texts)),
            )


def _words(text: str, words: str) -> list[str]:
    if "'" in text or "\u2019" in text:
        text = _APOSTROPHE.sub("", text)
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKD", text).casefold()
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return divide(text.translate(_SEPARATORS), words).split()
