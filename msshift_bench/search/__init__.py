"""Lexical search, the words that it rests on, and rankings in the order that all systems share.

It may use `plumbing`, `records` and `errors`.
"""

from msshift_bench.search.bm25 import BATCH, Bm25, Bm25Parameters
from msshift_bench.search.query_words import content_words
from msshift_bench.search.ranking import EXTRA_PASSAGES, PassageIds, Ranking, rank

__all__ = [
    "BATCH",
    "Bm25",
    "Bm25Parameters",
    "EXTRA_PASSAGES",
    "PassageIds",
    "Ranking",
    "content_words",
    "rank",
]
