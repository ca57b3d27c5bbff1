"""The words of a query that say what it is about."""

from __future__ import annotations

import re

__all__ = ["STOP_WORDS", "content_words"]

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


def content_words(text: str) -> list[str]:
    """Return a text's words, lower-cased: runs of two letters or more, without stop words.

    Digits count as letters; `STOP_WORDS` lists the stop words.
    """
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]
