"""What must hold of the statistics for any scores, and of ranks for any pairs told apart."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from msshift_bench.arrays import Floats
from msshift_bench.stats import Claim, Figure, Inference, adjust, infer, rank_ranges
from tests.support.made_scores import RR10, losses

Sides = tuple[Floats, Floats]
NAMES = ("avg_in", "out", "loss", "rel_loss")


@st.composite
def drawn_sides(draw: st.DrawFn, max_seeds: int = 1) -> Sides:
    """RR@10 scores, or any scores from 0 to 100, in and out, on 2 to 40 queries."""
    values = draw(st.sampled_from([st.sampled_from(list(RR10)), st.floats(0, 100, width=32)]))
    shape = draw(st.integers(1, max_seeds)), draw(st.integers(2, 40))
    inside, out = (draw(arrays(np.float64, shape, elements=values)) for _ in range(2))
    return inside, out


def figures(sides: Sides, sign: int = 1) -> dict[str, Figure]:
    """Return the figures of one group, each tested by itself."""
    claims = [
        Claim(Figure(name), estimate, name) for name, estimate in losses(*sides, sign).items()
    ]
    return {row.figure: row for row in infer(claims, Inference())}


@given(drawn_sides(max_seeds=3))
def test_nothing_is_lost_when_in_equals_out(sides: Sides) -> None:
    rows = figures((sides[1], sides[1]))
    assert (rows["loss"].value, rows["loss"].interval, rows["loss"].p) == (0, (0, 0), 1)
    assert rows["rel_loss"].value in (None, 0)
    assert rows["rel_loss"].p in (None, 1)


@given(drawn_sides(max_seeds=3), st.randoms(use_true_random=False))
def test_values_do_not_depend_on_the_order_of_queries(
    sides: Sides, shuffler: random.Random
) -> None:
    order = list(range(sides[0].shape[1]))
    shuffler.shuffle(order)
    inside, out = sides
    rows, shuffled = figures(sides), figures((inside[:, order], out[:, order]))
    for name in NAMES:
        assert shuffled[name].value == rows[name].value
        scale = 1e-7 * max(1.0, inside.max(), out.max())
        if rows[name].interval is not None:
            assert shuffled[name].interval == pytest.approx(
                rows[name].interval, rel=1e-6, abs=scale
            )


@given(drawn_sides(max_seeds=2), st.integers(-20, 20))
def test_rel_loss_does_not_depend_on_the_scale_of_the_measure(sides: Sides, power: int) -> None:
    factor = 2.0**power
    rows, scaled = figures(sides), figures((factor * sides[0], factor * sides[1]))
    assert scaled["rel_loss"] == rows["rel_loss"]
    assert scaled["avg_in"].value == factor * rows["avg_in"].number
    assert scaled["loss"].p == rows["loss"].p


@given(drawn_sides(max_seeds=2), st.integers(0, 100))
def test_a_loss_does_not_depend_on_where_the_measure_begins(sides: Sides, shift: int) -> None:
    rows, shifted = figures(sides), figures((sides[0] + shift, sides[1] + shift))
    scale = 1e-7 * (100 + shift)
    assert shifted["loss"].value == pytest.approx(rows["loss"].value, abs=scale)
    assert shifted["loss"].interval == pytest.approx(rows["loss"].interval, abs=scale, rel=1e-6)


@given(drawn_sides(max_seeds=3))
def test_intervals_contain_their_value_and_exclude_0_where_it_is_rejected(sides: Sides) -> None:
    for row in figures(sides).values():
        if row.interval is None:
            continue
        low, high = row.interval
        slack = 1e-9 * max(1, abs(low), abs(high))
        assert low - slack <= row.number <= high + slack
        if row.p is not None and min(abs(low), abs(high)) > slack:
            assert (row.p <= 0.05) == (not low <= 0 <= high)


@given(drawn_sides(max_seeds=2))
def test_the_direction_of_a_measure_turns_losses_and_nothing_else(sides: Sides) -> None:
    higher, lower = figures(sides), figures(sides, sign=-1)
    assert (lower["avg_in"], lower["out"]) == (higher["avg_in"], higher["out"])
    for name in ("loss", "rel_loss"):
        if higher[name].value is None:
            assert lower[name].value is None
            continue
        assert lower[name].value == -higher[name].number
        turned = tuple(-end for end in reversed(higher[name].interval))
        assert lower[name].interval == pytest.approx(turned, rel=1e-9, abs=1e-9)
        assert lower[name].p == (None if (p := higher[name].p) is None else pytest.approx(p))


@given(drawn_sides(max_seeds=3), st.data())
def test_comparing_the_other_way_round_turns_the_sign(a: Sides, data: st.DataObject) -> None:
    shape = data.draw(st.integers(1, 3)), a[0].shape[1]
    b = [data.draw(arrays(np.float64, shape, elements=st.sampled_from(list(RR10))))] * 2
    first, second = (losses(*of, training=name)["out"] for of, name in ((a, "a"), (b, "b")))
    rows = [
        infer([Claim(Figure("out"), difference, "pair")], Inference())[0]
        for difference in (first - second, second - first)
    ]
    assert rows[0].value == -rows[1].number
    assert rows[0].p == (None if rows[1].p is None else pytest.approx(rows[1].p, rel=1e-9))
    turned = tuple(-end for end in reversed(rows[1].interval))
    assert rows[0].interval == pytest.approx(turned, rel=1e-9, abs=1e-9)


P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def corrected(p: list[float], correction: str) -> list[float]:
    return list(adjust(dict(enumerate(p)), correction).values())


@given(P_VALUES, st.randoms(use_true_random=False))
def test_corrections_raise_p_values_keep_their_order_and_do_not_depend_on_that_of_tests(
    p: list[float], shuffler: random.Random
) -> None:
    order = list(range(len(p)))
    shuffler.shuffle(order)
    holm, fdr = (corrected(p, name) for name in ("holm", "benjamini-hochberg"))
    for name, values in (("holm", holm), ("benjamini-hochberg", fdr)):
        assert max(values, default=0) <= 1
        assert all(after >= before - 1e-15 for before, after in zip(p, values, strict=True))
        assert (np.diff(np.array(values)[np.argsort(p, kind="stable")]) >= 0).all()
        assert corrected([p[i] for i in order], name) == [values[i] for i in order]
    assert all(weak <= strong + 1e-15 for weak, strong in zip(fdr, holm, strict=True))


Known = tuple[list[str], list[tuple[str, str]]]


@st.composite
def told_apart(draw: st.DrawFn, most: int = 12) -> Known:
    """Systems from the best to the worst, and any of their pairs."""
    order = [f"system-{number}" for number in range(draw(st.integers(1, most)))]
    draw(st.randoms(use_true_random=False)).shuffle(order)
    pairs = list(itertools.combinations(order, 2))
    chosen = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return order, list(itertools.compress(pairs, chosen))


@given(told_apart())
def test_a_rank_lies_in_its_range_and_the_better_of_two_has_the_smaller(known: Known) -> None:
    order, apart = known
    ranges = rank_ranges(order, apart)
    assert list(ranges) == order
    for place, name in enumerate(order, 1):
        best, worst = ranges[name]
        assert 1 <= best <= place <= worst <= len(order)
        assert ranges[name].rank == best
    for better, worse in apart:
        assert ranges[better].rank < ranges[worse].rank
        assert ranges[better].worst < ranges[worse].worst


@given(told_apart(most=5))
def test_a_range_holds_the_places_in_all_orders_that_agree(known: Known) -> None:
    order, apart = known
    places: dict[str, set[int]] = {name: set() for name in order}
    for permuted in itertools.permutations(order):
        if all(permuted.index(better) < permuted.index(worse) for better, worse in apart):
            for place, name in enumerate(permuted, 1):
                places[name].add(place)
    for name, (best, worst) in rank_ranges(order, apart).items():
        assert places[name] == set(range(best, worst + 1))


@given(st.integers(1, 9))
def test_ranks_where_all_or_no_pairs_are_told_apart(systems: int) -> None:
    order = [str(number) for number in range(systems)]
    pairs = list(itertools.combinations(order, 2))
    assert set(rank_ranges(order, []).values()) == {(1, systems)}
    assert list(rank_ranges(order, pairs).values()) == [(n, n) for n in range(1, systems + 1)]


def test_what_contradicts_the_order_is_refused() -> None:
    with pytest.raises(ValueError, match="different names"):
        rank_ranges(["a", "a"], [])
    for pair in (("b", "a"), ("a", "a"), ("a", "c")):
        with pytest.raises(ValueError, match="against the order"):
            rank_ranges(["a", "b"], [pair])
