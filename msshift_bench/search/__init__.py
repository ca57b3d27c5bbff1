"""Search of words and of vectors, and rankings in the order that all systems share.

It may use `plumbing`, `records` and `errors`.
"""

from msshift_bench.search.bm25 import Bm25, Bm25Parameters
from msshift_bench.search.index_cache import kept_index
from msshift_bench.search.postings import BATCH, Block, Spans, check_compiler, search_postings
from msshift_bench.search.query_words import content_words
from msshift_bench.search.ranking import EXTRA_PASSAGES, PassageIds, Ranking, rank, rankings_of
from msshift_bench.search.vectors import search_vectors
from msshift_bench.search.vocabulary import stemmer_version

__all__ = [
    "BATCH",
    "Block",
    "Bm25",
    "Bm25Parameters",
    "EXTRA_PASSAGES",
    "PassageIds",
    "Ranking",
    "Spans",
    "check_compiler",
    "content_words",
    "kept_index",
    "rank",
    "rankings_of",
    "search_postings",
    "search_vectors",
    "stemmer_version",
]
