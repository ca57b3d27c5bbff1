"""The topics shift: clusters of query embeddings that lie far apart.

Source: MS-Shift (ECIR 2023), section 3.1, "Query Topics". The three steps are functions of their
own: `kmeans.kmeans` makes clusters, `selection.select_farthest` chooses the five that lie farthest
apart, and `clustering.grow` joins their neighbours to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.data import Collection, Dataset, QueryColumns
from msshift_bench.dataset_builders.clustering import Clustering, cluster_queries, margins_summary
from msshift_bench.dataset_builders.group_vectors import embed_for_groups
from msshift_bench.dataset_builders.top_terms import example_queries, top_terms
from msshift_bench.errors import DataError, IntegrityError, UnknownNameError
from msshift_bench.plumbing import Progress, silent
from msshift_bench.records import Grouping
from msshift_bench.shifts import get_shift

__all__ = [
    "ASSIGNMENTS",
    "CENTROIDS",
    "PublishedTopics",
    "group_by_topic",
]

ASSIGNMENTS = "topics-clusters/assignments.parquet"
CENTROIDS = "topics-clusters/centroids.parquet"
"""The file of a data set that publishes the clusters of its topics."""


@dataclass(frozen=True, slots=True)
class PublishedTopics:
    """The clusters of a built data set's topics.

    Attributes:
        clustering: assignments, centroids and growth.
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
        import pyarrow.parquet as pq

        from msshift_bench.data import sha256_of

        folder, manifest = dataset.folder, dataset.manifest
        for name in (ASSIGNMENTS, CENTROIDS):
            if name not in manifest.files:
                raise DataError(
                    f"{folder} publishes no clusters ({name}); only a data set whose topics were "
                    "built by msshift does"
                )
            path = folder / name
            if not path.is_file() or sha256_of(path) != manifest.files[name]:
                raise IntegrityError(f"{path} is missing or has changed since it was built")
        parameters = manifest.shifts["topics"]["parameters"]
        clustering = Clustering.from_tables(
            pq.read_table(folder / ASSIGNMENTS),
            pq.read_table(folder / CENTROIDS),
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
    backend: str | None = None,
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
        backend: see `embed_for_groups`.
        topic_size: queries per topic, about; see `clustering.TOPIC_SCALE_RULE`.
        published: use these clusters, and embed nothing.

    Raises:
        UnknownNameError: if there is no such rule, pooling or backend.
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
            backend=backend,
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
