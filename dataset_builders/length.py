"""The length shift: short and long queries.

Source: MS-Shift (ECIR 2023), section 3.1, "Short and Long Queries".
"""

from __future__ import annotations

import math
import statistics

from msshift_bench.data import QueryColumns
from msshift_bench.errors import UnknownNameError
from msshift_bench.records import Grouping
from msshift_bench.shifts import get_shift

__all__ = ["group_by_length", "word_count"]


def word_count(text: str) -> int:
    """Return the number of words as the release of 2022 counts them: ``text.split(" ")``.

    Two spaces in a row make an empty word between them; ``text.split()`` would put four of the
    release's 6,980 test queries on the wrong side.
    """
    return text.count(" ") + 1


def group_by_length(queries: QueryColumns, rule: str = "split-space") -> Grouping:
    """Put a query into ``short`` if it has fewer words than the median query, else into ``long``.

    Args:
        queries: the queries to group; their median word count, rounded up, is the cut. On MS
            MARCO it is 6, and short is at most 5.
        rule: ``split-space`` is the only one; see `word_count`.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = get_shift("length")
    if rule not in shift.rules:
        raise UnknownNameError("length rule", rule, shift.rules)
    counts = {query_id: word_count(text) for query_id, text in queries}
    cut = math.ceil(statistics.median(counts.values())) if counts else 0
    labels = {query_id: "short" if count < cut else "long" for query_id, count in counts.items()}
    return Grouping(shift.name, labels, rule, {"cut": cut})
