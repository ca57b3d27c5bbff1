"""Measures: by hand, as ir_measures computes them, and what holds of every one."""

from __future__ import annotations

import builtins
import math
import sys
from functools import partial
from typing import Any

import ir_measures
import numpy as np
import pytest

from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.evaluation import Result, Settings, parse_measure, score_runs
from msshift_bench.plumbing import MAX_RANK
from msshift_bench.runs import Judgements, judge_run
from msshift_bench.stats import Figure
from tests.support.refusals import check_refusals

OF_HAND = Judgements.from_qrels(
    {"a": {"r": 1, "s": 3, "n": 0}, "b": {"r": 1}, "none": {"n": 0}, "missing": {"r": 1}}
)
BY_HAND = {"a": {"x": 9, "r": 8, "n": 7, "s": 6}, "b": {"x": 9, "y": 8, "r": 7}, "none": {"n": 1}}
IDEAL = 3 / math.log2(2) + 1 / math.log2(3)
NOTHING = {"a": {"x": 1.0}}
LAST = {"b": {f"x{n:04}": float(-n) for n in range(999)} | {"r": -2000.0}}


@pytest.mark.parametrize(
    ("run", "name", "expected"),
    [
        (BY_HAND, "RR", [1 / 2, 1 / 3, 0, 0]),
        (BY_HAND, "RR@2", [1 / 2, 0, 0, 0]),
        (BY_HAND, "MRR@10", [1 / 2, 1 / 3, 0, 0]),
        (BY_HAND, "P@4", [2 / 4, 1 / 4, 0, 0]),
        (BY_HAND, "R@2", [1 / 2, 0, 0, 0]),
        (BY_HAND, "R@1000", [1, 1, 0, 0]),
        (BY_HAND, "Success@1", [0, 0, 0, 0]),
        (BY_HAND, "Success@3", [1, 1, 0, 0]),
        (BY_HAND, "AP", [(1 / 2 + 2 / 4) / 2, 1 / 3, 0, 0]),
        (BY_HAND, "AP@3", [(1 / 2) / 2, 1 / 3, 0, 0]),
        (BY_HAND, "nDCG", [(1 / math.log2(3) + 3 / math.log2(5)) / IDEAL, 1 / 2, 0, 0]),
        (BY_HAND, "nDCG@1", [0, 0, 0, 0]),
        (BY_HAND, "nDCG@2", [1 / math.log2(3) / IDEAL, 0, 0, 0]),
        (BY_HAND, "ASL@100", [(1 + 2) / 2, 2, 100, 100]),
        (BY_HAND, "ASL@1", [1, 1, 1, 1]),
        *((NOTHING, name, [0] * 4) for name in ("RR@10", "P@5", "R@5", "Success@5", "AP", "nDCG")),
        (NOTHING, "ASL@5", [5] * 4),
        (LAST, "RR", [0, 1 / 1000, 0, 0]),
    ],
)
def test_values_worked_out_by_hand(
    run: dict[str, dict[str, float]], name: str, expected: list[float]
) -> None:
    values = parse_measure(name).per_query(judge_run(run, OF_HAND))
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


# ---- left to ir_measures -------------------------------------------------------------------------

QRELS = {"1": {"r": 1, "s": 3, "n": 0}, "2": {"r": 1}, "3": {"r": 1}}
RUN = {"1": {"x": 9.0, "r": 8.0, "n": 7.0, "s": 6.0}, "2": {"x": 9.0, "r": 7.0}, "4": {"r": 1.0}}
"""A run that lacks a query, and has another."""

JUDGEMENTS = Judgements.from_qrels(QRELS)


def theirs(name: str, qrels: Any, run: Any) -> Any:
    """What ir_measures says of each query that it has a value for."""
    metrics = ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
    values = {metric.query_id: metric.value for metric in metrics if metric.value == metric.value}
    return pytest.approx(values, abs=1e-12)


def drawn() -> tuple[dict[str, Any], dict[str, Any]]:
    """Judgements of 40 queries, and a run."""
    rng = np.random.default_rng(7)
    docs = [f"d{n}" for n in range(8)]
    qrels, run = {}, {}
    for number in range(40):
        judged = rng.choice(docs, 5, replace=False).tolist()
        qrels[str(number)] = dict(zip(judged, rng.integers(0, 3, 5).tolist(), strict=True))
        run[str(number)] = dict(zip(docs, rng.permutation(8).tolist(), strict=True))
    return qrels, run


@pytest.mark.parametrize(
    "name", ["Bpref", "ERR@2", "nDCG(dcg='exp-log2')@2", "nDCG(gains={1:3})@2", "Accuracy@6"]
)
def test_other_names_are_left_to_ir_measures_and_say_so(name: str) -> None:
    measure = parse_measure(name)
    assert (measure.name, measure.mean_name) == (name, name)
    assert (measure.computed_by, measure.higher_is_better) == ("ir_measures", True)
    for qrels, run in (drawn(), (QRELS, RUN)):
        judged = judge_run(run, Judgements.from_qrels(qrels), depth=measure.depth)
        values = measure.per_query(judged).tolist()
        given = {query: v for query, v in zip(qrels, values, strict=True) if v == v}
        assert given == theirs(name, qrels, run)


@pytest.mark.parametrize(
    ("policy", "expected"), [("trec", 1 / 2), ("doc-id-ascending", 1), ("rank", 1 / 3)]
)
def test_the_tie_policy_decides_for_delegated_measures_too(policy: str, expected: float) -> None:
    records = [("q", "b", 5.0, 1), ("q", "c", 4.0, 2), ("q", "a", 5.0, 3)]
    judgements = Judgements.from_qrels({"q": {"a": 2}})
    run = judge_run(records, judgements, tie_policy=policy, depth=10)
    for name in ("RR(rel=2)@10", "RR@10"):
        assert parse_measure(name).per_query(run)[0] == expected


def test_the_best_and_the_worst_order_of_ties_hold_for_delegated_measures() -> None:
    judgements = Judgements.from_qrels({"q": {"a": 1, "b": 2, "n": -1}})
    run = judge_run({"q": {"a": 1, "b": 1, "x": 1, "n": 1, "z": 5}}, judgements, depth=MAX_RANK)
    best, worst = run.with_ties("best"), run.with_ties("worst")
    assert list(best.rankings()) == [("q", ["z", "b", "a", "x", "n"])]
    assert list(worst.rankings()) == [("q", ["z", "x", "n", "a", "b"])]
    measure = parse_measure("RR(rel=2)@10")
    values = [measure.per_query(judged)[0] for judged in (best, run, worst)]
    assert values == [1 / 2, 1 / 4, 1 / 5]


def test_an_order_that_is_not_given_or_not_kept_is_a_usage_error() -> None:
    measure = parse_measure("Bpref")
    with pytest.raises(UsageError, match="'expected'"):
        measure.per_query(judge_run(RUN, JUDGEMENTS, tie_policy="expected", depth=measure.depth))
    with pytest.raises(UsageError, match="and 10 were kept"):
        measure.per_query(judge_run(RUN, JUDGEMENTS, depth=10))


def test_all_measures_are_tried_before_anything_is_read() -> None:
    wrong = (
        "RBP(p=0.8) INST INST(max_rel=3) alpha_nDCG@10 nDCG(rel=2)@10 P(rel=2) P(rel=1.5)@3 "
        "NumQ(rel=2) nDCGG R@0 P(rel=2)@0 AP(judged_only=True)@0 "  # trec_eval ends at 0
        "nDCG(gains={1:0.5})@10"
    )
    refusals = {
        "UsageError 13 INST max_rel alpha_nDCG@10 'rel' 1.5 'nDCGG' 'R@0' P(rel=2)@0": partial(
            Settings, f"RR@10 {wrong} nDCG@10"
        ),
        "UsageError INST max_rel": partial(Settings, "RR@10 INST"),
        "UnknownNameError 'nDCGG'": partial(Settings, "RR@10 nDCGG"),
    }
    check_refusals(refusals)
    with pytest.raises(UsageError, match=r"AP\(rel=0\).*positive"):
        Settings("AP(rel=0)")


def test_without_ir_measures_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_ir_measures(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "ir_measures":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **options)

    bpref = parse_measure("Bpref")
    monkeypatch.setattr(builtins, "__import__", no_ir_measures)
    with pytest.raises(UnknownNameError, match="'measures' extra"):
        parse_measure("Bpref")
    assert parse_measure("RR@10").name == "RR@10"
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match="'measures' extra"):
        bpref.per_query(judge_run(RUN, JUDGEMENTS, depth=bpref.depth))


def score(*measures: str, missing: str = "zero") -> Result:
    return score_runs([RUN], QRELS, Settings(measures, missing=missing))


def first(result: Result) -> Figure:
    return result.figures.where(figure=("score", "sum"))[0]


@pytest.mark.parametrize(
    "name", ["NumQ", "NumRet", "Accuracy", "Accuracy(rel=2)", "Accuracy@2", "Rprec"]
)
def test_queries_are_aggregated_as_ir_measures_does(name: str) -> None:
    measure = ir_measures.parse_measure(name)
    row = first(score(name))
    assert row.value == pytest.approx(ir_measures.calc_aggregate([measure], QRELS, RUN)[measure])
    assert row.queries == len(list(ir_measures.iter_calc([measure], QRELS, RUN)))


def test_sums_and_means_of_some_queries_say_what_they_are() -> None:
    counts = ("NumQ", "NumRet", "NumRel", "NumRet(rel=2)")
    result = score(*counts, "Accuracy(rel=2)", "Accuracy(rel=9)", "RR@10")
    means = result.figures.where(figure=("score", "sum"))
    # A single query has a value of Accuracy(rel=2): a mean of one has no interval either.
    assert {row.measure: (row.figure, row.value, row.queries, bool(row.interval)) for row in means
            if row.measure != "Accuracy(rel=9)"} == {
        "NumQ": ("sum", 2, 3, False), "NumRet": ("sum", 6, 3, False),
        "NumRel": ("sum", 4, 3, False), "NumRet(rel=2)": ("sum", 1, 3, False),
        "Accuracy(rel=2)": ("score", 0.0, 1, False),
        "RR@10": ("score", pytest.approx(1 / 3), 3, True),
    }  # fmt: skip
    undefined = means.where(measure="Accuracy(rel=9)")[0]
    assert (undefined.queries, undefined.interval) == (0, None)
    assert np.isnan(undefined.number)
    content = [row for row in result.to_json()["figures"] if row.get("measure", "").endswith("9)")]
    assert [row.get("value") for row in content if row["figure"] == "score"] == [None]
    assert means.where(measure="RR@10")[0].interval == first(score("RR@10")).interval
    (cells,) = result.tables()[0].rows
    texts = [note.text for note in result.notes]
    shown = ["2", "6", "4", "1", "0.0", "-", "33.3 [0.0, 100.0]"]
    assert [cell.text for cell in cells[-7:]] == shown
    assert all(
        f"{name}: computed by ir_measures, a sum over the queries" in texts for name in counts
    )
    assert any(text.startswith("Accuracy(rel=9): the mean of the 0 of 3 queries") for text in texts)
    table = result.per_query()
    scores = table.filter(table["measure"].to_numpy() == "Accuracy(rel=2)")
    assert scores["score"].to_pylist() == [0.0, None, None]
    without_missing = first(score("NumRet", missing="skip"))
    assert (without_missing.value, without_missing.queries) == (6, 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RR@10 nDCG@10", ["RR@10", "nDCG@10"]),
        (" RR@10,nDCG@10 ,\tAP\n", ["RR@10", "nDCG@10", "AP"]),
        ("RR, AP(rel=2, judged_only=True) P@5", ["RR", "AP(rel=2,judged_only=True)", "P@5"]),
        ("nDCG(gains={0: 0, 1: 3}, dcg='log2')@10,RR", ["nDCG(gains={1:3})@10", "RR"]),
        ("ERR@10 Accuracy NumRet", ["ERR@10", "Accuracy", "NumRet"]),
        ("Compat(p=0.8) IPrec@0.1", ["Compat(p=0.8)", "IPrec@0.1"]),
    ],
)
def test_a_list_of_measures_is_split_outside_of_brackets_only(text: str, names: list[str]) -> None:
    assert [measure.name for measure in Settings(text).measures] == names
    for unmatched in ("", " , ", "AP(rel=2 RR", "RR@10) AP"):
        with pytest.raises(UsageError):
            Settings(unmatched)


def test_what_a_script_would_read_otherwise_is_passed_on_safely() -> None:
    """gdeval, a script, takes its judgements as lines of text, and the digits of ids."""
    qrels = {"a-1": {"r": 1}, "b-1": {"r": 1}, "c": {"r": 1}}
    run = {"a-1": {"r": 1.0}, "b-1": {"x": 1.0}, "c": {"x": 2.0, "r": 1.0}}
    judged = judge_run(run, Judgements.from_qrels(qrels), depth=20)
    values = parse_measure("ERR@20").per_query(judged)
    assert values.tolist() == [0.0625, 0, 0.03125]
    for name, best in (("ERR@5", 15 / 16), ("nDCG(dcg='exp-log2')@5", 1)):
        # A query that nothing is judged good for.
        for levels in ({"r": -1}, {}):
            judgements = Judgements.from_qrels({"a": {"r": 4}, "b": levels})
            judged = judge_run({"a": {"r": 1.0}, "b": {"r": 1.0}}, judgements, depth=5)
            values = parse_measure(name).per_query(judged)
            assert values.tolist() == pytest.approx([best, 0], abs=1e-4)
