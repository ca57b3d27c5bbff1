"""Make topics from queries: embed, cluster, select, grow, describe.

Source: MS-Shift (ECIR 2023), section 3.1, "Query Topics": (i) k-means with k = 100, (ii) the five
clusters that maximise the sum of pairwise distances between their centroids, (iii) "expand those
five native clusters by joining nearest clusters, until we have groups of about 25k queries
(without overlap)". Each step is a function: `kmeans`, `select_farthest` and `grow_groups`.

A topic is described by its top terms and its most central queries. Source: Grootendorst (2022),
"BERTopic: neural topic modeling with a class-based TF-IDF procedure", equation 4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection as Sized, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Collection
from msshift_bench.dataset_builders.kmeans import kmeans, squared_distances
from msshift_bench.encoders import Embeddings, EncoderSpec, choose_encoder, embed_queries
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.plumbing import report_progress
from msshift_bench.records import OTHERS
from msshift_bench.search import content_words

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""The clusters of each group of queries."""

TARGET = 31_200
"""Queries at which a topic stops growing: 25,000 for training and 6,200 for test.

MS-Shift, section 3.1, has "about 25k" queries per group and "about 100k" training queries in four
groups. Its first version has about 30k per group, cut into 26,000 and 6,200. 31,200 keeps the 100k.
"""

_TARGET_SHARE = 8
_MEAN_CLUSTER = 20
_FEWEST_QUERIES = 100
_PARAMETERS = ("k", "iterations", "seed", "target", "groups")

_MOST = 90
"""The most clusters that `select_farthest` can choose."""
_HEADROOM = 13
"""Unused bits of pairwise distances, so that the entries of a 90 x 90 matrix sum exactly."""

TOPIC_SCALE_RULE = (
    f"clusters: at most 1 per {_MEAN_CLUSTER} queries; "
    f"target: by default at most 1/{_TARGET_SHARE} of the queries per topic, "
    "without validation queries"
)
"""The rule that scales k and the target down for collections smaller than MS MARCO, as text."""

ASSIGNMENTS_SCHEMA = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("margin", pa.float64(), nullable=False),
    ]
)
"""One row per query, sorted by query_id."""

CENTROIDS_SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.int32(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("native", pa.bool_(), nullable=False),
        pa.field("joined", pa.int32(), nullable=False),
        pa.field("vector", pa.list_(pa.field("element", pa.float64())), nullable=False),
    ]
)
"""One row per cluster, by number; ``joined``: its position in its group (0 = native), or -1.

A cluster in no group has -1 and the group `OTHERS`.
"""


def embed_for_groups(
    queries: Mapping[str, str],
    collection: Collection,
    *,
    encoder: str | EncoderSpec | None = None,
    pooling: str | None = None,
    words: str = "whitespace",
) -> Embeddings:
    """Return the embeddings of queries, sorted by query_id; cached embeddings are read.

    The errors are as in `embed_queries`.

    Args:
        queries: query_id -> text.
        collection: the queries' collection, which determines the default encoder.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``; or an `EncoderSpec` with
            settings; see `choose_encoder`.
        pooling: the pooling of an encoder given by name: ``cls``, the default, ``mean`` or ``own``.
        words: how ``terms`` divides texts into words (`WORDS`).
    """
    return embed_queries(
        queries, choose_encoder(encoder, collection.layout, pooling=pooling, words=words)
    )


def grow_groups(
    centroids: Floats, sizes: Sequence[int] | Ints, natives: Sequence[int], target: int
) -> Groups:
    """Grow groups from their native clusters until each has at least `target` queries.

    At each step, the group with the fewest queries gets another cluster (ties: the first group). It
    is the free cluster whose centroid is nearest to the centroid of the group's *native* cluster
    (ties: the lowest number). The paper does not define whether "nearest" refers to the native
    cluster or to the grown group; with the native cluster, a group keeps its topic.

    Args:
        centroids: shape (k, d).
        sizes: number of queries per cluster that count towards the target.
        natives: distinct clusters, at least one; they become C0, C1, ... in ascending order.
        target: queries at which a group stops growing.

    Returns:
        The clusters of each group in the order in which they joined, the native cluster first.

    Raises:
        DataError: if no cluster is left and a group is still below the target.
    """
    order = np.arange(len(centroids))
    groups = [[native] for native in sorted(natives)]
    counts = [int(sizes[native]) for native in sorted(natives)]
    free = set(range(len(centroids))) - set(natives)
    nearest_first = [
        np.argsort(
            squared_distances(centroids, order, centroids, np.full_like(order, group[0])),
            kind="stable",
        ).tolist()
        for group in groups
    ]
    while min(counts) < target:
        smallest = counts.index(min(counts))
        joining = next((cluster for cluster in nearest_first[smallest] if cluster in free), None)
        if joining is None:
            raise DataError(
                f"topics: all {len(centroids)} clusters are used, but group C{smallest} has only "
                f"{counts[smallest]:,} of {target:,} queries; give a smaller topic size"
            )
        free.remove(joining)
        groups[smallest].append(joining)
        counts[smallest] += int(sizes[joining])
    return tuple(tuple(group) for group in groups)


@dataclass(frozen=True)
class Clustering:
    """Clustered queries, and the groups of clusters that form topics.

    Attributes:
        query_ids: the ids, ascending.
        labels: shape (n,): the cluster of each query.
        margins: shape (n,), from 0 to 1; see `kmeans.assign`.
        centroids: shape (k, d).
        groups: the clusters of each group, the native first; see `grow_groups`.
        parameters: scaled ``k`` and ``target``, the most ``iterations``, the ``seed`` and the
            number of ``groups``. ReSTTest's buckets have no ``target`` and ``groups``.
        names: the names of the groups, in the same order.
        embedding: the encoder and the settings that made the vectors; JSON values.
    """

    query_ids: tuple[str, ...]
    labels: NDArray[np.int32]
    margins: Floats
    centroids: Floats
    groups: Groups
    parameters: Mapping[str, int]
    names: tuple[str, ...]
    embedding: Mapping[str, Any]

    @cached_property
    def sizes(self) -> Ints:
        """The number of queries of each cluster, shape (k,)."""
        return np.bincount(self.labels, minlength=len(self.centroids))

    @cached_property
    def _group_of(self) -> list[str]:
        """The group of each cluster, or `OTHERS`."""
        members = zip(self.names, self.groups, strict=True)
        groups = {cluster: name for name, clusters in members for cluster in clusters}
        return [groups.get(cluster, OTHERS) for cluster in range(len(self.centroids))]

    def labels_by_query(self) -> dict[str, str]:
        """Return query_id -> its group; `OTHERS` for queries in no group."""
        groups = (self._group_of[label] for label in self.labels.tolist())
        return dict(zip(self.query_ids, groups, strict=True))

    def to_tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the tables of assignments (`ASSIGNMENTS_SCHEMA`) and of centroids."""
        joined = np.full(len(self.centroids), -1, np.int32)
        for clusters in self.groups:
            joined[list(clusters)] = np.arange(len(clusters))
        assignments = pa.table(
            [
                list(self.query_ids),
                self.labels,
                list(self.labels_by_query().values()),
                self.margins,
            ],
            schema=ASSIGNMENTS_SCHEMA,
        )
        centroids = pa.table(
            [
                np.arange(len(self.centroids), dtype=np.int32),
                self.sizes,
                self._group_of,
                joined == 0,
                joined,
                list(self.centroids),
            ],
            schema=CENTROIDS_SCHEMA,
        )
        return assignments, centroids

    @classmethod
    def from_tables(
        cls,
        assignments: pa.Table,
        centroids: pa.Table,
        parameters: Mapping[str, int],
        embedding: Mapping[str, Any],
    ) -> Clustering:
        """Return the clustering from the two tables of `to_tables`.

        Raises:
            IntegrityError: if `to_tables` of this clustering gives other tables, or a value is out
                of range.
        """
        summary, fix = (
            "topics: the tables of assignments and centroids are not of one clustering",
            "download or build the data set again",
        )
        try:
            columns = (centroids[name].to_pylist() for name in ("joined", "cluster", "group"))
            joined, names = sorted(zip(*columns, strict=True)), _names_of(parameters["groups"])
            clustering = cls(
                tuple(assignments["query_id"].to_pylist()),
                assignments["cluster"].to_numpy(),
                assignments["margin"].to_numpy(),
                np.array(centroids["vector"].to_pylist(), np.float64),
                tuple(tuple(row[1] for row in joined if row[2] == name) for name in names),
                {name: parameters[name] for name in _PARAMETERS},
                names,
                embedding,
            )
            expected_tables = clustering.to_tables()
            wrong = [
                f"{name} of the {source}"
                for source, table, expected in zip(
                    ("assignments", "centroids"),
                    (assignments, centroids),
                    expected_tables,
                    strict=True,
                )
                for name in expected.column_names
                if not table[name].equals(expected[name])
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise IntegrityError(f"{summary}: {error}; {fix}") from None
        if len(centroids) != parameters["k"]:
            wrong.append(f"k of the parameters, {parameters['k']}")
        if wrong:
            raise IntegrityError(f"{summary}: other columns contradict {', '.join(wrong)}; {fix}")
        ids, margins = clustering.query_ids, clustering.margins
        in_range = ((margins >= 0) & (margins <= 1)).all() and np.isfinite(clustering.centroids)
        if not np.all(in_range) or any(first >= second for first, second in pairwise(ids)):
            raise IntegrityError(
                f"{summary}: query_ids must ascend, margins be from 0 to 1, and vectors be finite; "
                f"{fix}"
            )
        return clustering


def pairwise_distances(centroids: Floats) -> Floats:
    """Return the rounded Euclidean distances between all centroids, shape (k, k).

    They are rounded to multiples of a power of two, about 2^-40 of the largest distance. So sums of
    up to 90 x 90 are exact in any order, and smaller differences between subsets are ties.
    """
    k = len(centroids)
    first, second = np.triu_indices(k, 1)
    distances = np.zeros((k, k))
    distances[first, second] = np.sqrt(squared_distances(centroids, first, centroids, second))
    _, exponent = np.frexp(distances.max())
    step = np.ldexp(1.0, int(exponent) + _HEADROOM - 53)
    rounded: Floats = np.rint(distances / step) * step
    return rounded + rounded.T


def select_farthest(centroids: Floats, count: int = 5) -> tuple[int, ...]:
    """Return the `count` clusters that maximise the sum of their pairwise distances.

    The search is depth-first over ascending subsets, in lexicographic order. A prefix of a subset
    is skipped if an upper bound on its sum does not exceed the best sum so far. For r missing
    clusters, the bound adds the r largest sums of distances from a later cluster to the prefix. It
    also adds r (r - 1) / 2 times the largest distance between two later clusters. All
    sums are exact; see `pairwise_distances`.

    Args:
        centroids: shape (k, d), finite.
        count: number of clusters to choose, at most 90.

    Returns:
        The clusters, ascending; among ties, the lexicographically smallest subset.

    Raises:
        UsageError: if there are fewer than `count` clusters, or `count` is out of range.
    """
    k = len(centroids)
    if not 1 <= count <= min(k, _MOST):
        raise UsageError(
            f"number of clusters to choose must be from 1 to {min(k, _MOST)}, got {count} of {k}"
        )
    distances = pairwise_distances(centroids)
    # Pairs in ascending order only.
    pairs = np.where(np.tri(k, dtype=bool), -np.inf, distances)
    largest = [float(distances[start:, start:].max()) for start in range(k)]
    best, best_sum = tuple(range(count)), -1.0

    def extend(prefix: tuple[int, ...], base: float, gains: Floats) -> None:
        """Search the subsets with this prefix; `gains`: each cluster's distances to the prefix."""
        nonlocal best, best_sum
        start = prefix[-1] + 1 if prefix else 0
        missing = count - len(prefix)
        last = gains[start:]
        if missing > 1:
            # Most calls have two missing clusters; twice the largest gain is a faster bound there.
            bound = base + (np.sort(last)[-missing:].sum() if missing > 2 else 2 * last.max())
            if bound + missing * (missing - 1) // 2 * largest[start] <= best_sum:
                return
        if missing > 2:
            for cluster in range(start, k - missing + 1):
                extend((*prefix, cluster), base + gains[cluster], gains + distances[cluster])
                if not prefix:
                    report_progress("selection", cluster + 1, k - count + 1)
            return
        sums = last if missing == 1 else pairs[start:, start:] + last + last[:, np.newaxis]
        place = sums.argmax()
        if base + sums.flat[place] > best_sum:
            best_sum = float(base + sums.flat[place])
            best = (*prefix, *(start + int(index) for index in np.unravel_index(place, sums.shape)))

    extend((), 0.0, np.zeros(k))
    return best


def cluster_queries(
    embeddings: Embeddings,
    *,
    k: int = 100,
    iterations: int = 25,
    seed: int = 0,
    target: int | None = None,
    groups: int = 5,
    set_aside: Sized[str] = frozenset(),
) -> Clustering:
    """Return topics, made from embeddings by all three steps.

    Args:
        embeddings: the queries' vectors.
        k: number of clusters; scaled down by `TOPIC_SCALE_RULE`.
        iterations: the most moves of the centroids in k-means.
        seed: the seed of k-means.
        target: queries per group; by default `TARGET`, scaled down by `TOPIC_SCALE_RULE`.
        groups: number of groups.
        set_aside: queries that are clustered but do not count towards the target: validation
            queries and given test queries.

    Raises:
        UsageError: if `target` or `iterations` is below 1, or `groups` is not from 2 to k, or is
            above 90.
        DataError: if there are fewer than 100 queries, too few for the groups to grow, or too few
            distinct vectors.
    """
    query_ids = embeddings.query_ids
    if len(query_ids) < _FEWEST_QUERIES:
        raise DataError(
            f"topics: the collection has {len(query_ids)} usable queries, expected at least "
            f"{_FEWEST_QUERIES}; build only other shifts, or give a larger collection"
        )
    k = min(k, len(query_ids) // _MEAN_CLUSTER)
    counting = np.array([query_id not in set_aside for query_id in query_ids])
    if target is not None and target < 1:
        raise UsageError(f"topics: topic size must be at least 1 query, got {target}")
    if target is None:
        target = min(TARGET, int(counting.sum()) // _TARGET_SHARE)
    if not 2 <= groups <= k:
        raise UsageError(f"topics: groups must be from 2 to k = {k}, got {groups}")
    clusters = kmeans(embeddings.vectors, query_ids, k=k, iterations=iterations, seed=seed)
    natives = select_farthest(clusters.centroids, groups)
    sizes = np.bincount(clusters.labels[counting], minlength=k)
    return Clustering(
        query_ids,
        clusters.labels,
        clusters.margins,
        clusters.centroids,
        grow_groups(clusters.centroids, sizes, natives, target),
        dict(zip(_PARAMETERS, (k, iterations, seed, target, groups), strict=True)),
        _names_of(groups),
        embeddings.facts,
    )


def margins_summary(margins: Floats) -> dict[str, float]:
    """Return ``median``, the median margin, and ``share below 1e-4`` (1e-3, 1e-2) of the queries.

    Without margins all values are nan.
    """
    bounds = ("1e-4", "1e-3", "1e-2")
    shares = {f"share below {bound}": float((margins < float(bound)).mean()) for bound in bounds}
    return {"median": float(np.median(margins)), **shares}


def _names_of(groups: int) -> tuple[str, ...]:
    return tuple(f"C{number}" for number in range(groups))


def top_terms(
    texts_by_group: Mapping[str, Sequence[str]], count: int = 10, *, words: str = "whitespace"
) -> dict[str, tuple[str, ...]]:
    """Return the most characteristic words of each group: group -> words, the highest weight first.

    The weight of a word t in group c is tf(t, c) log(1 + A / f(t)). tf(t, c) is its frequency in
    the group, f(t) its frequency in all groups, and A the mean number of words per group. Ties are
    in alphabetical order. Only content words count (`content_words`); a group without any has `()`.

    Args:
        texts_by_group: group -> the texts of its queries. Queries without a group should form one
            more group, because weights compare a group with all queries.
        count: the most words per group.
        words: how texts are divided into words (`WORDS`).
    """
    counts = {
        group: Counter(word for text in texts for word in content_words(text, words))
        for group, texts in texts_by_group.items()
    }
    total = sum(counts.values(), Counter[str]())
    mean = total.total() / max(len(counts), 1)
    ranked = {
        group: sorted(
            # Rounded, as logarithms differ in their last bit between C libraries.
            (-round(times * math.log1p(mean / total[word]), 6), word)
            for word, times in counter.items()
        )
        for group, counter in counts.items()
    }
    return {group: tuple(word for _, word in pairs[:count]) for group, pairs in ranked.items()}


def most_central(
    query_ids: Sequence[str], margins: Floats, rows: Ints, count: int = 5
) -> tuple[str, ...]:
    """Return the ids of the queries with the largest margins, the largest first.

    Args:
        query_ids: the query of each row.
        margins: the margin of each row; see `kmeans.assign`.
        rows: the row numbers to choose from; equal margins stay in the order of `rows`.
        count: the most ids to return.
    """
    return tuple(query_ids[row] for row in rows[np.argsort(-margins[rows], kind="stable")[:count]])
