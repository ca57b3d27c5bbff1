from __future__ import annotations

import builtins
import io
import sys
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow.parquet as pq
import pytest

from msshift_bench.data.manifest import DataInfo
from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.evaluation import delegated, single
from msshift_bench.evaluation.evaluator import Evaluator
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.named_measures import parse_measure, split_measures
from msshift_bench.evaluation.scored_runs import score_run
from msshift_bench.evaluation.settings import Settings
from msshift_bench.records import Row
from msshift_bench.runs import reader
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run
from msshift_bench.shifts import SHIFTS

QRELS = {"a": {"r": 1, "s": 3, "n": 0}, "b": {"r": 1}, "missing": {"r": 1}}
RUN = {
    "a": {"x": 9.0, "r": 8.0, "n": 7.0, "s": 6.0},
    "b": {"x": 9.0, "r": 7.0},
    "extra": {"r": 1.0},
}


def test_other_names_are_left_to_ir_measures_and_say_so() -> None:
    names = ["Rprec", "Judged@3", "Bpref", "Compat", "AP(rel=2)"]
    run = judge_run(RUN, Judgements.from_qrels(QRELS))
    for name in names:
        measure = parse_measure(name)
        assert (measure.name, measure.mean_name) == (name, name)
        assert measure.computed_by == "ir_measures"
        assert measure.higher_is_better
        theirs = ir_measures.iter_calc([ir_measures.parse_measure(name)], QRELS, RUN)
        values = {metric.query_id: metric.value for metric in theirs}
        expected = [values.get(query, 0.0) for query in QRELS]
        assert measure.per_query(run).tolist() == pytest.approx(expected, abs=1e-12)
    assert parse_measure("RR@10").computed_by == "msshift-bench"


@pytest.mark.parametrize("name", ["RR(rel=1)@10", "AP(judged_only=False)", "R(rel=1)@5"])
def test_parameters_that_change_nothing_leave_a_native_measure_native(name: str) -> None:
    assert parse_measure(name).computed_by == "msshift-bench"
    assert "(" not in parse_measure(name).name


def ir_measured(name: str) -> Measure:
    measure = delegated.delegate(name)
    assert measure is not None
    assert measure.computed_by == "ir_measures"
    return measure


@pytest.mark.parametrize(
    ("policy", "expected"), [("trec", 1 / 2), ("doc-id-ascending", 1), ("rank", 1 / 3)]
)
def test_the_tie_policy_decides_for_delegated_measures_too(policy: str, expected: Any) -> None:
    records = [("q", "b", 5.0, 1), ("q", "c", 4.0, 2), ("q", "a", 5.0, 3)]
    run = judge_run(records, Judgements.from_qrels({"q": {"a": 1}}), tie_policy=policy)
    value = ir_measured("RR@10").per_query(run)[0]
    assert value == expected == parse_measure("RR@10").per_query(run)[0]


def test_the_best_and_the_worst_order_of_ties_hold_for_delegated_measures() -> None:
    judgements = Judgements.from_qrels({"q": {"a": 1, "b": 2, "n": -1}})
    run = judge_run({"q": {"a": 1, "b": 1, "x": 1, "n": 1, "z": 5}}, judgements)
    best, worst = run.with_ties("best"), run.with_ties("worst")
    assert list(best.rankings()) == [("q", ["z", "b", "a", "x", "n"])]
    assert list(worst.rankings()) == [("q", ["z", "x", "n", "a", "b"])]
    measure = parse_measure("RR(rel=2)@10")
    values = [measure.per_query(judged)[0] for judged in (best, run, worst)]
    assert values == [1 / 2, 1 / 4, 1 / 5]


@pytest.mark.parametrize("name", ["a.run", "a.run.gz"])
def test_files_are_read_again(tmp_path: Path, name: str) -> None:
    text = "q1 Q0 b 1 5 t\nq2 Q0 a 1 5 t\nq1 Q0 a 2 5 t\n"
    path = tmp_path / name
    path.write_text(text)
    run = judge_run(path, Judgements.from_qrels({"q1": {"a": 1}, "q2": {}}))
    assert list(run.rankings()) == [("q1", ["b", "a"]), ("q2", ["a"])]


def test_what_gives_no_order_or_cannot_be_read_twice_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure = parse_measure("Bpref")
    judgements = Judgements.from_qrels(QRELS)
    with pytest.raises(UsageError, match="only native measures"):
        measure.per_query(judge_run(RUN, judgements, tie_policy="expected"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a Q0 r 1 1 t\n")))
    with pytest.raises(UsageError, match="cannot be read twice"):
        measure.per_query(judge_run("-", judgements))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RBP(p=0.8)", r"cwl_eval computes RBP(rel=..., [p=...]) and is not installed (pip inst"),
        ("INST", "it needs max_rel"),
        ("INST(max_rel=3)", "cwl_eval computes INST([T=...], [min_rel=...], max_rel=...) and is"),
        ("alpha_nDCG@10", "pyndeval computes alpha_nDCG([alpha=...], [rel=...], [judged_only"),
        ("AP(rel=0)", "TypeError: Argument relevance_level should be positive"),
    ],
)
def test_a_measure_is_tried_before_anything_is_read(name: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(f"RR@10 {name} nDCG@10")
    assert str(caught.value).startswith(f"ir_measures cannot compute {name}: ")
    assert said in str(caught.value)


def test_all_wrong_measures_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        Settings("RBP(p=0.8) RR@10 nDCGG R@0 AP(rel=0)")
    head, *said = str(caught.value).splitlines()
    assert head == "4 measures are wrong:"
    assert [line.partition(":")[0] for line in said] == [
        "  ir_measures cannot compute RBP(p=0.8)",
        "  unknown measure 'nDCGG'",
        "  unknown measure 'R@0'",
        "  ir_measures cannot compute AP(rel=0)",
    ]


@pytest.mark.parametrize("name", ["ERR@10", "Accuracy", "NumRet", "Compat(p=0.8)", "IPrec@0.1"])
def test_a_measure_that_can_be_computed_passes_the_trial(name: str) -> None:
    assert parse_measure(name).name == name


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
    run = judge_run(RUN, Judgements.from_qrels(QRELS))
    with pytest.raises(MissingExtraError, match="'measures' extra"):
        bpref.per_query(run)


def score(*measures: str, missing: str = "zero") -> single.EvaluatedRuns:
    test_set = single.JudgedQueries("toy", Judgements.from_qrels(QRELS), DataInfo())
    settings = Settings(measures=measures, missing=missing)
    return single.evaluate_runs([RUN], test_set, settings)


COUNTS = ("NumQ", "NumRet", "NumRel", "NumRet(rel=2)")


@pytest.mark.parametrize("name", [*COUNTS, "Accuracy", "Accuracy(rel=2)", "Accuracy@2", "Rprec"])
def test_queries_are_aggregated_as_ir_measures_does(name: str) -> None:
    measure = ir_measures.parse_measure(name)
    (cell,) = score(name).runs[0].cells
    assert cell.mean == pytest.approx(ir_measures.calc_aggregate([measure], QRELS, RUN)[measure])
    assert cell.queries == len(list(ir_measures.iter_calc([measure], QRELS, RUN)))


def test_counts_are_printed_as_they_are_and_have_no_interval() -> None:
    found = score(*COUNTS, "Accuracy(rel=2)", "RR@10")
    (row,) = found.table().rows
    assert [cell.text for cell in row[4:8]] == ["2", "6", "3", "1"]
    # A single query has a value of Accuracy(rel=2): a mean of one has no interval either.
    assert found.runs[0].intervals.keys() == {"RR@10"}
    assert "NumQ: computed by ir_measures, a sum over the queries" in found.notes()
    aggregates = {name: one["aggregate"] for name, one in measures_of(found).items()}
    assert aggregates == dict.fromkeys(COUNTS, "sum") | {"Accuracy(rel=2)": "mean", "RR@10": "mean"}


def measures_of(found: Any) -> Any:
    (run,) = found.to_json()["runs"]
    return run["measures"]


def test_queries_without_a_value_are_left_out_of_the_mean_and_said(tmp_path: Path) -> None:
    found = score("Accuracy(rel=2)", "RR@10")
    run = found.runs[0]
    assert [cell.queries for cell in run.cells] == [1, 3]
    assert run.queries == 3
    assert found.table().rows[0][1].text == "3"
    note = "Accuracy(rel=2): the mean of the 1 of 3 queries that it has a value for"
    assert note in found.notes()
    alone = score("RR@10")
    assert run.intervals["RR@10"] == alone.runs[0].intervals["RR@10"]
    scores = found.per_query().filter(found.per_query()["measure"].to_numpy() == "Accuracy(rel=2)")
    assert scores["score"].to_pylist() == [0.0, None, None]
    pq.write_table(found.per_query(), tmp_path / "scores.parquet")
    assert pq.read_table(tmp_path / "scores.parquet")["score"].null_count == 2


def test_a_mean_of_no_value_at_all_is_none() -> None:
    found = score("Accuracy(rel=9)")
    (cell,) = found.runs[0].cells
    assert cell.queries == 0
    assert np.isnan(cell.mean)
    assert found.runs[0].intervals == {}
    assert found.table().rows[0][4].text == "-"
    assert measures_of(found)["Accuracy(rel=9)"]["mean"] is None


def test_without_missing_queries_the_others_are_summed() -> None:
    (cell,) = score("NumRet", missing="skip").runs[0].cells
    assert (cell.mean, cell.queries) == (6, 2)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NumRet", "sum over queries"),
        ("NumQ", "sum"),
        ("Accuracy(rel=2)", "leaves out the queries"),
    ],
)
def test_run_sets_have_no_loss_in_counts_and_partial_measures(name: str, why: str) -> None:
    rows = {group: [Row(group, "text", group, ("d",), (1,))] for group in SHIFTS["length"].groups}
    with pytest.raises(UsageError, match=f"{why}.*no Avg In and Out.*--qrels FILE") as caught:
        Evaluator(SHIFTS["length"], rows, Settings(measures=("RR@10", name)))
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nDCG(rel=2)@10", "there is no parameter 'rel'; nDCG takes cutoff"),
        ("P(rel=2)", r"it needs cutoff \(P@cutoff\); P takes"),
        ("P(rel=1.5)@3", "rel cannot be 1.5"),
        ("NumQ(rel=2)", "there is no parameter 'rel'; NumQ takes no parameters"),
        ("INST", "it needs max_rel; INST takes"),
        # trec_eval ends the process at it
        ("P(rel=2)@0", "a cutoff is at least 1"),
        ("AP(judged_only=True)@0", "a cutoff is at least 1"),
    ],
)
def test_parameters_that_ir_measures_does_not_take_are_a_usage_error(
    name: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        score(name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RR@10 nDCG@10", ["RR@10", "nDCG@10"]),
        (" RR@10,nDCG@10 ,\tAP\n", ["RR@10", "nDCG@10", "AP"]),
        ("RR, AP(rel=2, judged_only=True) P@5", ["RR", "AP(rel=2,judged_only=True)", "P@5"]),
        ("nDCG(gains={0: 0, 1: 3}, dcg='log2')@10,RR", ["nDCG(gains={1:3})@10", "RR"]),
    ],
)
def test_a_list_of_measures_is_split_outside_of_brackets_only(text: str, names: list[str]) -> None:
    assert [parse_measure(name).name for name in split_measures(text)] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), (" , ", ()), ("AP(rel=2 RR", ("AP(rel=2 RR",)), ("RR@10) AP", ("RR@10)", "AP"))],
)
def test_brackets_that_do_not_match_end_in_no_measure(text: str, names: list[str]) -> None:
    assert split_measures(text) == names
    with pytest.raises(UsageError):
        Settings(measures=split_measures(text))


def test_a_run_is_read_again_once_for_all_delegated_measures_and_orders_of_ties(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = []
    read_again = reader._read_again
    monkeypatch.setattr(reader, "_read_again", lambda *parts: reads.append(1) or read_again(*parts))
    scored = score_run(RUN, Judgements.from_qrels(QRELS), Settings("ERR@2 Bpref Rprec"))
    assert reads == [1]
    assert scored.scores["Bpref"].tolist() == scored.best["Bpref"].tolist()


def test_ids_of_queries_that_only_look_alike_are_told_apart() -> None:
    """gdeval, which computes ERR, takes a query's id for the digits at its end."""
    qrels = {"a-1": {"r": 1}, "b-1": {"r": 1}, "c": {"r": 1}}
    run = {"a-1": {"r": 1.0}, "b-1": {"x": 1.0}, "c": {"x": 2.0, "r": 1.0}}
    values = parse_measure("ERR@20").per_query(judge_run(run, Judgements.from_qrels(qrels)))
    assert values.tolist() == [0.0625, 0, 0.03125]


@pytest.mark.parametrize("name", ["ERR@5", "nDCG(dcg='exp-log2')@5"])
@pytest.mark.parametrize("levels", [{"r": -1}, {}])
def test_a_query_that_nothing_is_judged_good_for_stops_no_library(
    name: str, levels: dict[str, int]
) -> None:
    """gdeval, a script, takes its judgements as lines of text."""
    run = {"a": {"r": 1.0}, "b": {"r": 1.0}}
    judged = judge_run(run, Judgements.from_qrels({"a": {"r": 4}, "b": levels}))
    values = parse_measure(name).per_query(judged)
    assert values.tolist() == pytest.approx([15 / 16 if name == "ERR@5" else 1, 0], abs=1e-4)


DEEP = [
    "ERR@2", "nDCG(dcg='exp-log2')@2", "AP(rel=2)@2", "P(rel=2)@2", "R(rel=2)@2", "RR(rel=2)@2",
    "Success(rel=2)@2", "Judged@2", "Accuracy@6", "nDCG(gains={1:3})@2",
    "P(judged_only=True)@2", "AP(judged_only=True)@2",
]  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_no_place_below_the_cutoff_is_needed(name: str) -> None:
    rng = np.random.default_rng(7)
    docs = [f"d{n}" for n in range(8)]
    qrels, run = {}, {}
    for number in range(40):
        judged = rng.choice(docs, 5, replace=False).tolist()
        grades = rng.integers(0, 3, 5).tolist()
        qrels[str(number)] = dict(zip(judged, grades, strict=True))
        run[str(number)] = dict(zip(docs, rng.permutation(8).tolist(), strict=True))
    values = parse_measure(name).per_query(judge_run(run, Judgements.from_qrels(qrels)))
    theirs = ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
    expected = {metric.query_id: metric.value for metric in theirs}
    assert {q: v for q, v in zip(qrels, values.tolist(), strict=True) if v == v} == pytest.approx(
        {query: value for query, value in expected.items() if value == value}, abs=1e-12
    )
