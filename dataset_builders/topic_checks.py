"""Three ways to check published topics: replay them, verify them, make them again.

`replay_topics` computes nothing in floating point, so it gives the same rows on every machine.
`verify_topics` embeds the queries again and assigns them to the published centroids: noise may move
a query only if two centroids are almost equally near. `retrain_topics` repeats everything. It
gives the same clusters if the embeddings are the same bytes; if they are not, every iteration of
k-means amplifies the noise, and nothing is promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.data import Collection, Dataset, Manifest, open_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.clustering import cluster_queries
from msshift_bench.dataset_builders.cut import ids_and_texts, queries_table, sample_validation
from msshift_bench.dataset_builders.nearest import assign
from msshift_bench.dataset_builders.topics import (
    BUCKETS,
    Buckets,
    PublishedTopics,
    embed_for_groups,
)
from msshift_bench.encoders import Embeddings
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import Progress, silent
from msshift_bench.shifts import SHIFTS, holds_triples

__all__ = [
    "AGREEMENT",
    "MARGIN",
    "Retrained",
    "Verified",
    "replay_topics",
    "retrain_topics",
    "verify_topics",
]

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
    progress: Progress = silent,
) -> tuple[Manifest, list[str]]:
    """Build a published data set again, its topics from the published clusters.

    Args:
        published: the data set.
        collection: the collection that it was built from.
        folder: the folder to write.
        overwrite: replace an earlier build even if that loses shifts, triples, files that are no
            part of it, or the data set of another collection.
        progress: called with ``(stage, done, total)``.

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
    rebuilt = build_dataset(
        collection,
        tuple(manifest.shifts),
        folder,
        options=options,
        train_size=manifest.parameters.get("train_size"),
        test_size=manifest.parameters.get("test_size"),
        test_queries=_given_tests(dataset),
        validation_size=manifest.parameters["validation_size"],
        seed=manifest.parameters["seed"],
        nano=manifest.parameters["nano"],
        texts=manifest.texts,
        licence=manifest.collection.get("licence"),
        overwrite=overwrite,
        progress=progress,
    )
    differing = [
        f"{config}/{split}"
        for config, splits in manifest.configs.items()
        for split, entry in splits.items()
        if not holds_triples(config) and entry.digest != rebuilt.configs[config][split].digest
    ]
    return rebuilt, differing


def _given_tests(dataset: Dataset) -> frozenset[str] | None:
    """Return the test queries that a build was given, from its test splits.

    Raises:
        UsageError: if it kept only a part of them.
    """
    manifest = dataset.manifest
    if "test_queries" not in manifest.parameters:
        return None
    if manifest.parameters["nano"]:
        raise UsageError(
            f"{dataset.folder} holds a small part of the test queries that it was built with "
            "(--nano), so its topics cannot be made again; build it with their file"
        )
    takers = [name for name in manifest.shifts if SHIFTS[name].takes_tests]
    return frozenset(
        row.query_id
        for name in takers
        for config in SHIFTS[name].configs
        for row in dataset.rows(config, "test")
    )


def _set_aside(dataset: Dataset, query_ids: Sequence[str]) -> frozenset[str]:
    """Return the queries that the topics of a build did not count; see `cluster_queries`."""
    given = _given_tests(dataset) or frozenset()
    return given | sample_validation(
        query_ids,
        size=dataset.manifest.parameters["validation_size"],
        seed=dataset.manifest.parameters["seed"],
        reserved=given,
    )


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of embedding the queries of published topics again.

    Attributes:
        queries: the number of queries.
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
    progress: Progress = silent,
) -> Verified:
    """Embed the queries again and check that they fall into their published clusters.

    Args:
        published: the data set.
        collection: the collection that it was built from.
        encoder: the encoder's folder or Hub id, if it is not the name in the manifest.
        progress: called with ``(stage, done, total)``.

    Raises:
        DataError: if it publishes no clusters, or the collection holds other queries.
        NotFoundError: if there is no such encoder.
    """
    topics, embeddings = _embed_again(open_dataset(published), collection, encoder, progress)
    labels, margins = assign(embeddings.vectors, topics.clustering.centroids)
    elsewhere = np.flatnonzero(labels != topics.clustering.labels)
    return Verified(
        queries=len(embeddings.query_ids),
        same_bytes=embeddings.sha256 == topics.parameters["embedding"]["sha256"],
        same_encoder=_same_encoder(embeddings, topics),
        disagreements={embeddings.query_ids[row]: float(margins[row]) for row in elsewhere},
    )


@dataclass(frozen=True, slots=True)
class Retrained:
    """The result of making published topics again from the texts.

    Attributes:
        same_bytes: whether the embeddings equal those of the build, byte by byte.
        same_encoder: whether the encoder is the build's.
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
    progress: Progress = silent,
) -> Retrained:
    """Embed and cluster the queries again, and compare with the published topics.

    It takes the arguments of `verify_topics` and raises the same errors.

    Raises:
        UsageError: if the data set is a small part of a build with given test queries.
    """
    dataset = open_dataset(published)
    topics, embeddings = _embed_again(dataset, collection, encoder, progress)
    settings = topics.parameters["clustering"]
    again = cluster_queries(
        embeddings.query_ids,
        embeddings.vectors,
        k=settings["k"],
        iterations=settings["iterations"],
        seed=settings["seed"],
        target=settings["target"],
        set_aside=_set_aside(dataset, embeddings.query_ids),
        progress=progress,
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
        same_bytes=embeddings.sha256 == topics.parameters["embedding"]["sha256"],
        same_encoder=_same_encoder(embeddings, topics),
        identical=bool(np.array_equal(again.labels, topics.clustering.labels)),
        regrouped=1 - sum(kept.values()) / len(old),
    )


def _embed_again(
    dataset: Dataset, collection: Collection, encoder: str | None, progress: Progress
) -> tuple[PublishedTopics, Embeddings]:
    topics = PublishedTopics.read(dataset)
    queries = ids_and_texts(queries_table(collection))
    if topics.clustering.query_ids != tuple(sorted(queries.ids)):
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
        progress=progress,
    )
    return topics, embeddings


def _same_encoder(embeddings: Embeddings, topics: PublishedTopics) -> bool:
    settings: Mapping[str, Any] = topics.parameters["embedding"]
    return bool(embeddings.facts["encoder_sha256"] == settings["encoder_sha256"])
