"""Comparing systems: differences, families of tests, stars, ranks and references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from msshift_bench.arrays import Floats
from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Result, Settings, differences_of
from msshift_bench.stats import Figure
from tests.support.made_scores import RR10, made_scores

Cubes = Mapping[str, Floats]
GROUPS = ("short", "long")


def system(
    loss: float, noise: int, *, seeds: int = 3, level: float = 1.0, queries: int = 400
) -> Cubes:
    """A system that loses about `loss`, on queries that all systems share."""
    cubes = {}
    for place, group in enumerate(GROUPS):
        difficulty = np.random.default_rng(place).choice(RR10, size=queries)
        cube = level * difficulty + np.random.default_rng([noise, place]).normal(
            0, 0.1, (seeds, 2, queries)
        )
        cube[:, place] -= level * loss * difficulty
        cubes[group] = cube
    return cubes


def compare(systems: Mapping[str, Cubes]) -> Result:
    scores = [made_scores(name, cubes) for name, cubes in systems.items()]
    return differences_of(scores, DataInfo(), Settings())


def difference(result: Result, first: str, second: str, **names: str) -> Figure:
    names = {"figure": "rel_loss", "group": "mean", **names}
    (row,) = result.figures.where(system=first, against=second, **names)
    return row


def turned(interval: tuple[float, float] | None) -> Any:
    """What the interval of the difference the other way round is about."""
    return pytest.approx((-interval[1], -interval[0]))


def ranks(result: Result) -> dict[str, tuple[float | None, float | None, float | None]]:
    rows = result.figures.where(figure="rank")
    return {row.system: (row.value, row.low, row.high) for row in rows}


def test_the_system_that_loses_less_is_found() -> None:
    result = compare({"a": system(0.05, 1), "b": system(0.25, 2)})
    row = difference(result, "a", "b")
    alone = [result.figures.where(system=name, against="", figure="rel_loss") for name in "ab"]
    assert row.value == pytest.approx(alone[0][2].number - alone[1][2].number)
    of_groups = [difference(result, "a", "b", group=group) for group in GROUPS]
    assert row.value == pytest.approx(np.mean([part.number for part in of_groups]))
    assert row.interval[0] < row.number < row.interval[1] < 0
    assert (row.p or 1) < 0.02
    assert (row.mark, row.counts, row.seeds, row.queries) == ("*", "queries and seeds", 3, 800)
    back = difference(compare({"b": system(0.25, 2), "a": system(0.05, 1)}), "b", "a")
    assert (back.interval, back.p) == (turned(row.interval), pytest.approx(row.p))


def test_undefined_losses_have_no_difference_and_no_place() -> None:
    nothing = {group: np.zeros((3, 2, 400)) for group in GROUPS}
    half = {**system(0.2, 2), "long": nothing["long"]}
    result = compare({"a": system(0.1, 1), "b": half, "c": nothing})
    row = difference(result, "a", "b", group="long")
    assert (row.value, row.interval, row.p) == (None, None, None)
    assert difference(result, "a", "b", group="short").p is not None
    assert difference(result, "a", "b").value is None
    assert list(ranks(result)) == ["a"]
    one_query = {
        name: {group: cube[:, :, :1] for group, cube in system(loss, 1, seeds=1).items()}
        for name, loss in (("a", 0.1), ("b", 0.2))
    }
    row = difference(compare(one_query), "a", "b", figure="out", group="short")
    assert row.value is not None
    assert (row.interval, row.p) == (None, None)


def test_two_starts_of_one_pretraining_each_have_an_interval_and_no_p() -> None:
    losses = {"a": 0.05, "b": 0.25, "c": 0.3}
    scores = [made_scores(name, system(loss, n)) for n, (name, loss) in enumerate(losses.items())]
    result = differences_of(scores, DataInfo(), Settings(), starts={("a", "b"), ("b", "a")})
    row, other = difference(result, "a", "b"), difference(result, "a", "c")
    assert row.interval
    assert (row.p, row.mark, row.family) == (None, "", "")
    assert other.family == "holm over 2 tests (pairs)"
    texts = [note.text for note in result.notes]
    assert any(text.startswith("a and b: the same baseline from two starts") for text in texts)
