"""The shifts whose groups are clusters of query embeddings: `topics` and, built, `resttest`.

Topics lie far apart. Source: MS-Shift (ECIR 2023), section 3.1, "Query Topics". The three steps
are functions of their own: `kmeans.kmeans` makes clusters, `clustering.select_farthest` chooses the
five that lie farthest apart, and `clustering.grow` joins their neighbours to them.

Buckets hold every query, whether for training or for test. Source: Zhan et al., Evaluating
Interpolation and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 4.1.3.
The paper publishes neither its encoder nor its parameters, so that these buckets are others than
the released ones; see `zhan`, which imports those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Collection, Dataset, QueryColumns, sha256_of
from msshift_bench.dataset_builders.clustering import Clustering, cluster_queries, margins_summary
from msshift_bench.dataset_builders.kmeans import kmeans
from msshift_bench.dataset_builders.top_terms import example_queries, most_central, top_terms
from msshift_bench.encoders import Embeddings, EncoderSpec, choose_encoder, embed_queries
from msshift_bench.errors import DataError, IntegrityError, UnknownNameError
from msshift_bench.plumbing import Progress, silent
from msshift_bench.records import Grouping
from msshift_bench.shifts import get_shift

__all__ = [
    "ASSIGNMENTS",
    "BUCKETS",
    "Buckets",
    "CENTRES",
    "CENTROIDS",
    "PublishedTopics",
    "embed_for_groups",
    "group_by_bucket",
    "group_by_topic",
]


ASSIGNMENTS = "topics-clusters/assignments.parquet"
CENTROIDS = "topics-clusters/centroids.parquet"
"""The file of a data set that publishes the clusters of its topics."""

BUCKETS = "resttest-buckets/assignments.parquet"
CENTRES = "resttest-buckets/centroids.parquet"
"""The file of a data set that publishes the bucket of every query, and that of the centroids."""

_ITERATIONS = 100


def embed_for_groups(
    queries: QueryColumns,
    collection: Collection,
    *,
    encoder: str | None = None,
    pooling: str | None = None,
    progress: Progress = silent,
) -> Embeddings:
    """Embed queries, or take cached embeddings.

    Args:
        queries: the queries.
        collection: their collection, which decides the default encoder.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``; see `choose_encoder`.
        pooling: ``cls``, the default, ``mean``, or ``own``.
        progress: called with ``(stage, done, total)``.
    """
    name = choose_encoder(encoder, collection.layout)
    spec = EncoderSpec(name, pooling=pooling or "cls")
    return embed_queries(queries, spec, progress=progress)


def _published(dataset: Dataset, name: str) -> pa.Table:
    """Read a table that a built data set publishes beside its splits.

    Raises:
        IntegrityError: if the file is not what the manifest says.
    """
    import pyarrow.parquet as pq

    path = dataset.folder / name
    if not path.is_file() or sha256_of(path) != dataset.manifest.files.get(name):
        raise IntegrityError(f"{path} is missing or has changed since it was built")
    return pq.read_table(path)


@dataclass(frozen=True, slots=True)
class PublishedTopics:
    """The clusters of a built data set's topics.

    Attributes:
        clustering: assignments, centroids and groups.
        parameters: how they were made, from the manifest.
    """

    clustering: Clustering
    parameters: Mapping[str, Any]

    @classmethod
    def read(cls, dataset: Dataset) -> PublishedTopics:
        """Read the topics of a data set.

        Raises:
            DataError: if it holds no topics made by this package.
            IntegrityError: if the files are not what the manifest says.
        """
        manifest = dataset.manifest
        for name in (ASSIGNMENTS, CENTROIDS):
            if name not in manifest.files:
                raise DataError(
                    f"{dataset.folder} publishes no clusters ({name}); only a data set whose "
                    "topics were built by msshift does"
                )
        parameters = manifest.shifts["topics"]["parameters"]
        clustering = Clustering.from_tables(
            _published(dataset, ASSIGNMENTS),
            _published(dataset, CENTROIDS),
            parameters["clustering"],
        )
        return cls(clustering, parameters)


def group_by_topic(
    queries: QueryColumns,
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    set_aside: frozenset[str] = frozenset(),
    progress: Progress = silent,
    encoder: str | None = None,
    pooling: str | None = None,
    topic_size: int | None = None,
    published: PublishedTopics | None = None,
) -> Grouping:
    """Put queries into five topics that lie far apart; all other queries are in none.

    Args:
        queries: the queries to group.
        rule: ``k-means`` is the only one.
        collection: the queries' collection.
        seed: the seed of the first centroids.
        set_aside: queries that do not count towards a topic's size; see `cluster_queries`.
        progress: called with ``(stage, done, total)``.
        encoder: see `embed_for_groups`.
        pooling: see `embed_for_groups`.
        topic_size: queries per topic, about; see `clustering.TOPIC_SCALE_RULE`.
        published: use these clusters, and embed nothing.

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        NotFoundError: if there is no such encoder.
        DataError: if the queries are too few, or are not those of the published clusters.
    """
    shift = get_shift("topics")
    if rule not in shift.rules:
        raise UnknownNameError("topics rule", rule, shift.rules)
    if published is None:
        embeddings = embed_for_groups(
            queries,
            collection,
            encoder=encoder,
            pooling=pooling,
            progress=progress,
        )
        clustering = cluster_queries(
            embeddings.query_ids,
            embeddings.vectors,
            seed=seed,
            target=topic_size,
            set_aside=set_aside,
            progress=progress,
        )
        parameters: Mapping[str, Any] = {
            "embedding": embeddings.facts,
            "clustering": clustering.parameters,
        }
    else:
        clustering, parameters = published.clustering, published.parameters
        if clustering.query_ids != tuple(sorted(queries.ids)):
            raise DataError(
                f"the published clusters hold {len(clustering.query_ids)} queries, and "
                f"{collection.name} {len(queries)} others; give the collection they were made from"
            )
    labels = clustering.labels_by_query()
    texts: dict[str, list[str]] = {}
    for query_id, text in sorted(queries):
        texts.setdefault(labels[query_id], []).append(text)
    terms = top_terms(texts)
    assignments, centroids = clustering.to_tables()
    return Grouping(
        shift.name,
        labels,
        rule,
        {name: parameters[name] for name in ("embedding", "clustering")},
        found={
            "terms": {group: terms[group] for group in shift.groups},
            "examples": example_queries(clustering),
            "margins": margins_summary(clustering.margins),
        },
        tables={ASSIGNMENTS: assignments, CENTROIDS: centroids},
    )


@dataclass(frozen=True, slots=True)
class Buckets:
    """Queries in buckets, the largest bucket first.

    Attributes:
        query_ids: ascending.
        labels: shape (n,): the bucket of each query, from 0 on.
        margins: shape (n,), from 0 to 1; see `nearest.assign`.
        centroids: shape (k, d).
        parameters: what made them, for a manifest; JSON values.
    """

    query_ids: tuple[str, ...]
    labels: Ints
    margins: Floats
    centroids: Floats
    parameters: Mapping[str, Any]

    @classmethod
    def read(cls, dataset: Dataset) -> Buckets:
        """Read the buckets that a built data set publishes.

        Raises:
            IntegrityError: if a file is not what the manifest says.
        """
        assignments, centroids = (_published(dataset, name) for name in (BUCKETS, CENTRES))
        number = {group: place for place, group in enumerate(centroids["group"].to_pylist())}
        parameters = dataset.manifest.shifts["resttest"]["parameters"]
        return cls(
            tuple(assignments["query_id"].to_pylist()),
            np.array([number[group] for group in assignments["group"].to_pylist()], np.int64),
            assignments["margin"].to_numpy(),
            np.array(centroids["vector"].to_pylist(), np.float64),
            {name: parameters[name] for name in ("embedding", "clustering")},
        )

    def to_tables(self, groups: tuple[str, ...]) -> dict[str, pa.Table]:
        """Return path -> table: a row per query, by query_id, and a row per bucket.

        Args:
            groups: the names of the buckets.
        """
        sizes = np.bincount(self.labels, minlength=len(groups))
        return {
            BUCKETS: pa.table(
                {
                    "query_id": pa.array(self.query_ids, pa.string()),
                    "group": pa.array([groups[label] for label in self.labels], pa.string()),
                    "margin": pa.array(self.margins, pa.float64()),
                }
            ),
            CENTRES: pa.table(
                {
                    "group": pa.array(groups, pa.string()),
                    "size": pa.array(sizes, pa.int64()),
                    "vector": pa.array(self.centroids.tolist(), pa.list_(pa.float64())),
                }
            ),
        }


def group_by_bucket(
    queries: QueryColumns,
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    progress: Progress = silent,
    encoder: str | None = None,
    pooling: str | None = None,
    published: Buckets | None = None,
) -> Grouping:
    """Put every query, whether for training or for test, into one of five buckets.

    Args:
        queries: the queries to group.
        rule: ``k-means`` is the only one.
        collection: the queries' collection.
        seed: the seed of the first centroids.
        progress: called with ``(stage, done, total)``.
        encoder: see `embed_for_groups`.
        pooling: see `embed_for_groups`.
        published: use these buckets, and embed nothing.

    Returns:
        The groups ``1`` to ``5``, the bucket with most queries first.

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        NotFoundError: if there is no such encoder.
        UsageError: if there are fewer than five queries.
        DataError: if fewer than five of the vectors are distinct, or the queries are not those of
            the published buckets.
    """
    shift = get_shift("resttest")
    if rule not in shift.rules:
        raise UnknownNameError("resttest rule", rule, shift.rules)
    groups = tuple(shift.groups)
    if published is None:
        embeddings = embed_for_groups(
            queries,
            collection,
            encoder=encoder,
            pooling=pooling,
            progress=progress,
        )
        clusters = kmeans(
            embeddings.vectors,
            embeddings.query_ids,
            k=len(groups),
            iterations=_ITERATIONS,
            seed=seed,
            progress=progress,
        )
        buckets = Buckets(
            embeddings.query_ids,
            clusters.labels.astype(np.int64),
            clusters.margins,
            clusters.centroids,
            {
                "embedding": embeddings.facts,
                "clustering": {"k": len(groups), "iterations": _ITERATIONS, "seed": seed},
            },
        )
    else:
        buckets = published
        if buckets.query_ids != tuple(sorted(queries.ids)):
            raise DataError(
                f"the published buckets hold {len(buckets.query_ids)} queries, and "
                f"{collection.name} {len(queries)} others; give the collection they were made from"
            )
    members = {group: np.flatnonzero(buckets.labels == n) for n, group in enumerate(groups)}
    text_of = dict(queries)
    return Grouping(
        shift.name,
        {
            query_id: groups[label]
            for query_id, label in zip(buckets.query_ids, buckets.labels.tolist(), strict=True)
        },
        rule,
        buckets.parameters,
        found={
            "terms": top_terms(
                {
                    group: [text_of[buckets.query_ids[row]] for row in rows]
                    for group, rows in members.items()
                }
            ),
            "examples": {
                group: most_central(buckets.query_ids, buckets.margins, rows)
                for group, rows in members.items()
            },
            "margins": margins_summary(buckets.margins),
        },
        tables=buckets.to_tables(groups),
    )
