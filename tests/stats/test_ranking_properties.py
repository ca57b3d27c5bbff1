"""What must hold of ranks for any pairs told apart."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.stats import rank_ranges


@st.composite
def told_apart(draw: st.DrawFn, most: int = 12) -> tuple[list[str], list[tuple[str, str]]]:
    """Systems from the best to the worst, and any of their pairs."""
    order = [f"system-{number}" for number in range(draw(st.integers(1, most)))]
    draw(st.randoms(use_true_random=False)).shuffle(order)
    pairs = list(itertools.combinations(order, 2))
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return order, list(itertools.compress(pairs, kept))


@given(told_apart())
def test_a_rank_lies_in_its_range(known: tuple[list[str], list[tuple[str, str]]]) -> None:
    order, apart = known
    found = rank_ranges(order, apart)
    assert list(found) == order
    for place, one in enumerate(found.values(), 1):
        assert 1 <= one.best <= one.rank <= one.worst <= len(order)
        assert one.best <= place <= one.worst


@given(told_apart())
def test_the_better_of_two_told_apart_has_the_smaller_rank(
    known: tuple[list[str], list[tuple[str, str]]],
) -> None:
    order, apart = known
    found = rank_ranges(order, apart)
    for better, worse in apart:
        assert found[better].rank < found[worse].rank
        assert found[better].worst < found[worse].worst


@given(told_apart(most=5))
def test_a_range_holds_the_places_in_all_orders_that_agree(
    known: tuple[list[str], list[tuple[str, str]]],
) -> None:
    order, apart = known
    places: dict[str, set[int]] = {name: set() for name in order}
    for other in itertools.permutations(order):
        if all(other.index(better) < other.index(worse) for better, worse in apart):
            for place, name in enumerate(other, 1):
                places[name].add(place)
    for name, one in rank_ranges(order, apart).items():
        assert places[name] == set(range(one.best, one.worst + 1))


@given(st.integers(1, 9))
def test_ranks_where_all_or_no_pairs_are_told_apart(systems: int) -> None:
    order = [str(number) for number in range(systems)]
    pairs = list(itertools.combinations(order, 2))
    assert {(one.rank, one.worst) for one in rank_ranges(order, []).values()} == {(1, systems)}
    ranked = [(one.rank, one.worst) for one in rank_ranges(order, pairs).values()]
    assert ranked == [(place, place) for place in range(1, systems + 1)]


def test_what_contradicts_the_order_is_refused() -> None:
    with pytest.raises(ValueError, match="different names"):
        rank_ranges(["a", "a"], [])
    for pair in (("b", "a"), ("a", "a"), ("a", "c")):
        with pytest.raises(ValueError, match="against the order"):
            rank_ranges(["a", "b"], [pair])
