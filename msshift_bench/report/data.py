"""The queries: what the groups are about, and how many they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.data import Dataset
from msshift_bench.dataset_builders.clusters import top_terms
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.output import PALE_INK, SHADES, looks_of
from msshift_bench.records import OTHERS
from msshift_bench.report.drawing import (
    ABOVE,
    MIDDLE,
    NotDrawn,
    Picture,
    blank_axes,
    draw_points,
    name_rows,
    rule_between,
)
from msshift_bench.report.inputs import Inputs
from msshift_bench.shifts import Shift, get_shift, grouped
from msshift_bench.stats import Figure, Figures

_MOST_POINTS = 1_000
"""Queries on the map of topics: more take minutes, and hide each other."""

_READ = 20_000
"""Queries whose words the vectors of the map are made from."""

_SEED = 0
_PERPLEXITY = 30
_TERMS = 6

_FILLS = {
    "train": (SHADES[8], ""),
    "validation": (SHADES[1], "...."),
    "test": ("#d55e00", ""),
    "unused": ("white", "////"),
}
"""Split -> its colour and hatching; in greyscale they differ, too."""


def data_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw the map of the topics, then the groups of the shifts."""
    yield _topic_map(inputs.dataset)
    yield _composition(inputs)


def _topic_map(dataset: Dataset) -> Picture | NotDrawn:
    """Draw queries as points, near each other if they share words, in the colour of their topic.

    Equal data give the same queries and the same points.
    """
    title = "Map of the topics"
    if "topics" not in dataset.manifest.shifts:
        remedy = (
            f"build the topics, too: `msshift build topics --collection {dataset.info.collection} "
            "--out msshift-topics`"
        )
        return NotDrawn(title, "the data set has no topics", remedy)
    if not dataset.manifest.texts:
        return NotDrawn(title, "the data set holds no texts", "`msshift import` puts them back")
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
    topics = [group for group in get_shift("topics").groups if group in of_point]
    terms = dataset.manifest.shifts["topics"].get("found", {}).get("terms")
    if not terms:
        # The words that set a topic apart from all queries, those of no topic included.
        terms = top_terms(grouped((row.group, row.text) for row in rows), words=dataset.words)
    words = {topic: ", ".join(terms.get(topic, ())[:_TERMS]) for topic in topics}
    drawing, ax = blank_axes(4.1 + 0.28 * len(topics))
    for topic, look in looks_of(topics).items():
        cloud = points[of_point == topic]
        label = fill(f"{topic} ({len(cloud):,}): {words[topic]}", 62, subsequent_indent="   ")
        draw_points(ax, look, *cloud.T, ms=2.6, mew=0, alpha=0.75, label=label)
        frame = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.8, "lw": 0}
        x, y = np.median(cloud, axis=0)
        ax.text(x, y, topic, fontweight="bold", bbox=frame, **MIDDLE)
    ax.set_axis_off()
    ax.set_aspect("equal", "datalim")
    drawing.legend(loc="outside lower left", frameon=False, fontsize=8, markerscale=2.2)
    topics_in_words = "; ".join(f"{topic}: {words[topic]}" for topic in topics)
    return Picture(
        "topic-map",
        title,
        f"t-SNE of {len(shown):,} of {len(of_topics):,} queries of the topics, by term vectors, "
        "which come from the words alone; the legend has the words that set a topic apart. "
        "Neighbours on the map have similar words; distances between far points and the sizes of "
        "clouds mean nothing.",
        f"A map of {len(shown):,} queries as points in {len(topics)} topics. {topics_in_words}.",
        [
            (query_id, topic, float(x), float(y))
            for query_id, topic, (x, y) in zip(shown, of_point.tolist(), points, strict=True)
        ],
        drawing,
        ("query_id", "group", "x", "y"),
    )


def _flatten(vectors: Vectors) -> Vectors:
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
    points: Vectors = manifold.TSNE(
        perplexity=perplexity, init="pca", random_state=_SEED, max_iter=500, n_jobs=1
    ).fit_transform(np.asarray(vectors, dtype=np.float32))
    return points


def _sizes(dataset: Dataset, shift: Shift) -> Iterator[Figure]:
    """Yield how many queries of each group of a shift are for what."""
    table = dataset.table(shift.name, "queries")
    counts = Counter(zip(table["group"].to_pylist(), table["split"].to_pylist(), strict=True))
    tests = dataset.test_sets(shift)
    for group in shift.groups:
        test = {row.query_id for row in tests[shift.test_set_of(group)]}
        for split in _FILLS:
            count = len(test) if split == "test" else counts[group, split]
            yield Figure("queries", shift=shift.name, group=group, slice=split, value=count)


def _composition(inputs: Inputs) -> Picture:
    """Draw how the queries of every group are divided."""
    shifts = [shift for shift, _ in inputs.shifts]
    rows = Figures([row for shift in shifts for row in _sizes(inputs.dataset, shift)])
    groups = [names for names, _ in rows.each("shift", "group")]
    drawing, ax = blank_axes(0.75 + 0.24 * len(groups) + 0.1 * len(shifts))
    left = np.zeros(len(groups))
    for split, (colour, hatch) in _FILLS.items():
        counts = [row.number for row in rows.where(slice=split)]
        bars: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": PALE_INK, "lw": 0.6}
        ax.barh(range(len(groups)), counts, 0.66, left, label=split, **bars)
        left += counts
    rule_between(ax, [shift for shift, _ in groups])
    name_rows(ax, [group for _, group in groups])
    ax.set(xlim=(0, None), xlabel="queries")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.legend(ncols=4, **ABOVE)
    abouts, totals = [], []
    for shift in shifts:
        about = inputs.dataset.manifest.describe_groups(shift.name)
        in_words = ", ".join(f"{group} ({about[group]})" for group in shift.groups)
        abouts.append(f"{shift.title}: {in_words}")
        total = sum(row.number for row in rows.where(shift=shift.name))
        totals.append(f"{shift.title.lower()} {total:,.0f}")
    sizes = ", ".join(
        f"{train.group} {train.number:,.0f} to train on and {test.number:,.0f} to test with"
        for train, test in zip(rows.where(slice="train"), rows.where(slice="test"), strict=True)
    )
    return Picture(
        "composition",
        "Composition of the groups",
        f"The queries of each group by what they are for; unused ones keep the training sets equal "
        f"in size. {'; '.join(abouts)}. Queries in all: {', '.join(totals)}.",
        f"Stacked bars, one per group: {sizes}.",
        rows,
        drawing,
    )
