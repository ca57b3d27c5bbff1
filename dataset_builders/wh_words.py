"""The question-word shift: what, how, who.

Source: MS-Shift (ECIR 2023), section 3.1, "WH-Words Queries".
"""

from __future__ import annotations

import re

from msshift_bench.data import QueryColumns
from msshift_bench.errors import UnknownNameError
from msshift_bench.records import OTHERS, Grouping
from msshift_bench.shifts import get_shift

__all__ = ["WH_WORDS", "group_by_wh_word", "matching_groups"]

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
    if rule not in _PATTERNS:
        raise UnknownNameError("wh-words rule", rule, _PATTERNS)
    matches = _PATTERNS[rule].finditer(text.lower())
    return tuple(dict.fromkeys(_GROUP_OF[match[match.re.groups]] for match in matches))


def group_by_wh_word(queries: QueryColumns, rule: str = "word") -> Grouping:
    """Put every query into the group of the question word that comes first in it.

    Args:
        queries: the queries to group.
        rule: see `matching_groups`.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    labels = {
        query_id: next(iter(matching_groups(text, rule)), OTHERS) for query_id, text in queries
    }
    words = {group: list(words) for group, words in WH_WORDS.items()}
    return Grouping(get_shift("wh-words").name, labels, rule, {"words": words})
