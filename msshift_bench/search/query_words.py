"""The words of a query: those that say what it is about, and what stays without its spelling."""

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
"""Words of queries on any subject, with question words. Single letters never count."""

_WORD = re.compile(r"\w\w+")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
_ACCENTS = re.compile("[\u0300-\u036f]")
"""The marks that Latin, Greek and Cyrillic letters carry; those of other scripts are letters."""


class _Separators(dict[int, str]):
    """A code point -> a space if it is punctuation, a separator or a control; else itself."""

    def __missing__(self, code: int) -> str:
        self[code] = " " if unicodedata.category(chr(code))[0] in "PZC" else chr(code)
        return self[code]


_SEPARATORS = _Separators()


def content_words(text: str, words: str = WHITESPACE) -> list[str]:
    """Return a text's words, lower-cased: runs of two letters or more, without stop words.

    Digits count as letters; `STOP_WORDS` lists the stop words.

    Args:
        text: the text.
        words: how it is divided into words (`WORDS`). If not by white space, a single letter beyond
            ASCII is a word, too.
    """
    text = text.lower()
    found = _WORD.findall(text) if words == WHITESPACE else find_words(text, words)
    return [w for w in found if w not in STOP_WORDS and (len(w) > 1 or not w.isascii())]


def normalise(text: str, words: str = WHITESPACE) -> str:
    """Return a text in lower case, without accents, its words separated by single spaces.

    An apostrophe between two letters goes without a trace (``what's`` is ``whats``); all other
    punctuation separates words (``1.5`` is not ``15``). Symbols such as ``+`` and ``$`` stay.
    Compatibility forms are taken apart (NFKD): full-width letters are the letters that they show.
    The result is divided by `words` (`WORDS`); unless that is white space, symbols are removed.
    """
    return " ".join(_words(text, words))


def sorted_words(text: str, words: str = WHITESPACE) -> str:
    """Return the words of `normalise` in alphabetical order; of a text without any, the text."""
    return " ".join(sorted(_words(text, words))) or text


def warn_of_words(texts: Collection[str], words: str = WHITESPACE) -> None:
    """Log a warning if `words` does not find the words of most texts.

    - One word beyond ASCII: Chinese, Japanese and Thai have no spaces between words.
    - Marks within words: in Hindi, Tamil or Bengali, bm25s' pattern ends a word at a vowel sign
      (`findings/bm25s_words_of_hindi.sh`, bm25s 0.3.16).
    """
    single = sum(not text.isascii() and len(divide(text, words).split()) == 1 for text in texts)
    if 2 * single > len(texts):
        _logger.warning(
            "%d of %d queries are one word, as without spaces between words in Chinese, Japanese "
            "or Thai: BM25, rules and similarity of words find little in them; divide them with "
            "--words characters (for a data set, when it is built; in Python, words='characters')",
            *(single, len(texts)),
        )
    elif words == WHITESPACE:
        cut = sum(
            not text.isascii() and find_words(text, "unicode") != re.findall(r"\w+", text)
            for text in texts
        )
        if 2 * cut > len(texts):
            _logger.warning(
                "%d of %d queries have marks within words, as the vowel signs of Hindi, Tamil or "
                "Bengali: BM25 and rules of words cut words there; divide them with --words "
                "unicode (for a data set, when it is built; in Python, words='unicode')",
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
