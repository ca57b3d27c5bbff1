"""From text to terms: words, without stop words, stemmed and numbered."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping

from msshift_bench.errors import require

__all__ = ["STOP_WORD_LISTS", "STEMMERS", "Vocabulary", "stemmer_version"]

STEMMERS = ("english", "none")
"""``english`` is Snowball's Porter 2."""

_LUCENE = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there
    these they this to was will with
"""

STOP_WORD_LISTS = {"english": frozenset(_LUCENE.split()), "none": frozenset[str]()}
"""Stop words by the name of their list; ``english`` are the 33 of Lucene."""

_WORD = re.compile(r"\w\w+")


def stemmer_version(stemmer: str) -> str:
    """Return the library that stems, and its version, which decides the terms; "" for ``none``.

    Raises:
        MissingExtraError: if it is not installed.
    """
    if stemmer == "none":
        return ""
    return f"PyStemmer {require('Stemmer', 'bm25', 'BM25').version()}"


class _Numbers(dict[str, int | None]):
    """Word -> term number, `None` for a stop word; a new word gets the number of its stem."""

    def __init__(self, stem: Callable[[str], str], stop_words: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(stop_words))
        self.stem = stem
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self[word] = self.terms.setdefault(self.stem(word), len(self.terms))
        return number


class Vocabulary:
    """Text to term numbers: lower-cased words of two or more letters, filtered and stemmed.

    Args:
        stemmer: one of `STEMMERS`.
        stop_words: one of `STOP_WORD_LISTS`.
        terms: the terms of an index on disk; no more can be learnt.

    Raises:
        MissingExtraError: if the stemmer is not installed.
    """

    def __init__(
        self, stemmer: str, stop_words: str, terms: Mapping[str, int] | None = None
    ) -> None:
        stem: Callable[[str], str] = str
        if stemmer == "english":
            stem = require("Stemmer", "bm25", "BM25").Stemmer("english").stemWord
        self._numbers = _Numbers(stem, STOP_WORD_LISTS[stop_words])
        self._stored = terms

    @property
    def terms(self) -> Mapping[str, int]:
        """Term -> its number."""
        return self._numbers.terms if self._stored is None else self._stored

    def learn(self, text: str) -> array[int]:
        """Return the term numbers of a passage, numbering terms that are new."""
        numbers = map(self._numbers.__getitem__, _WORD.findall(text.lower()))
        return array("i", [number for number in numbers if number is not None])

    def look_up(self, text: str) -> list[int]:
        """Return the term numbers of a query; terms that no passage has are left out."""
        numbers = []
        for word in _WORD.findall(text.lower()):
            number = self._numbers.get(word, -1)
            if number == -1:
                number = self.terms.get(self._numbers.stem(word))
            if number is not None:
                numbers.append(number)
        return numbers
