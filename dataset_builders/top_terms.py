"""Describing a topic: its top terms, and queries from its middle.

Source: Grootendorst (2022), "BERTopic: neural topic modeling with a class-based TF-IDF procedure",
equation 4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.dataset_builders.clustering import Clustering
from msshift_bench.search import content_words

__all__ = ["example_queries", "most_central", "top_terms"]


def top_terms(
    texts_by_group: Mapping[str, Sequence[str]], count: int = 10
) -> dict[str, tuple[str, ...]]:
    """Return the words that set each group apart, the most telling first.

    A word t weighs tf(t, c) log(1 + A / f(t)) in group c, where tf(t, c) is how often it occurs
    there, f(t) how often in all groups, and A the mean number of words per group; equal weights
    are in alphabetical order. What counts as a word, `content_words` says.

    Args:
        texts_by_group: group -> the texts of its queries. Give those in no group, too, as a group
            of their own: a word stands out only against all queries.
        count: words per group at most.
    """
    words = {
        group: Counter(word for text in texts for word in content_words(text))
        for group, texts in texts_by_group.items()
    }
    total: Counter[str] = Counter()
    for counter in words.values():
        total.update(counter)
    mean = total.total() / max(len(words), 1)
    return {
        group: tuple(
            sorted(
                counter,
                # rounded, as logarithms differ in their last bit between C libraries
                key=lambda word, counter=counter: (  # type: ignore[misc]
                    -round(counter[word] * math.log1p(mean / total[word]), 6),
                    word,
                ),
            )[:count]
        )
        for group, counter in words.items()
    }


def example_queries(clustering: Clustering, count: int = 5) -> dict[str, tuple[str, ...]]:
    """Return, for each group, the queries of its native cluster with the largest margins.

    Args:
        clustering: the clustered queries.
        count: queries per group at most.

    Returns:
        Group -> query_ids, the largest margin first; equal margins in the order of the query_ids.
    """
    examples = {}
    for native, *_ in clustering.groups:
        rows = np.flatnonzero(clustering.labels == native)
        most = most_central(clustering.query_ids, clustering.margins, rows, count)
        examples[clustering.group_of(native)] = most
    return examples


def most_central(
    query_ids: Sequence[str], margins: Floats, rows: Ints, count: int = 5
) -> tuple[str, ...]:
    """Return those of some rows that have the largest margins, the largest first.

    Args:
        query_ids: the query of each row.
        margins: the margin of each row; see `nearest.assign`.
        rows: the rows to choose from; equal margins stay in their order.
        count: how many at most.
    """
    largest = rows[np.argsort(-margins[rows], kind="stable")[:count]]
    return tuple(query_ids[row] for row in largest)
