"""Measures by hand, their names, and which of them this package computes itself."""

from __future__ import annotations

import math

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
NOTHING = {"a": {"x": 1.0}}
LAST = {"b": {f"x{n:04}": float(-n) for n in range(999)} | {"r": -2000.0}}


@pytest.mark.parametrize(
    ("run", "name", "expected"),
    [
        (RUN, "RR", [1 / 2, 1 / 3, 0, 0]),
        (RUN, "RR@2", [1 / 2, 0, 0, 0]),
        (RUN, "MRR@10", [1 / 2, 1 / 3, 0, 0]),
        (RUN, "P@4", [2 / 4, 1 / 4, 0, 0]),
        (RUN, "R@2", [1 / 2, 0, 0, 0]),
        (RUN, "R@1000", [1, 1, 0, 0]),
        (RUN, "Success@1", [0, 0, 0, 0]),
        (RUN, "Success@3", [1, 1, 0, 0]),
        (RUN, "AP", [(1 / 2 + 2 / 4) / 2, 1 / 3, 0, 0]),
        (RUN, "AP@3", [(1 / 2) / 2, 1 / 3, 0, 0]),
        (RUN, "nDCG", [(1 / math.log2(3) + 3 / math.log2(5)) / IDEAL, 1 / 2, 0, 0]),
        (RUN, "nDCG@1", [0, 0, 0, 0]),
        (RUN, "nDCG@2", [1 / math.log2(3) / IDEAL, 0, 0, 0]),
        (RUN, "ASL@100", [(1 + 2) / 2, 2, 100, 100]),
        (RUN, "ASL@1", [1, 1, 1, 1]),
        *((NOTHING, name, [0] * 4) for name in ("RR@10", "P@5", "R@5", "Success@5", "AP", "nDCG")),
        (NOTHING, "ASL@5", [5] * 4),
        (LAST, "RR", [0, 1 / 1000, 0, 0]),
    ],
)
def test_values_worked_out_by_hand(
    run: dict[str, dict[str, float]], name: str, expected: list[float]
) -> None:
    values = parse_measure(name).per_query(judge_run(run, JUDGEMENTS))
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "canonical", "mean"),
    [
        ("rr@10", "RR@10", "MRR@10"),
        ("MRR", "RR", "MRR"),
        ("map", "AP", "MAP"),
        ("NDCG@10", "nDCG@10", "nDCG@10"),
        ("Recall@50", "R@50", "R@50"),
        ("ASL@100", "ASL@100", "ASL@100"),
        # Parameters that change nothing leave a native measure native.
        ("RR(rel=1)@10", "RR@10", "MRR@10"),
        ("AP(judged_only=False)", "AP", "MAP"),
        ("R(rel=1)@5", "R@5", "R@5"),
    ],
)
def test_measures_are_named_as_ir_measures_names_them(name: str, canonical: str, mean: str) -> None:
    measure = parse_measure(name)
    assert (str(measure), measure.name, measure.mean_name) == (canonical, canonical, mean)
    assert (parse_measure(measure.name), measure.computed_by) == (measure, "msshift-bench")
    assert measure.higher_is_better == (canonical != "ASL@100")
    assert measure.show(-1e-9) == "0.0"


@pytest.mark.parametrize("name", ["RR@0", "RR@-1", "R", "P", "Success", "ASL", "MMR@10", "", "RR@"])
def test_an_unknown_name_lists_the_native_ones(name: str) -> None:
    with pytest.raises(UnknownNameError, match="valid are RR, RR@k, nDCG"):
        parse_measure(name)
