"""Search by BM25 and by vectors, with one order of passages for all systems.

The package may use `arrays`, `libraries`, `plumbing`, `records`, `errors` and `words`.
"""

from msshift_bench.search.bm25 import Bm25, Bm25Parameters, cached_index, stemmer_version
from msshift_bench.search.query_words import content_words, normalise, sorted_words, warn_of_words
from msshift_bench.search.ranking import (
    BATCH,
    PassageIds,
    Ranking,
    Sparse,
    TopK,
    check_compiler,
    rankings_of,
    search_vectors,
)

__all__ = [
    "BATCH",
    "TopK",
    "Bm25",
    "Bm25Parameters",
    "PassageIds",
    "Ranking",
    "Sparse",
    "check_compiler",
    "content_words",
    "cached_index",
    "normalise",
    "rankings_of",
    "search_vectors",
    "sorted_words",
    "stemmer_version",
    "warn_of_words",
]
