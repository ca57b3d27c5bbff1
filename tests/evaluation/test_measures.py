from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import UnknownNameError
from msshift_bench.evaluation import parse_measure
from msshift_bench.runs import Judgements, judge_run

JUDGEMENTS = Judgements.from_qrels(
    {"a": {"r": 1, "s": 3, "n": 0}, "b": {"r": 1}, "none": {"n": 0}, "missing": {"r": 1}}
)
RUN = {
    "a": {"x": 9, "r": 8, "n": 7, "s": 6},
    "b": {"x": 9, "y": 8, "r": 7},
    "none": {"n": 1},
}
IDEAL = 3 / math.log2(2) + 1 / math.log2(3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RR", [1 / 2, 1 / 3, 0, 0]),
        ("RR@2", [1 / 2, 0, 0, 0]),
        ("MRR@10", [1 / 2, 1 / 3, 0, 0]),
        ("P@4", [2 / 4, 1 / 4, 0, 0]),
        ("R@2", [1 / 2, 0, 0, 0]),
        ("R@1000", [1, 1, 0, 0]),
        ("Success@1", [0, 0, 0, 0]),
        ("Success@3", [1, 1, 0, 0]),
        ("AP", [(1 / 2 + 2 / 4) / 2, 1 / 3, 0, 0]),
        ("AP@3", [(1 / 2) / 2, 1 / 3, 0, 0]),
        ("nDCG", [(1 / math.log2(3) + 3 / math.log2(5)) / IDEAL, 1 / 2, 0, 0]),
        ("nDCG@1", [0, 0, 0, 0]),
        ("nDCG@2", [1 / math.log2(3) / IDEAL, 0, 0, 0]),
        ("ASL@100", [(1 + 2) / 2, 2, 100, 100]),
        ("ASL@1", [1, 1, 1, 1]),
    ],
)
def test_values_worked_out_by_hand(name: str, expected: Any) -> None:
    values = parse_measure(name).per_query(judge_run(RUN, JUDGEMENTS))
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)


def test_a_documents_place_makes_its_reciprocal_rank_exactly() -> None:
    run = {"b": {f"x{n:04}": float(-n) for n in range(999)} | {"r": -2000.0}}
    assert parse_measure("RR").per_query(judge_run(run, JUDGEMENTS))[1] == 1 / 1000


def test_without_any_hit_every_measure_has_its_worst_value() -> None:
    run = judge_run({"a": {"x": 1.0}}, JUDGEMENTS)
    for name in ("RR@10", "P@5", "R@5", "Success@5", "AP", "nDCG@10"):
        assert parse_measure(name).per_query(run).tolist() == [0, 0, 0, 0]
    assert parse_measure("ASL@5").per_query(run).tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize(
    ("name", "canonical", "mean"),
    [
        ("rr@10", "RR@10", "MRR@10"),
        ("MRR", "RR", "MRR"),
        ("map", "AP", "MAP"),
        ("NDCG@10", "nDCG@10", "nDCG@10"),
        ("Recall@50", "R@50", "R@50"),
        ("ASL@100", "ASL@100", "ASL@100"),
    ],
)
def test_measures_are_named_as_ir_measures_names_them(
    name: str, canonical: str, mean: float
) -> None:
    measure = parse_measure(name)
    assert (str(measure), measure.name, measure.mean_name) == (canonical, canonical, mean)
    assert parse_measure(measure.name) == measure


def test_only_search_length_is_better_when_lower() -> None:
    names = ("RR@10", "nDCG@10", "AP@10", "P@10", "R@10", "Success@10", "ASL@10")
    lower = [name for name in names if not parse_measure(name).higher_is_better]
    assert lower == ["ASL@10"]


def test_a_zero_has_no_minus() -> None:
    assert parse_measure("RR@10").show(-1e-9) == "0.0"


@pytest.mark.parametrize("name", ["RR@0", "RR@-1", "R", "P", "Success", "ASL", "MMR@10", "", "RR@"])
def test_an_unknown_name_lists_the_native_ones(name: str) -> None:
    with pytest.raises(UnknownNameError, match="valid are RR, RR@k, nDCG"):
        parse_measure(name)


def test_best_and_worst_order_of_the_ties() -> None:
    judgements = Judgements.from_qrels({"q": {"a": 1, "b": 2}})
    run = judge_run({"q": {"a": 1, "b": 1, "x": 1, "y": 1, "z": 5}}, judgements)
    assert run.with_ties("best").hits.rank.tolist() == [2, 3]
    assert run.with_ties("best").hits.gain.tolist() == [2, 1]
    assert run.with_ties("worst").hits.rank.tolist() == [4, 5]
    assert run.with_ties("worst").hits.gain.tolist() == [1, 2]
