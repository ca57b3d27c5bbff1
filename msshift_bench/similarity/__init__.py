"""How near test queries lie to training queries: the indicators, one module each.

`group_similarity` compares each group of a shift with the others, `set_similarity` any two sets of
queries, and `query_similarity` each test query with a training set. `INDICATORS` is the table of
what they can compute. `count_overlap` counts the relevant passages that test and training queries
share. `CosineSearch` finds all pairs of at least a cosine, `sorted_words` is what texts of the same
words have in common. The room may use `data`, `encoders`, `output`, `plumbing`, `runs`, `search`,
`shifts`, `records`, `arrays` and `errors`.
"""

from msshift_bench.similarity.indicator_values import (
    GroupSimilarity,
    QuerySimilarity,
    group_similarity,
    query_similarity,
    set_similarity,
)
from msshift_bench.similarity.indicators import INDICATORS, Indicator, find_indicator
from msshift_bench.similarity.ingredients import IndicatorOptions, Tokenizer
from msshift_bench.similarity.label_overlap import (
    LabelOverlap,
    OverlapCount,
    TrainingLabels,
    count_overlap,
)
from msshift_bench.similarity.nearest_query import CosineSearch, product_error
from msshift_bench.similarity.query_sets import (
    GROUP_SPLITS,
    QuerySource,
    check_same_texts,
    group_queries,
    read_query_set,
)
from msshift_bench.similarity.spelling import normalise, sorted_words
from msshift_bench.similarity.text_vectors import unit_rows

__all__ = [
    "CosineSearch",
    "GROUP_SPLITS",
    "GroupSimilarity",
    "INDICATORS",
    "Indicator",
    "IndicatorOptions",
    "LabelOverlap",
    "OverlapCount",
    "QuerySimilarity",
    "QuerySource",
    "Tokenizer",
    "TrainingLabels",
    "check_same_texts",
    "count_overlap",
    "find_indicator",
    "group_queries",
    "group_similarity",
    "normalise",
    "product_error",
    "query_similarity",
    "read_query_set",
    "set_similarity",
    "sorted_words",
    "unit_rows",
]
