"""The test-only shift of typing errors: one edit in one word of a query.

The rule is that of CharacterBERT-DR (Zhuang and Zuccon, SIGIR 2022; ``data/make_typo_queries.py``
of ielab/CharacterBERT-DR), which makes its edits with TextAttack 0.3.4 (Morris et al., EMNLP 2020).
Every word of at least `SHORTEST` characters that is no stop word offers one random edit of each
kind, and one of all these is taken. Ours differs in two points: upstream lower-cases the query,
too, which nearly all of MS MARCO's are; and its draws cannot be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msshift_bench.dataset_builders.keyed_draws import KeyedDraws

__all__ = ["EDITS", "LETTERS", "NEIGHBOURS", "SHORTEST", "Word", "misspell", "words_to_misspell"]

SHORTEST = 3
"""The length of the shortest words that are edited, in characters."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The letters that are typed by mistake."""

# NLTK's English list, as upstream has it.
_STOP_WORDS_TEXT = """
    i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself
    yourselves he him his himself she she's her hers herself it it's its itself they them their
    theirs themselves what which who whom this that that'll these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until
    while of at by for with about against between into through during before after above below
    to from up down in out on off over under again further then once here there when where why
    how all any both each few more most other some such no nor not only own same so than too
    very s t can will just don don't should should've now d ll m o re ve y ain aren aren't
    couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't haven haven't isn isn't
    ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't
    weren weren't won won't wouldn wouldn't
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())

NEIGHBOURS: Mapping[str, str] = MappingProxyType(
    {
        "q": "was", "w": "qeasd", "e": "wsdfr", "r": "edfgt", "t": "rfghy", "y": "tghju",
        "u": "yhjki", "i": "ujklo", "o": "iklp", "p": "ol", "a": "qwszx", "s": "qweadzx",
        "d": "werfcxs", "f": "ertgvcd", "g": "rtyhbvd", "h": "tyugjbn", "j": "yuikmnh",
        "k": "uiolmj", "l": "iopk", "z": "asx", "x": "sdzc", "c": "xdfv", "v": "cfgb",
        "b": "vghn", "n": "bhjm", "m": "njk",
    }
)  # fmt: skip
"""Letter -> the keys beside it on a QWERTY keyboard, as upstream has them (``g`` lacks ``f``)."""

# Apostrophes and the like belong to a word, unless they begin it.
_WORD = re.compile(r"(?<![\w'*@-])[-'_*@]*((?:(?![-'_*@])\w)[\w'*@-]*)")


class Word(NamedTuple):
    """A word of a text, and its place."""

    start: int
    text: str


def words_to_misspell(text: str) -> list[Word]:
    """Return the words of a query that may be edited: long enough, and no stop words."""
    found = (Word(match.start(1), match[1]) for match in _WORD.finditer(text))
    return [
        word
        for word in found
        if len(word.text) >= SHORTEST and word.text.lower() not in _STOP_WORDS
    ]


def _swap(word: str, draws: KeyedDraws) -> str:
    place = draws.below(len(word) - 1)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _delete(word: str, draws: KeyedDraws) -> str:
    place = draws.below(len(word))
    return word[:place] + word[place + 1 :]


def _insert(word: str, draws: KeyedDraws) -> str:
    place = draws.below(len(word))
    return word[:place] + draws.choose(LETTERS) + word[place:]


def _substitute(word: str, draws: KeyedDraws) -> str:
    place = draws.below(len(word))
    return word[:place] + draws.choose(LETTERS) + word[place + 1 :]


def _hit_neighbour(word: str, draws: KeyedDraws) -> str:
    place = draws.below(len(word))
    typed = draws.choose(NEIGHBOURS.get(word[place].lower(), LETTERS))
    return word[:place] + typed + word[place + 1 :]


EDITS: Mapping[str, Callable[[str, KeyedDraws], str]] = MappingProxyType(
    {
        "swap": _swap,
        "delete": _delete,
        "insert": _insert,
        "substitute": _substitute,
        "neighbour": _hit_neighbour,
    }
)
"""Kind of edit -> the function that makes one: two neighbouring letters change places, a letter is
left out, one is typed too many, another one is typed, or that of a neighbouring key."""


def misspell(text: str, draws: KeyedDraws) -> str:
    """Return a query with one typing error; the text itself if no word may be edited.

    Args:
        text: the query's text.
        draws: what decides the edit.
    """
    words = words_to_misspell(text)
    if not words:
        return text
    # Edits that give the same text count once, as upstream.
    offered: dict[str, None] = {}
    for word in words:
        end = word.start + len(word.text)
        for edit in EDITS.values():
            edited = edit(word.text, draws)
            if edited.lower() != word.text.lower():
                offered[text[: word.start] + edited + text[end:]] = None
    return draws.choose(list(offered))
