"""Test queries of the words of a training query: counted per experiment, in card and manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.dataset_builders.near_training import count_same_words
from msshift_bench.dataset_builders.splits import ShiftSplits
from msshift_bench.records import Grouping, Row
from tests.conftest import Build

TRAIN = (("cheap flights", "short"), ("Rome, cheap flights to", "long"), ("red shoes", "long"))
TEST = (("Cheap flights?", "short"), ("cheap flights to rome", "short"), ("shoes red", "long"))


def rows(given: tuple[tuple[str, str], ...], groups: dict[str, str]) -> tuple[Row, ...]:
    return tuple(
        Row(str(place), text, groups[group], ("d",), (1,))
        for place, (text, group) in enumerate(given)
    )


@pytest.mark.parametrize(
    ("shift", "groups", "counts"),
    [
        # "Cheap flights?" is trained on by its own group alone, "shoes red" likewise.
        ("length", {"short": "short", "long": "long"}, {"short": 1, "long": 0}),
        ("restrain-14k", {"short": "interpolation", "long": "extrapolation"}, None),
    ],
)
def test_a_test_query_counts_where_others_train_on_its_words(
    shift: str, groups: dict[str, str], counts: dict[str, int] | None
) -> None:
    cut = ShiftSplits(
        Grouping(shift, {}, "rule", {}), {"train": rows(TRAIN, groups), "test": rows(TEST, groups)}
    )
    # Where groups are training sets, each has all test queries.
    wanted = counts or dict(zip(cut.shift.groups, (1, 2), strict=True))
    assert count_same_words(cut) == wanted


def test_card_and_manifest_say_it(build_once: Build) -> None:
    folder: Path = build_once("mini:300", "length")
    facts = json.loads((folder / "manifest.json").read_text())["shifts"]["length"]
    assert facts["same_words"] == {"short": 0, "long": 0}
    assert (
        "in the experiment that holds their group out: short 0, long 0."
        in (folder / "README.md").read_text()
    )
