"""From vectors to topics: selecting, growing, describing, and the tables that publish them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from msshift_bench.dataset_builders.clusters import (
    TARGET,
    TOPIC_SCALE_RULE,
    Clustering,
    cluster_queries,
    grow_groups,
    margins_summary,
    most_central,
    pairwise_distances,
    select_farthest,
    top_terms,
)
from msshift_bench.dataset_builders.kmeans import squared_distances
from msshift_bench.encoders import Embeddings
from msshift_bench.errors import DataError, IntegrityError
from msshift_bench.plumbing import reporting
from msshift_bench.records import OTHERS
from msshift_bench.search.query_words import STOP_WORDS
from msshift_bench.shifts import SHIFTS
from tests.support.refusals import check_refusals

Floats = NDArray[np.float64]


def total(distances: Floats, subset: tuple[int, ...]) -> float:
    return float(sum(distances[pair] for pair in combinations(subset, 2)))


def by_brute_force(distances: Floats, count: int) -> tuple[int, ...]:
    """The first of the best subsets in lexicographic order."""
    subsets = combinations(range(len(distances)), count)
    return max(subsets, key=lambda subset: total(distances, subset))


def instances() -> list[tuple[Floats, int]]:
    """Random ones, small: clouds, lattices (many ties), duplicates, points on a line."""
    rng = np.random.default_rng(2022)
    made = []
    for trial in range(200):
        k, d = int(rng.integers(2, 13)), int(rng.integers(1, 9))
        count = int(rng.integers(1, min(k, 6) + 1))
        points = rng.standard_normal((k, d))
        if trial % 4 == 1:
            points = rng.integers(0, 3, (k, d)).astype(np.float64)
        elif trial % 4 == 2:
            points = points[rng.integers(k, size=k)]
        elif trial % 4 == 3:
            points *= 10.0 ** rng.integers(-8, 8)
        made.append((points, count))
    return made


def test_it_equals_brute_force() -> None:
    for points, count in instances():
        distances = pairwise_distances(points)
        chosen = select_farthest(points, count)
        assert chosen == by_brute_force(distances, count)
        # no other subset is better by the distances before they were rounded
        exact = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
        best = max(total(exact, other) for other in combinations(range(len(points)), count))
        assert total(exact, chosen) == pytest.approx(best, rel=1e-11)


def test_sums_of_rounded_distances_are_exact() -> None:
    points = np.random.default_rng(0).standard_normal((90, 5))
    distances = pairwise_distances(points)
    values = distances[np.triu_indices(90, 1)]
    assert values.sum() == values[::-1].sum() == np.sort(values).cumsum()[-1]
    np.testing.assert_allclose(
        distances, np.linalg.norm(points[:, np.newaxis] - points, axis=2), rtol=0, atol=1e-10
    )


def test_corner_cases() -> None:
    for points in (np.eye(60), np.zeros((60, 2))):  # all subsets tie
        assert select_farthest(points) == (0, 1, 2, 3, 4)
    line = np.array([[0.0], [1.0], [5.0]])
    assert [select_farthest(line, count) for count in (1, 2, 3)] == [(0,), (0, 2), (0, 1, 2)]
    told: list[tuple[str, int, int]] = []
    with reporting(lambda *stage: told.append(stage)):
        select_farthest(np.eye(7), 5)
    assert told == [("selection", done, 3) for done in (1, 2, 3)]


_rng = np.random.default_rng(4)
_clouds = 4 * _rng.standard_normal((30, 12))
VECTORS: NDArray[np.float32] = (
    _clouds[_rng.integers(30, size=900)] + _rng.standard_normal((900, 12))
).astype(np.float32)


def embeddings(query_ids: Sequence[str], vectors: NDArray[np.float32]) -> Embeddings:
    return Embeddings(tuple(query_ids), vectors, "", {})


@pytest.fixture(scope="module")
def clustering() -> Clustering:
    return cluster_queries(embeddings(sorted(map(str, range(900))), VECTORS))


FEW = st.integers(-2, 2).map(float)
"""Among points of a lattice many are equally near."""


@given(
    st.sampled_from([FEW, st.floats(-10, 10)]).flatmap(
        lambda elements: arrays(np.float64, (12, 3), elements=elements)
    ),
    st.lists(st.integers(1, 9), min_size=12, max_size=12),
    st.permutations(range(12)),
    st.integers(2, 5),
    st.integers(1, 30),
)
def test_the_smallest_group_grows_by_what_is_nearest_to_its_native(
    centroids: Floats, sizes: list[int], order: list[int], count: int, target: int
) -> None:
    natives = order[:count]
    try:
        groups = grow_groups(centroids, sizes, natives, target)
    except DataError:
        # Every group but one may have outgrown the target by one cluster, no more.
        assert sum(sizes) < count * (target + max(sizes))
        return
    assert [native for native, *_ in groups] == sorted(natives)
    for group in groups:
        held = np.cumsum([sizes[cluster] for cluster in group])
        assert held[-1] >= target
        assert (held[:-1] < target).all()
    # They join one by one: of equal groups the first grows, of equally near clusters by the first.
    held_by = [sizes[native] for native, *_ in groups]
    queues = [list(group[1:]) for group in groups]
    free = set(range(12)) - set(natives)
    everyone = np.arange(12)
    while any(queues):
        smallest = held_by.index(min(held_by))
        native = np.full(12, groups[smallest][0])
        away = squared_distances(centroids, everyone, centroids, native)
        joining = queues[smallest].pop(0)
        assert joining == min(free, key=lambda cluster: (away[cluster], cluster))
        free.remove(joining)
        held_by[smallest] += sizes[joining]


def test_the_three_steps_are_put_together(clustering: Clustering) -> None:
    sizes = {"k": 45, "iterations": 25, "seed": 0, "target": 112, "groups": 5}
    assert clustering.parameters == sizes
    natives = select_farthest(clustering.centroids)
    assert clustering.groups == grow_groups(clustering.centroids, clustering.sizes, natives, 112)
    labels = clustering.labels_by_query()
    assert list(labels) == list(clustering.query_ids)
    assert set(labels.values()) == {"C0", "C1", "C2", "C3", "C4", OTHERS}
    for number, clusters in enumerate(clustering.groups):
        members = [query_id for query_id, group in labels.items() if group == f"C{number}"]
        assert len(members) == clustering.sizes[list(clusters)].sum() >= 112


@pytest.fixture
def cluster() -> Callable[..., Clustering]:
    """Return a function that clusters 400 queries."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((400, 4)).astype(np.float32)
    return partial(cluster_queries, embeddings([f"{number:03}" for number in range(400)], vectors))


def test_queries_that_are_set_aside_do_not_count_towards_the_target(
    cluster: Callable[..., Clustering],
) -> None:
    everything = cluster(k=20, target=30, groups=3)
    set_aside = frozenset(everything.query_ids[:200])
    counted = cluster(k=20, target=30, groups=3, set_aside=set_aside)
    labels = counted.labels_by_query()
    for group in ("C0", "C1", "C2"):
        members = {query_id for query_id in counted.query_ids if labels[query_id] == group}
        assert len(members - set_aside) >= 30
        assert members & set_aside
    assert sum(map(len, everything.groups)) < sum(map(len, counted.groups))
    # They are clustered as before, and counted where clusters are described.
    assert np.array_equal(everything.labels, counted.labels)
    assert counted.sizes.sum() == 400
    assert cluster(set_aside=set_aside).parameters["target"] == 25


def test_sizes_scale_with_the_collection(cluster: Callable[..., Clustering]) -> None:
    topics = SHIFTS["topics"]
    assert topics.train_size + topics.test_size == TARGET == 31_200
    for asked, expected in (({}, (20, 50, 5)), ({"k": 10, "target": 30, "groups": 3}, (10, 30, 3))):
        made = cluster(**asked)
        sizes = made.parameters["k"], made.parameters["target"], len(made.groups)
        assert sizes == expected
    assert TOPIC_SCALE_RULE == (
        "clusters: at most 1 per 20 queries; "
        "target: by default at most 1/8 of the queries per topic, without validation queries"
    )


def test_what_cannot_be_clustered(cluster: Callable[..., Clustering]) -> None:
    line, ids = np.arange(7.0)[:, np.newaxis], [f"{n:02}" for n in range(99)]
    refusals = {
        "UsageError 0 7": partial(select_farthest, line, 0),
        "UsageError 8 7": partial(select_farthest, line, 8),
        "DataError 7 C1 3 5": partial(grow_groups, line, [1] * 7, [0, 3], target=5),
        "DataError 99 100": partial(
            cluster_queries, embeddings(ids, np.zeros((99, 4), np.float32))
        ),
        "UsageError 20 21": partial(cluster, groups=21),
    }
    check_refusals(refusals)


def test_the_tables_say_what_joined_when(clustering: Clustering) -> None:
    _, centroids = clustering.to_tables()
    rows = centroids.to_pylist()
    for number, clusters in enumerate(clustering.groups):
        joined = {row["joined"]: row for row in rows if row["group"] == f"C{number}"}
        assert tuple(joined[place]["cluster"] for place in range(len(joined))) == clusters
        assert [place for place, row in joined.items() if row["native"]] == [0]
    assert {row["joined"] for row in rows if row["group"] == OTHERS} == {-1}
    assert sum(row["size"] for row in rows) == 900


def replace(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    place = table.column_names.index(column)
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    return table.set_column(place, field, pa.array(values, field.type))


Change = Callable[[pa.Table, pa.Table], tuple[pa.Table, pa.Table]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, c: (replace(a, "cluster", 3, 45), c), "index out of range"),
        (lambda a, c: (replace(a, "cluster", 3, -1), c), "negative"),
        (lambda a, c: (replace(a, "margin", 3, float("nan")), c), "margin of the assignments"),
        (lambda a, c: (replace(a, "margin", 3, None), c), "margin of the assignments"),
        (lambda a, c: (replace(a, "group", 3, "C9"), c), "group of the assignments"),
        (lambda a, c: (a.slice(1), c), "size of the centroids"),
        (lambda a, c: (a, c.slice(1)), "out of bounds"),
        (lambda a, c: (a, replace(c, "vector", 3, [1.0])), "inhomogeneous"),
        (lambda a, c: (a, replace(c, "size", 3, 7777)), "size of the centroids"),
        (lambda a, c: (a, replace(c, "joined", 3, 99)), "joined of the centroids"),
        (lambda a, c: (a, replace(c, "native", 3, not c["native"][3].as_py())), "native of the"),
        (lambda a, c: (a, replace(c, "group", 3, "C7")), "group of the centroids"),
        (lambda a, c: (a.drop_columns("margin"), c), "margin"),
        (lambda a, c: (a, a), "joined"),
        (lambda a, c: (replace(a, "query_id", 3, "!"), c), "query_ids must ascend"),
        (lambda a, c: (replace(a, "margin", 3, 1.5), c), "margins be from 0 to 1"),
        (lambda a, c: (a, replace(c, "vector", 3, [float("inf")] * 12)), "vectors be finite"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    clustering: Clustering, change: Change, message: str
) -> None:
    changed = change(*clustering.to_tables())
    with pytest.raises(IntegrityError, match=f"are not of one clustering: .*{message}"):
        Clustering.from_tables(*changed, clustering.parameters, {})


def test_parameters_must_fit_the_tables(clustering: Clustering) -> None:
    for parameters, message in (
        ({**clustering.parameters, "k": 44}, "k of the parameters, 44"),
        ({**clustering.parameters, "groups": 4}, "group of the assignments"),
        ({"k": 45}, "'groups'"),
    ):
        with pytest.raises(IntegrityError, match=message):
            Clustering.from_tables(*clustering.to_tables(), parameters, {})


def test_margins_are_summarised() -> None:
    margins = np.array([0, 5e-5, 5e-4, 5e-3, *[0.5] * 896])
    assert margins_summary(margins) == {
        "median": 0.5,
        "share below 1e-4": 2 / 900,
        "share below 1e-3": 3 / 900,
        "share below 1e-2": 4 / 900,
    }


TEXTS = {
    "C0": ["What is the cost of a pool?", "pool cost", "cost of a fence"],
    "C1": ["where is the Tumor", "tumor cost", "cells of a tumor"],
    "others": ["fence", "cells in a pool"],
}


def test_terms_are_weighed_by_equation_4() -> None:
    words = {
        group: [
            word
            for text in texts
            for word in text.lower().replace("?", "").split()
            if word not in STOP_WORDS and len(word) > 1
        ]
        for group, texts in TEXTS.items()
    }
    everywhere = Counter(word for group in words.values() for word in group)
    mean = sum(map(len, words.values())) / 3
    for group, terms in top_terms(TEXTS).items():
        weights = {
            word: count * math.log(1 + mean / everywhere[word])
            for word, count in Counter(words[group]).items()
        }
        assert set(terms) == set(weights)
        assert [weights[term] for term in terms] == sorted(weights.values(), reverse=True)
    assert top_terms(TEXTS)["C1"] == ("tumor", "cells", "cost")
    assert top_terms(TEXTS, count=1) == {"C0": ("cost",), "C1": ("tumor",), "others": ("cells",)}


def test_examples_are_the_clearest_queries_of_the_native_cluster() -> None:
    labels = np.array([0, 1, 0, 2, 0, 1, 0], np.int32)
    margins = np.array([0.5, 0.1, 0.9, 1.0, 0.5, 0.2, 0.1])
    examples = [most_central("abcdefg", margins, np.flatnonzero(labels == c), 3) for c in (0, 1)]
    assert examples == [("c", "a", "e"), ("f", "b")]


@pytest.mark.parametrize(
    ("texts", "terms"),
    [
        # Question words and single letters are left out.
        (
            ["What is a b12 vitamin", "how does X-ray WORK", "who"],
            ("b12", "ray", "vitamin", "work"),
        ),
        # Equal weights are in alphabetical order.
        (["pear apple plum"], ("apple", "pear", "plum")),
        (["ÉCOLE école 東京"], ("école", "東京")),
        ([], ()),
        (["the"], ()),
    ],
)
def test_what_is_a_term(texts: list[str], terms: tuple[str, ...]) -> None:
    assert top_terms({"C0": texts, "C1": ["zebra ant"]}) == {"C0": terms, "C1": ("ant", "zebra")}
    assert top_terms({}) == {}
