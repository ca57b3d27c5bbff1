"""Similarity of test queries to training queries, by indicators.

`group_similarity` compares each group of a shift with the other groups. `set_similarity` compares a
set of test queries, and each query in it, with a training set. `compare_groups` and `compare_files`
also return a `Result`. `INDICATORS` is the table of indicators. `count_overlap` counts the relevant
passages that test and training queries share. `NearestQueries` finds the nearest training queries
of test queries. This package may use `data`, `encoders`, `evaluation`, `output`, `plumbing`,
`runs`, `search`, `shifts`, `stats`, `records`, `arrays` and `errors`.
"""

from msshift_bench.similarity.indicators import (
    INDICATORS,
    Indicator,
    IndicatorOptions,
    find_indicator,
)
from msshift_bench.similarity.overlap import count_overlap, queries_by_passage, relevant_passages
from msshift_bench.similarity.query_sets import (
    GROUP_SPLITS,
    QueryColumns,
    QuerySource,
    check_same_texts,
    read_query_set,
)
from msshift_bench.similarity.values import (
    Similarity,
    compare_files,
    compare_groups,
    group_similarity,
    open_models,
    set_similarity,
    similarity_per_query,
)
from msshift_bench.similarity.vectors import (
    NearestQueries,
    TextVectors,
    embed_texts,
    product_error,
    unit_rows,
)

__all__ = [
    "GROUP_SPLITS",
    "INDICATORS",
    "Indicator",
    "IndicatorOptions",
    "NearestQueries",
    "QueryColumns",
    "QuerySource",
    "Similarity",
    "TextVectors",
    "check_same_texts",
    "compare_files",
    "compare_groups",
    "count_overlap",
    "embed_texts",
    "find_indicator",
    "group_similarity",
    "open_models",
    "product_error",
    "queries_by_passage",
    "read_query_set",
    "relevant_passages",
    "set_similarity",
    "similarity_per_query",
    "unit_rows",
]
