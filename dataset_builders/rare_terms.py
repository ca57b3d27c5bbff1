"""The shift of rare terms: queries whose rarest word training has seen, and those where it has not.

No paper introduced it; docs/new-shift.md shows how it was added.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter

from msshift_bench.data import QueryColumns
from msshift_bench.errors import UnknownNameError
from msshift_bench.records import OTHERS, Grouping
from msshift_bench.search import content_words
from msshift_bench.shifts import get_shift

__all__ = ["group_by_rarest_term"]


def group_by_rarest_term(
    queries: QueryColumns, rule: str = "median", *, set_aside: frozenset[str] = frozenset()
) -> Grouping:
    """Put a query into ``rare`` if few other queries hold its rarest content word, else ``seen``.

    A word counts once for each other query that may be trained on. A query without content words
    (`search.content_words`) is in no group.

    Args:
        queries: the queries to group. The cut is the median of their counts, rounded up, and at
            least 1: ``rare`` queries lie below it.
        rule: ``median`` is the only one.
        set_aside: queries that are never trained on, so that their words do not count.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = get_shift("rare-terms")
    if rule not in shift.rules:
        raise UnknownNameError("rare-terms rule", rule, shift.rules)
    words = {query_id: set(content_words(text)) for query_id, text in queries}
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
