"""What holds of every cut, whatever the groups."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.dataset_builders.cut import Cut, cut_shift, sample_validation
from msshift_bench.records import OTHERS, PLACES, Grouping
from msshift_bench.shifts import SHIFTS
from tests.support.cut_rows import cut_rows, table_of_queries

GROUPS = tuple(SHIFTS["wh-words"].groups)
SIZES = st.fixed_dictionaries(
    {**{group: st.integers(9, 60) for group in GROUPS}, OTHERS: st.integers(0, 40)}
)


def cut(
    sizes: dict[str, int], seed: int, train_size: object, order: random.Random | None = None
) -> Cut:
    labelled = [(f"{group}{n}", group) for group, size in sizes.items() for n in range(size)]
    if order:
        order.shuffle(labelled)
    labels = dict(labelled)
    queries = table_of_queries({query_id: f"text of {query_id}" for query_id in labels})
    validation = sample_validation(labels, size=5, seed=seed)
    return cut_shift(
        Grouping("wh-words", labels, "word", {}),
        queries,
        validation,
        test_size=10,
        train_size=train_size,  # type: ignore[arg-type]
        seed=seed,
    )


@given(SIZES, st.integers(0, 3), st.randoms(use_true_random=False))
def test_training_sets_are_equal_and_nothing_is_lost(
    sizes: dict[str, int], seed: int, order: random.Random
) -> None:
    found = cut(sizes, seed, None)
    counts = found.counts()
    smallest = min(sum(counts[g][p] for p in ("train", "unused")) for g in GROUPS)
    assert {counts[group]["train"] for group in GROUPS} == {smallest}
    ids = {place: {row.query_id for row in cut_rows(found, place)} for place in PLACES}
    assert sum(map(len, ids.values())) == len(set().union(*ids.values()))
    grouped = {f"{group}{n}" for group in GROUPS for n in range(sizes[group])}
    assert set().union(*ids.values()) == grouped | ids["validation"]
    assert cut(sizes, seed, None, order).table == found.table


@given(SIZES, st.integers(0, 3), st.integers(1, 3))
def test_smaller_training_sets_are_parts_of_larger_ones(
    sizes: dict[str, int], seed: int, size: int
) -> None:
    few, default, everything = (
        set(cut_rows(cut(sizes, seed, train_size), "train")) for train_size in (size, None, "all")
    )
    assert len(few) == size * len(GROUPS)
    assert few <= default <= everything
