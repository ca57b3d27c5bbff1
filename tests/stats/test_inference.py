"""Claims become figures: intervals, corrected p-values, stars; and how figures are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.stats import (
    FIXED,
    Claim,
    Estimate,
    Figure,
    Figures,
    Inference,
    adjust,
    infer,
)
from tests.support.made_scores import losses, sides

GROUPS = ("C0", "C1", "C2", "C3")


def claims(seeds: int, system: str = "a", scale: float = 0.1) -> Iterator[Claim]:
    """Yield the claims of a system that loses more from group to group; one family of Rel Loss."""
    for number, group in enumerate(GROUPS):
        of_group = losses(*sides(number, seeds, 100, loss=scale * number), sample=group)
        for name, estimate in of_group.items():
            family = "groups" if name == "rel_loss" else None
            yield Claim(Figure(name, system=system, group=group, seeds=seeds), estimate, family)


def test_p_is_at_most_5_percent_exactly_where_the_interval_excludes_zero() -> None:
    decided = set()
    for seed in range(60):
        estimate = losses(*sides(seed, 1 + seed % 4, 80, loss=0.1))["rel_loss"]
        (row,) = infer([Claim(Figure("rel_loss"), estimate, "alone")], Inference())
        assert row.interval is not None
        assert row.p is not None
        assert (row.p <= 0.05) == (not row.interval[0] <= 0 <= row.interval[1])
        assert row.star == (row.p <= 0.05 and row.counts == "queries and seeds")
        decided.add(row.p <= 0.05)
    assert decided == {True, False}


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_p_values_are_corrected_over_their_family_alone(correction: str) -> None:
    settings = Inference(confidence=0.9, correction=correction)
    figures = infer(claims(3), settings)
    tested = figures.where(figure="rel_loss")
    alone = [
        infer([Claim(named, estimate, family)], settings)[0]
        for named, estimate, family in claims(3)
        if family is not None
    ]
    corrected = adjust({row.group: row.p for row in alone}, correction)
    assert {row.group: row.p for row in tested} == corrected
    assert {row.family for row in tested} == {f"{correction} over 4 tests"}
    assert [row.interval for row in tested] == [row.interval for row in alone]
    untested = figures.where(figure=("avg_in", "out", "loss"))
    assert {(row.p, row.star, row.family) for row in untested} == {(None, False, "")}


def test_what_counts_queries_only_is_a_family_of_its_own_without_stars() -> None:
    single = list(claims(1, "single", scale=0.9))
    alone = infer(claims(3, "several"), Inference())
    together = infer([*single, *claims(3, "several")], Inference())
    assert list(together.where(system="several")) == list(alone)
    rows = together.where(system="single", figure="rel_loss")
    assert rows[3].p is not None
    assert rows[3].p < 1e-6
    assert not any(row.star for row in rows)
    assert {(row.counts, row.seed_sd, row.seed_share) for row in rows} == {
        ("queries only", None, None)
    }


def test_the_spread_over_seeds_by_hand() -> None:
    inside = np.array([[0.8, 0.4], [0.6, 0.2]])
    out = np.array([[0.3, 0.3], [0.2, 0.2]])
    named = {name: Claim(Figure(name), estimate) for name, estimate in losses(inside, out).items()}
    spread = {row.figure: row.seed_sd for row in infer(named.values(), Inference())}
    assert spread["avg_in"] == pytest.approx(np.std([0.6, 0.4], ddof=1))
    assert spread["out"] == pytest.approx(np.std([0.3, 0.2], ddof=1))
    assert spread["loss"] == pytest.approx(np.std([0.3, 0.2], ddof=1))
    assert spread["rel_loss"] == pytest.approx(0.0)  # Each seed loses half.


def test_what_is_undefined_or_has_no_error_is_no_test() -> None:
    one_query = Estimate.mean(np.array([[0.5]]), FIXED, "short")
    rows = infer(
        [
            Claim(Figure("out", value=0.25)),
            Claim(Figure("rel_loss"), None, "groups"),
            Claim(Figure("rel_loss"), one_query, "groups"),
            *(claim for claim in claims(2) if claim.family),
        ],
        Inference(),
    )
    assert [(row.value, row.interval, row.p) for row in rows[:3]] == [
        (0.25, None, None), (None, None, None), (0.5, None, None),
    ]  # fmt: skip
    assert np.isnan(rows[1].number)
    assert rows[3].family == "holm over 4 tests"


def test_figures_are_looked_up_by_their_names() -> None:
    figures = infer(claims(1), Inference())
    assert (len(figures), len(figures.where(group="C1", figure=("out", "loss")))) == (16, 2)
    assert figures.first(group="C2") == figures[8]
    assert figures.first(group="C9") is None
    assert figures.names("group") == list(GROUPS)
    assert [(key, len(part)) for key, part in figures.each("system", "group")] == [
        (("a", group), 4) for group in GROUPS
    ]
    assert list(figures[1:3]) == list(figures)[1:3]
    assert repr(figures) == "<Figures: 16 of avg_in, out, loss, rel_loss>"
    assert list(Figures([]).where(group="C0")) == []
    with pytest.raises(UnknownNameError, match="unknown column of figures 'grup': did you mean"):
        figures.where(grup="C0")


@pytest.mark.parametrize(
    ("correction", "expected"),
    [("holm", [0.06, 0.03, 0.06]), ("benjamini-hochberg", [0.04, 0.03, 0.04])],
)
def test_corrections_by_hand_of_nothing_and_of_nonsense(
    correction: str, expected: list[float]
) -> None:
    p_values = {"a": 0.04, "none": None, "b": 0.01, "c": 0.03}
    corrected = adjust(p_values, correction)
    assert corrected == pytest.approx(dict(zip("abc", expected, strict=True)))
    assert adjust({}, correction) == {}
    for wrong in (1.1, -0.1, float("nan")):
        with pytest.raises(UsageError, match="numbers from 0 to 1"):
            adjust({"a": wrong}, correction)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"confidence": 1.0}, "strictly between 0 and 1, not 1.0"),
        ({"confidence": 95}, "not 95"),
        ({"correction": "holms"}, "unknown correction 'holms': did you mean 'holm'"),
        ({"average": "micro"}, "unknown average 'micro'.*macro"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message):
        Inference(**wrong)
