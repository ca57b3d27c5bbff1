"""A map of the topics: t-SNE of query vectors, with the words that set each topic apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np

from msshift_bench.arrays import Floats, Vectors
from msshift_bench.data import Dataset, QueryColumns
from msshift_bench.dataset_builders.splits import sample
from msshift_bench.dataset_builders.top_terms import top_terms
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.output import looks_of
from msshift_bench.records import OTHERS
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure, Value, blank_figure
from msshift_bench.shifts import get_shift

__all__ = ["TopicSample", "draw_topic_map", "flatten", "sample_topics"]

_TITLE = "Map of the topics"
_READ = 20_000
"""Queries whose words the vectors are made from."""

_SEED = 0
_PERPLEXITY = 30
_TERMS = 6


@dataclass(frozen=True, slots=True, eq=False)
class TopicSample:
    """Some queries of the topics, and their vectors.

    Attributes:
        query_ids: the queries.
        groups: the topic of each.
        vectors: shape (queries, components).
        terms: topic -> the words that set it apart.
        of: how many queries they were sampled from.
    """

    query_ids: Sequence[str]
    groups: Sequence[str]
    vectors: Vectors
    terms: Mapping[str, Sequence[str]]
    of: int


def sample_topics(dataset: Dataset, most: int) -> TopicSample | LeftOut:
    """Sample queries of the topics, the same ones for equal data, and make their vectors.

    Args:
        dataset: the data set.
        most: how many at most.
    """
    if "topics" not in dataset.manifest.shifts:
        remedy = "build it with the topics: `msshift build topics`"
        return LeftOut(_TITLE, "the data set has no topics", remedy)
    if not dataset.manifest.texts:
        return LeftOut(_TITLE, "the data set holds no texts", "`msshift hydrate` puts them back")
    every = dataset.rows("topics", "queries")
    rows = [row for row in every if row.group != OTHERS]
    texts = {row.query_id: row.text for row in rows}
    groups = {row.query_id: row.group for row in rows}
    read = sample(texts, min(_READ, len(texts)), seed=_SEED, purpose="map")
    columns = QueryColumns(tuple(read), tuple(texts[query_id] for query_id in read))
    embedded = embed_queries(columns, EncoderSpec("terms"))
    row_of = {query_id: row for row, query_id in enumerate(embedded.query_ids)}
    shown = sorted(sample(read, min(most, len(read)), seed=_SEED, purpose="shown"))
    terms = dataset.manifest.shifts["topics"].get("found", {}).get("terms")
    if not terms:
        by_group: dict[str, list[str]] = {}
        for row in every:
            by_group.setdefault(row.group, []).append(row.text)
        terms = top_terms(by_group)
    return TopicSample(
        shown,
        [groups[query_id] for query_id in shown],
        np.asarray(embedded.vectors[[row_of[query_id] for query_id in shown]]),
        terms,
        len(rows),
    )


def flatten(vectors: Vectors | Floats) -> Vectors:
    """Return points of the plane whose neighbours are the vectors' neighbours, by t-SNE.

    Args:
        vectors: shape (points, components).

    Returns:
        Shape (points, 2); the same for equal vectors, processor and version of scikit-learn.
        Vectors that are all the same are one point.
    """
    from sklearn import manifold

    if not np.ptp(vectors, axis=0).any():
        return np.zeros((len(vectors), 2), np.float32)
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    made = manifold.TSNE(
        perplexity=perplexity, init="pca", random_state=_SEED, max_iter=500, n_jobs=1
    )
    points: Vectors = made.fit_transform(np.asarray(vectors, dtype=np.float32))
    return points


def draw_topic_map(found: TopicSample) -> Drawn:
    """Draw queries as points, near each other if they share words, in the colour of their topic."""
    shift = get_shift("topics")
    points = flatten(found.vectors)
    groups = [group for group in shift.groups if group in set(found.groups)]
    figure = blank_figure(4.1 + 0.28 * len(groups))
    ax = figure.subplots()
    of_group = np.array(found.groups)
    for group, look in looks_of(groups).items():
        where = of_group == group
        words = ", ".join(found.terms.get(group, ())[:_TERMS])
        ax.plot(
            *points[where].T,
            look.marker,
            ls="",
            ms=2.6,
            mew=0,
            alpha=0.75,
            color=look.colour,
            label=fill(f"{group} ({where.sum():,}): {words}", 62, subsequent_indent="   "),
        )
        middle = np.median(points[where], axis=0)
        ax.text(
            middle[0],
            middle[1],
            group,
            ha="center",
            va="center",
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.8, "lw": 0},
        )
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_aspect("equal", "datalim")
    for side in ax.spines.values():
        side.set_visible(False)
    figure.legend(loc="outside lower left", frameon=False, fontsize=8, markerscale=2.2)
    rows: list[list[Value]] = [
        [query_id, group, float(x), float(y)]
        for query_id, group, (x, y) in zip(found.query_ids, found.groups, points, strict=True)
    ]
    said = "; ".join(
        f"{group}: {', '.join(found.terms.get(group, ())[:_TERMS])}" for group in groups
    )
    return ReportFigure(
        "topic-map",
        _TITLE,
        f"t-SNE of {len(rows):,} of {found.of:,} queries of the topics, by term vectors, which "
        "come from the words alone; the legend has the words that set a topic apart. Neighbours "
        "on the map have similar words; distances between far points and the sizes of clouds mean "
        "nothing.",
        f"A map of {len(rows):,} queries as points in {len(groups)} topics. {said}.",
        ("query_id", "group", "x", "y"),
        rows,
        figure,
    )
