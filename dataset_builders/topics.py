"""Group queries by clusters of their embeddings: the shifts `topics` and, if built, `resttest`.

Topics: MS-Shift (ECIR 2023), section 3.1, "Query Topics"; see `clusters` for the steps.

Buckets contain every query, for training and for test. Source: Zhan et al., Evaluating
Interpolation and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 4.1.3.
The paper publishes neither its encoder nor its parameters. So built buckets differ from the
released buckets, which `zhan` reads.

Published topics are checked in three ways. `replay_topics` uses no floating-point computation, so
it gives the same rows on every machine. `verify_topics` embeds the queries again and assigns them
to the published centroids. Noise may move a query only if two centroids are almost equally near.
`retrain_topics` repeats all steps. It gives the same clusters if the embeddings are the same bytes.
Otherwise every iteration of k-means amplifies the noise, and the clusters may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.data import Collection, Dataset, Manifest, open_dataset, sha256_of
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.clusters import (
    Clustering,
    cluster_queries,
    embed_for_groups,
    margins_summary,
    most_central,
    top_terms,
)
from msshift_bench.dataset_builders.cut import (
    SampleSizes,
    ids_and_texts,
    queries_table,
    sample_validation,
)
from msshift_bench.dataset_builders.groups import shift_of_rule
from msshift_bench.dataset_builders.kmeans import assign, kmeans
from msshift_bench.encoders import Embeddings, EncoderSpec, ModelSettings
from msshift_bench.errors import DataError, IntegrityError, UsageError, first_few
from msshift_bench.output import Summary
from msshift_bench.plumbing import values_by_key
from msshift_bench.records import Grouping
from msshift_bench.shifts import SHIFTS, LabelledShift, Shift, has_triples

ASSIGNMENTS = "topics-clusters/assignments.parquet"
CENTROIDS = "topics-clusters/centroids.parquet"
"""The files of a data set with its topics: the cluster of each query, and the centroids."""

BUCKETS = "resttest-buckets/assignments.parquet"
CENTRES = "resttest-buckets/centroids.parquet"
"""The files of a data set with its buckets: the bucket of each query, and the centroids."""

_BUCKETS_SCHEMA = pa.schema(
    [("query_id", pa.string()), ("group", pa.string()), ("margin", pa.float64())]
)
_CENTRES_SCHEMA = pa.schema(
    [("group", pa.string()), ("size", pa.int64()), ("vector", pa.list_(pa.float64()))]
)

_ITERATIONS = 100
_SIZES = ("train_size", "test_size", "validation_size", "seed", "nano")


def _read_tables(dataset: Dataset, *names: str) -> Iterator[pa.Table]:
    """Yield tables of a built data set that are not splits, by their paths in it.

    Raises:
        IntegrityError: if a file is missing, or its digest differs from the manifest.
    """
    for name in names:
        path = dataset.folder / name
        if not path.is_file() or sha256_of(path) != dataset.manifest.files.get(name):
            raise IntegrityError(
                f"{path} is missing or has changed since it was built; download or build the data "
                "set again"
            )
        yield pq.read_table(path.absolute())


def read_topics(dataset: Dataset) -> Clustering:
    """Read the topics of a data set.

    Raises:
        DataError: if the data set has no topics built by this package.
        IntegrityError: if a file is missing, its digest differs from the manifest, or the two files
            are not of one clustering.
    """
    for name in (ASSIGNMENTS, CENTROIDS):
        if name not in dataset.manifest.files:
            raise DataError(
                f"{dataset.folder} has no file {name} with clusters of queries; give a data set "
                "whose topics were built with 'msshift build'"
            )
    parameters = dataset.manifest.shifts["topics"]["parameters"]
    assignments, centroids = _read_tables(dataset, ASSIGNMENTS, CENTROIDS)
    return Clustering.from_tables(
        assignments, centroids, parameters["clustering"], parameters["embedding"]
    )


def read_buckets(dataset: Dataset) -> Clustering:
    """Read the buckets of a built data set.

    Raises:
        IntegrityError: if a file is missing or was never built, or its digest differs from the
            manifest.
    """
    assignments, centres = _read_tables(dataset, BUCKETS, CENTRES)
    parameters = dataset.manifest.shifts["resttest"]["parameters"]
    return _bucket_clustering(
        assignments["query_id"].to_pylist(),
        pc.index_in(assignments["group"], centres["group"]).to_numpy(),
        assignments["margin"].to_numpy(),
        np.array(centres["vector"].to_pylist(), np.float64),
        parameters["clustering"],
        parameters["embedding"],
    )


def _bucket_clustering(
    query_ids: Sequence[str],
    labels: NDArray[np.int32],
    margins: Floats,
    centroids: Floats,
    parameters: Mapping[str, int],
    embedding: Mapping[str, Any],
) -> Clustering:
    """Return ReSTTest's buckets as a clustering: each group is one cluster."""
    names = tuple(SHIFTS["resttest"].groups)
    groups = tuple((number,) for number in range(len(names)))
    return Clustering(
        tuple(query_ids), labels, margins, centroids, groups, parameters, names, embedding
    )


def _grouping(
    shift: Shift,
    rule: str,
    queries: Mapping[str, str],
    collection: Collection,
    clustering: Clustering,
    tables: Mapping[str, pa.Table],
    words: str,
) -> Grouping:
    """Return the groups of clustered queries, with their top terms, examples and margins.

    A clustering of other queries raises DataError.
    """
    _check_queries(clustering, queries, collection, shift)
    labels = clustering.labels_by_query()
    terms = top_terms(
        values_by_key((labels[id_], text) for id_, text in sorted(queries.items())), words=words
    )
    natives = [native for native, *_ in clustering.groups]
    return Grouping(
        shift.name,
        labels,
        rule,
        {"embedding": clustering.embedding, "clustering": clustering.parameters},
        found={
            "terms": {group: terms[group] for group in shift.groups},
            "examples": {
                group: most_central(
                    clustering.query_ids,
                    clustering.margins,
                    np.flatnonzero(clustering.labels == native),
                )
                for group, native in zip(clustering.names, natives, strict=True)
            },
            "margins": margins_summary(clustering.margins),
        },
        tables=tables,
    )


def _check_queries(
    clustering: Clustering, queries: Mapping[str, str], collection: Collection, shift: Shift
) -> None:
    kind = "clusters" if shift.name == "topics" else "buckets"
    if clustering.query_ids != tuple(sorted(queries)):
        differing = queries.keys() ^ set(clustering.query_ids)
        raise DataError(
            f"the published {kind} have {len(clustering.query_ids)} queries, but {collection.name} "
            f"has {len(queries)} with a relevant passage; {len(differing)} query ids are in only "
            f"one of them ({first_few(differing)}); give the collection and the qrels from which "
            f"the {kind} were made"
        )


def group_by_topic(
    queries: Mapping[str, str],
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    set_aside: frozenset[str] = frozenset(),
    topic_size: int | None = None,
    published: Clustering | None = None,
    encoder: str | EncoderSpec | None = None,
    pooling: str | None = None,
    words: str = "whitespace",
) -> Grouping:
    """Put queries into five topics that are far apart; all other queries are in no topic.

    Args:
        queries: the queries to group, query_id -> text.
        rule: ``k-means`` is the only one.
        collection: the queries' collection.
        seed: the seed of the first centroids.
        set_aside: queries that do not count towards a topic's size; see `cluster_queries`.
        topic_size: queries at which a topic stops growing; see `clusters.TOPIC_SCALE_RULE`.
        published: clusters to use; then no query is embedded.
        encoder: see `clusters.embed_for_groups`.
        pooling: see `clusters.embed_for_groups`.
        words: how texts are divided into words (`WORDS`).

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        UsageError: if `topic_size` is below 1.
        MissingError: if there is no such encoder, or its libraries are not installed.
        DataError: if there are too few queries, or the published clusters have other queries.
    """
    shift = shift_of_rule("topics", rule)
    if published is None:
        embeddings = embed_for_groups(
            queries, collection, encoder=encoder, pooling=pooling, words=words
        )
        published = cluster_queries(embeddings, seed=seed, target=topic_size, set_aside=set_aside)
    tables = dict(zip((ASSIGNMENTS, CENTROIDS), published.to_tables(), strict=True))
    return _grouping(shift, rule, queries, collection, published, tables, words)


def group_by_bucket(
    queries: Mapping[str, str],
    rule: str = "k-means",
    *,
    collection: Collection,
    seed: int = 0,
    published: Clustering | None = None,
    encoder: str | EncoderSpec | None = None,
    pooling: str | None = None,
    words: str = "whitespace",
) -> Grouping:
    """Put every query, for training or for test, into one of five buckets.

    The arguments and errors are as in `group_by_topic`.

    Returns:
        The groups ``1`` to ``5``, the largest bucket first.

    Raises:
        UsageError: if there are fewer than five queries.
        DataError: if there are fewer than five distinct vectors, or the published buckets have
            other queries.
    """
    shift = shift_of_rule("resttest", rule)
    if published is None:
        embeddings = embed_for_groups(
            queries, collection, encoder=encoder, pooling=pooling, words=words
        )
        ids, parameters = embeddings.query_ids, {"k": len(shift.groups), "iterations": _ITERATIONS}
        clusters = kmeans(embeddings.vectors, ids, **parameters, seed=seed)
        parameters["seed"] = seed
        published = _bucket_clustering(
            ids, clusters.labels, clusters.margins, clusters.centroids, parameters, embeddings.facts
        )
    assignments, centres = published.to_tables()
    tables = {
        BUCKETS: assignments.select(_BUCKETS_SCHEMA.names).cast(_BUCKETS_SCHEMA),
        CENTRES: centres.select(_CENTRES_SCHEMA.names).cast(_CENTRES_SCHEMA),
    }
    return _grouping(shift, rule, queries, collection, published, tables, words)


AGREEMENT = 0.9999
"""The smallest share of queries in their published clusters that `verify_topics` accepts."""

MARGIN = 1e-3
"""The bound on the margins of other queries: `verify_topics` accepts smaller margins only."""


def replay_topics(
    published: Dataset | str | Path,
    collection: Collection,
    folder: str | Path,
    *,
    overwrite: bool = False,
) -> tuple[Manifest, list[str]]:
    """Build a published data set again, with topics from the published clusters.

    Args:
        published: the data set.
        collection: the collection from which it was built.
        folder: the folder to write.
        overwrite: see `build_dataset`.

    Returns:
        The manifest of the new data set, and the splits (``config/split``) whose rows differ from
        the published rows. With the same collection, no split differs.

    Raises:
        DataError: if the data set has no clusters of queries, or the collection has other queries.
        IntegrityError: if its clusters were changed.
        UsageError: if the data set was imported, is a small part of a build with given test
            queries, or has a shift with sizes or with labels; and as in `build_dataset`.
    """
    dataset = open_dataset(published)
    manifest = dataset.manifest
    if manifest.edition != "rebuilt":
        raise UsageError(
            f"{dataset.folder} was imported ({manifest.edition}) and cannot be replayed; give a "
            "data set from 'msshift build'"
        )
    if others := [
        name for name in manifest.shifts if SHIFTS[name].by_size or isinstance(name, LabelledShift)
    ]:
        raise UsageError(
            f"{dataset.folder} has {', '.join(others)}, whose test queries or labels are in "
            "other files, so it cannot be replayed from the collection alone; build it with the "
            "same options instead"
        )
    options: dict[str, dict[str, object]] = {
        name: {"rule": facts["rule"]} for name, facts in manifest.shifts.items()
    }
    if BUCKETS in manifest.files:
        options["resttest"]["published"] = read_buckets(dataset)
    options["topics"]["published"] = read_topics(dataset)
    if "wh-words" in options:
        options["wh-words"]["question_words"] = {
            word: group
            for group, listed in manifest.shifts["wh-words"]["parameters"]["words"].items()
            for word in listed
        }
    sizes = {name: manifest.parameters[name] for name in _SIZES if name in manifest.parameters}
    rebuilt = build_dataset(
        collection,
        tuple(manifest.shifts),
        folder,
        options=options,
        samples=SampleSizes(test_queries=_given_tests(dataset), **sizes),
        texts=manifest.texts,
        licence=manifest.collection.get("licence"),
        overwrite=overwrite,
        exclude=dataset.exclusions,
        words=dataset.words,
    )
    return rebuilt, [
        f"{config}/{split}"
        for config, splits in manifest.configs.items()
        for split, entry in splits.items()
        if entry.rows and not has_triples(config)
        if entry.digest != rebuilt.configs[config][split].digest
    ]


def _given_tests(dataset: Dataset) -> frozenset[str] | None:
    """Return a build's given test queries, `None` if sampled; UsageError for a part of them."""
    manifest = dataset.manifest
    if "test_queries" not in manifest.parameters:
        return None
    if manifest.parameters["nano"]:
        raise UsageError(
            f"{dataset.folder} holds a small part of the test queries of its build (--nano), so "
            "its topics cannot be made again; build it with the file of test queries"
        )
    return frozenset(
        row.query_id
        for name in manifest.shifts
        if SHIFTS[name].takes_tests
        for rows in dataset.test_sets(SHIFTS[name]).values()
        for row in rows
    )


def verify_topics(
    published: Dataset | str | Path, collection: Collection, *, encoder: str | None = None
) -> Summary:
    """Embed the queries again, and check that they are in their published clusters.

    All differences must be within the noise; see `AGREEMENT` and `MARGIN`.

    Args:
        published: the data set.
        collection: the collection from which it was built.
        encoder: the encoder's folder or Hub id, if it is not the name in the manifest.

    Returns:
        ``queries``: their number. ``same_bytes``: whether the embeddings equal the embeddings of
        the build, byte by byte. ``same_encoder``: whether the encoder's digest is the same.
        ``disagreements``: query_id -> margin, for the queries whose nearest centroid is not the
        published one. ``agreement``: the share of all other queries. ``passed``: whether
        differences are within the noise.

    Raises:
        DataError: if the data set has no clusters of queries, or the collection has other queries.
        IntegrityError: if its clusters were changed.
        MissingError: if there is no such data set or encoder, or libraries are not installed.
    """
    clustering, embeddings, facts, line = _embed_again(open_dataset(published), collection, encoder)
    labels, margins = assign(embeddings.vectors, clustering.centroids)
    differing = np.flatnonzero(labels != clustering.labels).tolist()
    queries, moved = len(labels), {embeddings.query_ids[n]: float(margins[n]) for n in differing}
    agreement, widest = 1 - len(moved) / queries, max(moved.values(), default=0.0)
    up_to = f", margin up to {widest:.1e}" if moved else ""
    facts |= {
        "disagreements": moved,
        "agreement": agreement,
        "passed": agreement >= AGREEMENT and widest < MARGIN,
    }
    result = (
        f"{queries - len(moved)} of {queries} queries are in their published clusters "
        f"({agreement:.4%}); {len(moved)} are not{up_to}"
    )
    return Summary({"queries": queries, **facts}, notes=(line, result))


def retrain_topics(
    published: Dataset | str | Path, collection: Collection, *, encoder: str | None = None
) -> Summary:
    """Embed and cluster the queries again, and compare with the published topics.

    The arguments and errors are as in `verify_topics`.

    Returns:
        ``same_bytes`` and ``same_encoder``: see `verify_topics`. ``identical``: whether every query
        is in its published cluster. ``regrouped``: the share of queries whose topic changes, where
        "in no topic" is one topic. A new topic gets the name of the published topic with most
        common queries. ``passed``: whether the clusters are identical or the embeddings differ.

    Raises:
        UsageError: if the data set is a small part of a build with given test queries.
    """
    dataset = open_dataset(published)
    clustering, embeddings, facts, line = _embed_again(dataset, collection, encoder)
    settings, built = clustering.parameters, dataset.manifest.parameters
    given = _given_tests(dataset) or frozenset()
    validation = sample_validation(
        embeddings.query_ids, size=built["validation_size"], seed=built["seed"], reserved=given
    )
    retrained = cluster_queries(
        embeddings,
        k=settings["k"],
        iterations=settings["iterations"],
        seed=settings["seed"],
        target=settings["target"],
        set_aside=given | validation,
    )
    old, new = clustering.labels_by_query(), retrained.labels_by_query()
    shared = Counter((new[query_id], old[query_id]) for query_id in old)
    kept: dict[str, int] = {}
    taken: set[str] = set()
    for (topic, published_topic), count in sorted(
        shared.items(), key=lambda item: (-item[1], item[0])
    ):
        if topic not in kept and published_topic not in taken:
            kept[topic] = count
            taken.add(published_topic)
    regrouped = 1 - sum(kept.values()) / len(old)
    identical = bool(np.array_equal(retrained.labels, clustering.labels))
    facts |= {
        "identical": identical,
        "regrouped": regrouped,
        "passed": identical or not facts["same_bytes"],
    }
    changed = "the same" if identical else f"{regrouped:.2%} change their topic"
    return Summary(facts, notes=(line, f"clusters: {changed}"))


def _embed_again(
    dataset: Dataset, collection: Collection, encoder: str | None
) -> tuple[Clustering, Embeddings, dict[str, Any], str]:
    """Return the published topics, new embeddings, and their comparison, as facts and as a note."""
    published = read_topics(dataset)
    queries = ids_and_texts(queries_table(collection, dataset.exclusions))
    _check_queries(published, queries, collection, SHIFTS["topics"])
    built = published.embedding
    spec = EncoderSpec(
        encoder or built["encoder"],
        **{name: built[name] for name in ("pooling", "max_length") if name in built},
        settings=ModelSettings.with_defaults(built.get("settings", {}), str(dataset.folder)),
    )
    embeddings = embed_for_groups(queries, collection, encoder=spec, words=dataset.words)
    facts = {
        "same_bytes": embeddings.sha256 == built["sha256"],
        "same_encoder": embeddings.facts["encoder_sha256"] == built["encoder_sha256"],
    }
    of_bytes, of_encoder = ("the same" if same else "different" for same in facts.values())
    return published, embeddings, facts, f"encoder: {of_encoder}; embeddings: {of_bytes}"
