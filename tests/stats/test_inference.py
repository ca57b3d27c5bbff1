"""Claims become figures: intervals, p-values, stars and ranks; and what holds for any scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from hypothesis.extra.numpy import arrays

from msshift_bench.arrays import Floats
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats import (
    DAGGER,
    FIXED,
    Claim,
    Estimate,
    Figure,
    Figures,
    Inference,
    adjust,
    infer,
    rank_ranges,
)
from tests.support.made_scores import RR10, losses, sides

GROUPS = ("C0", "C1", "C2", "C3")


def claims(seeds: int, system: str = "a", scale: float = 0.1) -> Iterator[Claim]:
    """Yield the claims of a system that loses more from group to group; one family of Rel Loss."""
    for number, group in enumerate(GROUPS):
        of_group = losses(*sides(number, seeds, 100, loss=scale * number), sample=group)
        for name, estimate in of_group.items():
            family = ("loss", "groups") if name == "rel_loss" else ()
            yield Claim(Figure(name, system=system, group=group, seeds=seeds), estimate, family)


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_p_values_are_corrected_over_their_family_alone(correction: str) -> None:
    settings = Inference(confidence=0.9, correction=correction)
    figures = infer(claims(3), settings)
    tested = figures.where(figure="rel_loss")
    alone = [infer([claim], settings)[0] for claim in claims(3) if claim.family]
    corrected = adjust({row.group: row.p for row in alone}, correction)
    assert {row.group: row.p for row in tested} == corrected
    assert {row.group: row.p_uncorrected for row in tested} == {row.group: row.p for row in alone}
    assert {row.family for row in tested} == {f"{correction} over 4 tests (groups)"}
    assert [row.interval for row in tested] == [row.interval for row in alone]
    untested = figures.where(figure=("avg_in", "out", "loss"))
    assert {(row.p, row.mark, row.family) for row in untested} == {(None, "", "")}


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_what_counts_queries_only_is_corrected_for_and_helps_nobody(correction: str) -> None:
    settings = Inference(correction=correction)
    found, nothing = (
        infer([*claims(1, "single", scale=scale), *claims(3, "several")], settings)
        for scale in (0.9, 0.0)
    )
    several = found.where(system="several", figure="rel_loss")
    assert list(several) == list(nothing.where(system="several", figure="rel_loss"))
    assert {row.family for row in several} == {f"{correction} over 8 tests (groups)"}
    rows = found.where(system="single", figure="rel_loss")
    assert rows[3].p < 1e-6
    assert rows[3].mark == DAGGER
    assert {row.mark for row in rows} <= {DAGGER, ""}
    assert {(row.counts, row.seed_sd, row.seed_share) for row in rows} == {
        ("queries only", None, None)
    }


def test_the_spread_over_seeds_by_hand() -> None:
    inside = np.array([[0.8, 0.4], [0.6, 0.2]])
    out = np.array([[0.3, 0.3], [0.2, 0.2]])
    named = {name: Claim(Figure(name), estimate) for name, estimate in losses(inside, out).items()}
    spread = {row.figure: row.seed_sd for row in infer(named.values(), Inference())}
    of_in, of_out = (np.std(means, ddof=1) for means in ([0.6, 0.4], [0.3, 0.2]))
    expected = {"avg_in": of_in, "out": of_out, "loss": of_out, "rel_loss": 0.0}
    assert spread == pytest.approx(expected)  # Each seed loses half.


def test_what_is_undefined_or_has_no_error_is_no_test() -> None:
    one_query = Estimate.mean(np.array([[0.5]]), FIXED, "short")
    rows = infer(
        [
            Claim(Figure("out", value=0.25)),
            Claim(Figure("rel_loss"), None, ("loss", "groups")),
            Claim(Figure("rel_loss"), one_query, ("loss", "groups")),
            *(claim for claim in claims(2) if claim.family),
        ],
        Inference(),
    )
    assert [(row.value, row.interval, row.p) for row in rows[:3]] == [
        (0.25, None, None), (None, None, None), (0.5, None, None),
    ]  # fmt: skip
    assert np.isnan(rows[1].number)
    assert rows[3].family == "holm over 4 tests (groups)"


@given(
    noise=st.integers(0, 10_000),
    seeds=st.integers(1, 5),
    loss=st.floats(0, 0.3),
    confidence=st.floats(0.5, 0.999),
)
@example(noise=0, seeds=1, loss=0.3, confidence=0.999)
def test_a_mark_never_stands_beside_an_interval_that_holds_zero_nor_below_the_floor(
    noise: int, seeds: int, loss: float, confidence: float
) -> None:
    estimate = losses(*sides(noise, seeds, 40, loss=loss))["rel_loss"]
    claims = [
        Claim(Figure("rel_loss", model=name), of, ("alone",))
        for name, of in (("trained", estimate), ("fixed", estimate.with_models_fixed()))
    ]
    trained, fixed = (infer([claim], Inference(confidence))[0] for claim in claims)
    for row in (trained, fixed):
        assert not (row.mark and row.low <= 0 <= row.high)
    assert trained.low <= fixed.low + 1e-9
    assert (trained.p or 0) >= (fixed.p or 0) - 1e-9


def test_an_interval_stays_inside_the_range_of_its_figure() -> None:
    estimate = Estimate.mean(np.array([[0.0, 0.0, 0.0, 1.0]]), FIXED, "short")
    inside, free = infer(
        [Claim(Figure("out"), estimate, bounds=(0.0, 1.0)), Claim(Figure("out"), estimate)],
        Inference(),
    )
    assert free.low < 0 == inside.low
    assert (inside.high, free.high) == (1.0, pytest.approx(0.5 - free.low))


def test_figures_are_looked_up_by_their_names() -> None:
    figures = infer(claims(1), Inference())
    assert (len(figures), len(figures.where(group="C1", figure=("out", "loss")))) == (16, 2)
    assert figures.first(group="C2") == figures[8]
    assert figures.first(group="C9") is None
    assert figures.names("group") == list(GROUPS)
    assert [(key, len(part)) for key, part in figures.each("system", "group")] == [
        (("a", group), 4) for group in GROUPS
    ]
    assert repr(figures) == "<Figures: 16 of avg_in, out, loss, rel_loss>"
    assert list(Figures([]).where(group="C0")) == []
    for look_up in (lambda: figures.where(grup="C0"), lambda: figures.names("grup"),
                    lambda: figures.each("system", "grup")):  # fmt: skip
        with pytest.raises(UnknownNameError, match=r"'grup'.*'group'"):
            look_up()


def test_corrections_by_hand_of_nothing_and_of_nonsense() -> None:
    p_values = {"a": 0.04, "none": None, "b": 0.01, "c": 0.03}
    assert adjust(p_values, "holm") == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})
    assert adjust(p_values, "bonferroni") == pytest.approx({"a": 0.12, "b": 0.03, "c": 0.09})
    assert adjust({}, "holm") == {}
    for wrong in (1.1, -0.1, float("nan")):
        with pytest.raises(UsageError, match="0 to 1"):
            adjust({"a": wrong}, "holm")


# ---- for any scores ------------------------------------------------------------------------------


Sides = tuple[Floats, Floats]


@st.composite
def drawn_sides(draw: st.DrawFn, max_seeds: int = 1) -> Sides:
    """RR@10 scores, or any scores from 0 to 100, in and out, on 2 to 40 queries."""
    values = draw(st.sampled_from([st.sampled_from(list(RR10)), st.floats(0, 100, width=32)]))
    shape = draw(st.integers(1, max_seeds)), draw(st.integers(2, 40))
    inside, out = (draw(arrays(np.float64, shape, elements=values)) for _ in range(2))
    return inside, out


def figures_of(sides: Sides, sign: int = 1) -> dict[str, Figure]:
    """Return the figures of one group, each tested by itself."""
    claims = [
        Claim(Figure(name), estimate, name) for name, estimate in losses(*sides, sign).items()
    ]
    return {row.figure: row for row in infer(claims, Inference())}


@given(drawn_sides(max_seeds=3))
def test_nothing_is_lost_when_in_equals_out(sides: Sides) -> None:
    rows = figures_of((sides[1], sides[1]))
    assert (rows["loss"].value, rows["loss"].interval, rows["loss"].p) == (0, (0, 0), 1)
    assert rows["rel_loss"].value in (None, 0)
    assert rows["rel_loss"].p in (None, 1)


@given(drawn_sides(max_seeds=3))
def test_intervals_contain_their_value_and_exclude_0_where_it_is_rejected(sides: Sides) -> None:
    for row in figures_of(sides).values():
        if row.interval is None:
            continue
        low, high = row.interval
        slack = 1e-9 * max(1, abs(low), abs(high))
        assert low - slack <= row.number <= high + slack
        if row.p is not None and min(abs(low), abs(high)) > slack:
            assert (row.p <= 0.05) == (not low <= 0 <= high)


Known = tuple[list[str], list[tuple[str, str]]]


@st.composite
def told_apart(draw: st.DrawFn, most: int = 12) -> Known:
    """Systems from the best to the worst, and any of their pairs."""
    order = [f"system-{number}" for number in range(draw(st.integers(1, most)))]
    draw(st.randoms(use_true_random=False)).shuffle(order)
    pairs = list(itertools.combinations(order, 2))
    chosen = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return order, list(itertools.compress(pairs, chosen))


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


def test_what_contradicts_the_order_is_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        rank_ranges(["a", "a"], [])
    for pair in (("b", "a"), ("a", "a"), ("a", "c")):
        with pytest.raises(ValueError, match="against the order"):
            rank_ranges(["a", "b"], [pair])
