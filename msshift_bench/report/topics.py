"""Map of the topics: queries as points, near each other if they have similar words."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.output import styles_of
from msshift_bench.records import OTHERS
from msshift_bench.report.drawing import MIDDLE, Chart, Picture, blank_axes, draw_points
from msshift_bench.report.inputs import Inputs, Missing
from msshift_bench.shifts import get_shift

_MOST_POINTS = 1_000
"""Maximum number of queries on the map: more take minutes, and hide each other."""

_READ = 20_000
"""Maximum number of queries whose words determine the vectors of the map."""

_SEED = 0
_PERPLEXITY = 30
_LEGEND_LETTERS = 50


def draw_topics(inputs: Inputs) -> Chart | Missing:
    """Return a map of queries in the colours of their topics, or the reason why there is none.

    Equal data give the same queries and points.
    """
    dataset = inputs.dataset
    if "topics" not in dataset.manifest.shifts:
        remedy = (
            f"build the topics, too: `msshift build topics --collection {dataset.info.collection} "
            "--out msshift-topics`"
        )
        return "the data set has no topics", remedy
    if not dataset.manifest.texts:
        return "the data set contains no texts", "run `msshift import`, which adds texts"
    rows = dataset.rows("topics", "queries")
    of_topics = {row.query_id: row for row in rows if row.group != OTHERS}
    read = sample(of_topics, min(_READ, len(of_topics)), seed=_SEED, purpose="map")
    embedded = embed_queries(
        {query_id: of_topics[query_id].text for query_id in read},
        EncoderSpec("terms", words=dataset.words),
    )
    place_of = {query_id: place for place, query_id in enumerate(embedded.query_ids)}
    shown = sorted(sample(read, min(_MOST_POINTS, len(read)), seed=_SEED, purpose="shown"))
    points = _flatten(embedded.vectors[[place_of[query_id] for query_id in shown]])
    of_point = np.array([of_topics[query_id].group for query_id in shown])
    shift = get_shift("topics")
    topics = [group for group in shift.groups if group in of_point]
    words = dataset.manifest.describe_groups("topics")
    drawing, ax = blank_axes(3.3 + 0.2 * len(topics))
    frame = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.8, "lw": 0}
    for topic, look in styles_of(topics).items():
        cloud = points[of_point == topic]
        label = fill(f"{topic}: {words[topic]}", _LEGEND_LETTERS, subsequent_indent="   ")
        draw_points(ax, look, *cloud.T, ms=2.6, mew=0, alpha=0.75, label=label)
        x, y = np.median(cloud, axis=0)
        ax.text(x, y, topic, fontweight="bold", bbox=frame, **MIDDLE)
    ax.set_axis_off()
    ax.set_aspect("equal", "datalim")
    place: dict[str, Any] = {"loc": "outside lower left", "frameon": False}
    drawing.legend(fontsize=8, markerscale=2.2, **place)
    in_words = "; ".join(f"{topic}: {words[topic]}" for topic in topics)
    picture = Picture(
        "topic-map",
        f"A map of {len(shown):,} queries as points in {len(topics)} topics. {in_words}.",
        [
            (query_id, topic, float(x), float(y))
            for query_id, topic, (x, y) in zip(shown, of_point.tolist(), points, strict=True)
        ],
        drawing,
        ("query_id", "group", "x", "y"),
    )
    caption = (
        f"t-SNE of {len(shown):,} of {len(of_topics):,} queries by term vectors, which depend on "
        "words only. Neighbours on the map have similar words. Distances between far points and "
        "the sizes of clouds have no meaning."
    )
    return Chart("Which topics are close to each other?", caption, [picture])


def _flatten(vectors: Vectors) -> Vectors:
    """Return two-dimensional points by t-SNE, in which neighbours of vectors are near each other.

    Args:
        vectors: vectors of shape (points, components).

    Returns:
        Shape (points, 2); the same for equal vectors, CPU and version of scikit-learn. If all
        vectors are equal, all points are equal.
    """
    from sklearn import manifold

    if not np.ptp(vectors, axis=0).any():
        return np.zeros((len(vectors), 2), np.float32)
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    points: Vectors = manifold.TSNE(
        perplexity=perplexity, init="pca", random_state=_SEED, max_iter=500, n_jobs=1
    ).fit_transform(np.asarray(vectors, dtype=np.float32))
    return points
