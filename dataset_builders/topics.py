"""The shifts whose groups are clusters of query embeddings: `topics` and, built, `resttest`.

Topics lie far apart. Source: MS-Shift (ECIR 2023), section 3.1, "Query Topics". The three steps
are functions of their own: `kmeans.kmeans` makes clusters, `clusters.select_farthest` chooses the
five that lie farthest apart, and `clusters.grow` joins their neighbours to them.

Buckets hold every query, whether for training or for test. Source: Zhan et al., Evaluating
Interpolation and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 4.1.3.
The paper publishes neither its encoder nor its parameters, so that these buckets are others than
the released ones; see `zhan`, which reads those.

Published topics are checked in three ways. `replay_topics` computes nothing in floating point, so
it gives the same rows on every machine. `verify_topics` embeds the queries again and assigns them
to the published centroids: noise may move a query only if two centroids are almost equally near.
`retrain_topics` repeats everything. It gives the same clusters if the embeddings are the same
bytes; if they are not, every iteration of k-means amplifies the noise, and nothing is promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import (
    Collection,
    Dataset,
    Manifest,
    open_dataset,
    sha256_of,
)
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.clusters import (
    Clustering,
    cluster_queries,
    embed_for_groups,
    margins_summary,
    most_central,
    top_terms,
)
from msshift_bench.dataset_builders.cut import ids_and_texts, queries_table, sample_validation
from msshift_bench.dataset_builders.groups import shift_of_rule
from msshift_bench.dataset_builders.kmeans import assign, kmeans
from msshift_bench.encoders import Embeddings
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.records import Grouping
from msshift_bench.shifts import SHIFTS, holds_triples

__all__ = [
    "ASSIGNMENTS",
    "CENTROIDS",
    "Buckets",
    "PublishedTopics",
    "group_by_bucket",
    "group_by_topic",
    "replay_topics",
    "retrain_topics",
    "verify_topics",
]

ASSIGNMENTS = "topics-clusters/assignments.parquet"
CENTROIDS = "topics-clusters/centroids.parquet"
"""The file of a data set that publishes the clusters of its topics."""

BUCKETS = "resttest-buckets/assignments.parquet"
CENTRES = "resttest-buckets/centroids.parquet"
"""The file of a data set that publishes the bucket of every query, and that of the centroids."""

_ITERATIONS = 100
_SIZES = ("train_size", "test_size", "validation_size", "seed", "nano")


def _published(dataset: Dataset, name: str) -> pa.Table:
    """Read a table that a built data set publishes beside its splits.

    Raises:
        IntegrityError: if the file is not what the manifest says.
    """
    path = dataset.folder / name
    if not path.is_file() or sha256_of(path) != dataset.manifest.files.get(name):
        raise IntegrityError(f"{path} is missing or has changed since it was built")
    return pq.read_table(path)


def _check_queries(
    what: str, query_ids: tuple[str, ...], queries: Mapping[str, str], collection: Collection
) -> None:
    """Check that what is published is of these queries."""
    if query_ids != tuple(sorted(queries)):
        raise DataError(
            f"the published {what} hold {len(query_ids)} queries, and {collection.name} "
            f"{len(queries)} others; give the collection they were made from"
        )


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
    queries: Mapping[str, str],
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    set_aside: frozenset[str] = frozenset(),
    topic_size: int | None = None,
    published: PublishedTopics | None = None,
    **encoding: str | None,
) -> Grouping:
    """Put queries into five topics that lie far apart; all other queries are in none.

    Args:
        queries: the queries to group.
        rule: ``k-means`` is the only one.
        collection: the queries' collection.
        seed: the seed of the first centroids.
        set_aside: queries that do not count towards a topic's size; see `cluster_queries`.
        topic_size: queries per topic, about; see `clusters.TOPIC_SCALE_RULE`.
        published: use these clusters, and embed nothing.
        **encoding: ``encoder`` and ``pooling``; see `clusters.embed_for_groups`.

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        NotFoundError: if there is no such encoder.
        DataError: if the queries are too few, or are not those of the published clusters.
    """
    shift = shift_of_rule("topics", rule)
    if published is None:
        embeddings = embed_for_groups(queries, collection, **encoding)
        clustering = cluster_queries(
            embeddings.query_ids,
            embeddings.vectors,
            seed=seed,
            target=topic_size,
            set_aside=set_aside,
        )
        parameters: Mapping[str, Any] = {
            "embedding": embeddings.facts,
            "clustering": clustering.parameters,
        }
    else:
        clustering, parameters = published.clustering, published.parameters
        _check_queries("clusters", clustering.query_ids, queries, collection)
    labels = clustering.labels_by_query()
    texts: dict[str, list[str]] = {}
    for query_id, text in sorted(queries.items()):
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
            "examples": {
                f"C{number}": most_central(
                    clustering.query_ids,
                    clustering.margins,
                    np.flatnonzero(clustering.labels == native),
                )
                for number, (native, *_) in enumerate(clustering.groups)
            },
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
        margins: shape (n,), from 0 to 1; see `kmeans.assign`.
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
    queries: Mapping[str, str],
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    published: Buckets | None = None,
    **encoding: str | None,
) -> Grouping:
    """Put every query, whether for training or for test, into one of five buckets.

    It takes the arguments of `group_by_topic`, without those on the size of topics, and raises the
    same errors.

    Returns:
        The groups ``1`` to ``5``, the bucket with most queries first.

    Raises:
        UsageError: if there are fewer than five queries.
        DataError: if fewer than five of the vectors are distinct, or the queries are not those of
            the published buckets.
    """
    shift = shift_of_rule("resttest", rule)
    groups = tuple(shift.groups)
    if published is None:
        embeddings = embed_for_groups(queries, collection, **encoding)
        clusters = kmeans(
            embeddings.vectors,
            embeddings.query_ids,
            k=len(groups),
            iterations=_ITERATIONS,
            seed=seed,
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
        _check_queries("buckets", buckets.query_ids, queries, collection)
    members = {group: np.flatnonzero(buckets.labels == n) for n, group in enumerate(groups)}
    text_of = queries
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


AGREEMENT = 0.9999
"""The share of queries that `verify_topics` must find in their published clusters."""

MARGIN = 1e-3
"""The greatest margin at which it may find a query in another one."""


def replay_topics(
    published: Dataset | str | Path,
    collection: Collection,
    folder: str | Path,
    *,
    overwrite: bool = False,
) -> tuple[Manifest, list[str]]:
    """Build a published data set again, its topics from the published clusters.

    Args:
        published: the data set.
        collection: the collection that it was built from.
        folder: the folder to write.
        overwrite: see `build_dataset`.

    Returns:
        The manifest of the new data set, and the splits (``config/split``) whose rows differ from
        the published ones: none, if the collection is the same.

    Raises:
        DataError: if it publishes no clusters, or the collection holds other queries.
        UsageError: if it was imported, not built, is a small part of a build with given test
            queries, or holds training sets for test queries of their own.
    """
    dataset = open_dataset(published)
    manifest = dataset.manifest
    if manifest.edition != "rebuilt":
        raise UsageError(
            f"{dataset.folder} was imported ({manifest.edition}), so it cannot be replayed"
        )
    if sized := [name for name in manifest.shifts if SHIFTS[name].by_size]:
        raise UsageError(
            f"{dataset.folder} also holds {', '.join(sized)}, whose test queries lie in folders of "
            "their own, so that it cannot be built again from the collection alone; build it with "
            "the same options instead"
        )
    options: dict[str, dict[str, object]] = {
        name: {"rule": facts["rule"]} for name, facts in manifest.shifts.items()
    }
    if BUCKETS in manifest.files:
        options["resttest"]["published"] = Buckets.read(dataset)
    options["topics"]["published"] = PublishedTopics.read(dataset)
    sizes: dict[str, Any] = {name: manifest.parameters.get(name) for name in _SIZES}
    rebuilt = build_dataset(
        collection,
        tuple(manifest.shifts),
        folder,
        options=options,
        test_queries=_given_tests(dataset),
        **sizes,
        texts=manifest.texts,
        licence=manifest.collection.get("licence"),
        overwrite=overwrite,
    )
    differing = [
        f"{config}/{split}"
        for config, splits in manifest.configs.items()
        for split, entry in splits.items()
        if entry.rows and not holds_triples(config)
        if entry.digest != rebuilt.configs[config][split].digest
    ]
    return rebuilt, differing


def _given_tests(dataset: Dataset) -> frozenset[str] | None:
    """Return the test queries that a build was given; refuse one that kept a part of them."""
    manifest = dataset.manifest
    if "test_queries" not in manifest.parameters:
        return None
    if manifest.parameters["nano"]:
        raise UsageError(
            f"{dataset.folder} holds a small part of the test queries that it was built with "
            "(--nano), so its topics cannot be made again; build it with their file"
        )
    return frozenset(
        row.query_id
        for name in manifest.shifts
        if SHIFTS[name].takes_tests
        for rows in dataset.test_sets(SHIFTS[name]).values()
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of embedding the queries of published topics again.

    Attributes:
        queries: their number.
        same_bytes: whether the embeddings equal those of the build, byte by byte.
        same_encoder: whether the encoder is the build's.
        disagreements: query_id -> margin between its two nearest published centroids, for the
            queries that lie nearest to another centroid than the one they were assigned to.
    """

    queries: int
    same_bytes: bool
    same_encoder: bool
    disagreements: Mapping[str, float]

    @property
    def agreement(self) -> float:
        """The share of queries in their published clusters."""
        return 1 - len(self.disagreements) / self.queries

    @property
    def passed(self) -> bool:
        """Whether all differences are within the noise; see `AGREEMENT` and `MARGIN`."""
        return self.agreement >= AGREEMENT and all(
            margin < MARGIN for margin in self.disagreements.values()
        )


def verify_topics(
    published: Dataset | str | Path,
    collection: Collection,
    *,
    encoder: str | None = None,
) -> Verified:
    """Embed the queries again and check that they fall into their published clusters.

    Args:
        published: the data set.
        collection: the collection that it was built from.
        encoder: the encoder's folder or Hub id, if it is not the name in the manifest.

    Raises:
        DataError: if it publishes no clusters, or the collection holds other queries.
        NotFoundError: if there is no such encoder.
    """
    topics, embeddings = _embed_again(open_dataset(published), collection, encoder)
    labels, margins = assign(embeddings.vectors, topics.clustering.centroids)
    elsewhere = np.flatnonzero(labels != topics.clustering.labels)
    return Verified(
        queries=len(embeddings.query_ids),
        **_sameness(embeddings, topics),
        disagreements={embeddings.query_ids[row]: float(margins[row]) for row in elsewhere},
    )


@dataclass(frozen=True, slots=True)
class Retrained:
    """The result of making published topics again from the texts.

    Attributes:
        same_bytes, same_encoder: see `Verified`.
        identical: whether every query is in its published cluster.
        regrouped: share of the queries whose topic changes, when each new topic is named after
            the published topic with which it shares most queries.
    """

    same_bytes: bool
    same_encoder: bool
    identical: bool
    regrouped: float

    @property
    def passed(self) -> bool:
        """Whether the promise holds: the same bytes give the same clusters."""
        return self.identical or not self.same_bytes


def retrain_topics(
    published: Dataset | str | Path,
    collection: Collection,
    *,
    encoder: str | None = None,
) -> Retrained:
    """Embed and cluster the queries again, and compare with the published topics.

    It takes the arguments of `verify_topics` and raises the same errors.

    Raises:
        UsageError: if the data set is a small part of a build with given test queries.
    """
    dataset = open_dataset(published)
    topics, embeddings = _embed_again(dataset, collection, encoder)
    settings, built = topics.parameters["clustering"], dataset.manifest.parameters
    given = _given_tests(dataset) or frozenset()
    validation = sample_validation(
        embeddings.query_ids, size=built["validation_size"], seed=built["seed"], reserved=given
    )
    again = cluster_queries(
        embeddings.query_ids,
        embeddings.vectors,
        k=settings["k"],
        iterations=settings["iterations"],
        seed=settings["seed"],
        target=settings["target"],
        set_aside=given | validation,
    )
    old, new = topics.clustering.labels_by_query(), again.labels_by_query()
    shared = Counter((new[query_id], old[query_id]) for query_id in old)
    kept: dict[str, int] = {}
    taken: set[str] = set()
    for (mine, theirs), count in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if mine not in kept and theirs not in taken:
            kept[mine] = count
            taken.add(theirs)
    return Retrained(
        **_sameness(embeddings, topics),
        identical=bool(np.array_equal(again.labels, topics.clustering.labels)),
        regrouped=1 - sum(kept.values()) / len(old),
    )


def _embed_again(
    dataset: Dataset, collection: Collection, encoder: str | None
) -> tuple[PublishedTopics, Embeddings]:
    topics = PublishedTopics.read(dataset)
    queries = ids_and_texts(queries_table(collection))
    if topics.clustering.query_ids != tuple(sorted(queries)):
        raise DataError(
            f"{dataset.folder} groups {len(topics.clustering.query_ids)} queries, and "
            f"{collection.name} holds {len(queries)} others; give the collection it was built from"
        )
    settings: Mapping[str, Any] = topics.parameters["embedding"]
    embeddings = embed_for_groups(
        queries,
        collection,
        encoder=encoder or settings["encoder"],
        pooling=settings.get("pooling"),
    )
    return topics, embeddings


def _sameness(embeddings: Embeddings, topics: PublishedTopics) -> dict[str, bool]:
    settings: Mapping[str, Any] = topics.parameters["embedding"]
    return {
        "same_bytes": embeddings.sha256 == settings["sha256"],
        "same_encoder": embeddings.facts["encoder_sha256"] == settings["encoder_sha256"],
    }
