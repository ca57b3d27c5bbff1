"""The shifts whose groups follow from the texts: length, question word, rarest term.

Source: MS-Shift (ECIR 2023), section 3.1, "Short and Long Queries" and "WH-Words Queries". No paper
introduced rare terms; docs/new-shift.md shows how they were added.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping

from msshift_bench.errors import UnknownNameError
from msshift_bench.records import OTHERS, Grouping
from msshift_bench.search import content_words
from msshift_bench.shifts import SHIFTS, SIZED, Shift


def shift_of_rule(name: str, rule: str) -> Shift:
    """Return the shift called `name`, if it has the rule.

    Raises:
        UnknownNameError: if it has not.
    """
    shift = SHIFTS.get(name) or SIZED[name]
    if rule not in shift.rules:
        raise UnknownNameError(f"{name} rule", rule, shift.rules)
    return shift


def word_count(text: str) -> int:
    """Return the number of words as the release of 2022 counts them: ``text.split(" ")``.

    Two spaces in a row make an empty word between them; ``text.split()`` would put four of the
    release's 6,980 test queries on the wrong side.
    """
    return text.count(" ") + 1


def group_by_length(queries: Mapping[str, str], rule: str = "split-space") -> Grouping:
    """Put a query into ``short`` if it has fewer words than the median query, else into ``long``.

    Args:
        queries: the queries to group, query_id -> text; their median word count, rounded up, is the
            cut. On MS MARCO it is 6, and short is at most 5.
        rule: ``split-space`` is the only one; see `word_count`.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = shift_of_rule("length", rule)
    counts = {query_id: word_count(text) for query_id, text in queries.items()}
    cut = math.ceil(statistics.median(counts.values())) if counts else 0
    labels = {query_id: "short" if count < cut else "long" for query_id, count in counts.items()}
    return Grouping(shift.name, labels, rule, {"cut": cut})


WH_WORDS = {
    "wha": ("what", "definition"),
    "how": ("how",),
    "who": ("who", "when", "where", "which"),
}
"""The fixed lists of the paper: group -> its question words."""

_GROUP_OF = {word: group for group, words in WH_WORDS.items() for word in words}
_ALTERNATIVES = "|".join(sorted(_GROUP_OF, key=len, reverse=True))
# A word is a maximal run of letters and digits: "what's" holds "what", "whats" and "show" do not.
_PATTERNS = {
    "word": re.compile(rf"(?<![^\W_])(?:{_ALTERNATIVES})(?![^\W_])"),
    # The lookahead consumes nothing, so that overlapping words are all found.
    "substring": re.compile(rf"(?=({_ALTERNATIVES}))"),
}


def matching_groups(text: str, rule: str = "word") -> tuple[str, ...]:
    """Return the groups whose question words stand in `text`, the first to occur first.

    Args:
        text: a query's text; case does not matter.
        rule: ``word`` takes whole words, as the paper's text says; ``substring`` finds "how" in
            "show", as the release of 2022 did.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift_of_rule("wh-words", rule)
    matches = _PATTERNS[rule].finditer(text.lower())
    return tuple(dict.fromkeys(_GROUP_OF[match[match.re.groups]] for match in matches))


def group_by_wh_word(queries: Mapping[str, str], rule: str = "word") -> Grouping:
    """Put every query into the group of the question word that comes first in it.

    Args:
        queries: the queries to group, query_id -> text.
        rule: see `matching_groups`.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    labels = {
        query_id: next(iter(matching_groups(text, rule)), OTHERS)
        for query_id, text in queries.items()
    }
    words = {group: list(words) for group, words in WH_WORDS.items()}
    return Grouping("wh-words", labels, rule, {"words": words})


def group_by_rarest_term(
    queries: Mapping[str, str], rule: str = "median", *, set_aside: frozenset[str] = frozenset()
) -> Grouping:
    """Put a query into ``rare`` if few other queries hold its rarest content word, else ``seen``.

    A word counts once for each other query that may be trained on. A query without content words
    (`search.content_words`) is in no group.

    Args:
        queries: the queries to group, query_id -> text. The cut is the median of their counts,
            rounded up, and at least 1: ``rare`` queries lie below it.
        rule: ``median`` is the only one.
        set_aside: queries that are never trained on, so that their words do not count.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = shift_of_rule("rare-terms", rule)
    words = {query_id: set(content_words(text)) for query_id, text in queries.items()}
    held = Counter(
        word for query_id, own in words.items() if query_id not in set_aside for word in own
    )
    counts = {
        query_id: min(held[word] for word in own) - (query_id not in set_aside)
        for query_id, own in words.items()
        if own
    }
    cut = max(1, math.ceil(statistics.median(counts.values()))) if counts else 1
    labels = dict.fromkeys(words, OTHERS)
    labels.update((q, "rare" if count < cut else "seen") for q, count in counts.items())
    return Grouping(shift.name, labels, rule, {"cut": cut})
