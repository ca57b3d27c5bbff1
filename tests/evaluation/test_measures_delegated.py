from __future__ import annotations

import builtins
import gzip
import io
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import ir_measures
import numpy as np
import pytest

from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.evaluation import (
    Result,
    Settings,
    evaluate_run_sets,
    parse_measure,
    score_runs,
)
from msshift_bench.plumbing import open_stream
from msshift_bench.runs import Judgements, judge_run, sources
from msshift_bench.stats import Figure

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


@pytest.mark.parametrize(
    ("policy", "expected"), [("trec", 1 / 2), ("doc-id-ascending", 1), ("rank", 1 / 3)]
)
def test_the_tie_policy_decides_for_delegated_measures_too(policy: str, expected: Any) -> None:
    records = [("q", "b", 5.0, 1), ("q", "c", 4.0, 2), ("q", "a", 5.0, 3)]
    run = judge_run(records, Judgements.from_qrels({"q": {"a": 2}}), tie_policy=policy)
    delegated, native = (parse_measure(name) for name in ("RR(rel=2)@10", "RR@10"))
    assert delegated.computed_by == "ir_measures"
    assert delegated.per_query(run)[0] == expected == native.per_query(run)[0]


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
    ("name", "problem"),
    [
        ("RBP(p=0.8)", r"cwl_eval computes RBP(rel=..., [p=...]) and is not installed (pip inst"),
        ("INST", "it needs max_rel; INST takes"),
        ("INST(max_rel=3)", "cwl_eval computes INST([T=...], [min_rel=...], max_rel=...) and is"),
        ("alpha_nDCG@10", "pyndeval computes alpha_nDCG([alpha=...], [rel=...], [judged_only"),
        ("AP(rel=0)", "TypeError: Argument relevance_level should be positive"),
        ("nDCG(rel=2)@10", "there is no parameter 'rel'; nDCG takes cutoff"),
        ("P(rel=2)", "it needs cutoff (P@cutoff); P takes"),
        ("P(rel=1.5)@3", "rel cannot be 1.5"),
        ("NumQ(rel=2)", "there is no parameter 'rel'; NumQ takes no parameters"),
        # trec_eval ends the process at it
        ("P(rel=2)@0", "a cutoff is at least 1"),
        ("AP(judged_only=True)@0", "a cutoff is at least 1"),
    ],
)
def test_a_measure_is_tried_before_anything_is_read(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(f"RR@10 {name} nDCG@10")
    assert str(caught.value).startswith(f"ir_measures cannot compute {name}: ")
    assert problem in str(caught.value)


def test_all_wrong_measures_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        Settings("RBP(p=0.8) RR@10 nDCGG R@0 AP(rel=0)")
    head, *lines = str(caught.value).splitlines()
    assert head == "4 measures are wrong:"
    assert [line.partition(":")[0] for line in lines] == [
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


def score(*measures: str, missing: str = "zero") -> Result:
    return score_runs([RUN], QRELS, Settings(measures, missing=missing))


def first(result: Result) -> Figure:
    return result.figures.where(figure=("score", "sum"))[0]


def texts(result: Result) -> list[str]:
    return [note.text for note in result.notes]


COUNTS = ("NumQ", "NumRet", "NumRel", "NumRet(rel=2)")


@pytest.mark.parametrize(
    "name", ["NumQ", "NumRet", "Accuracy", "Accuracy(rel=2)", "Accuracy@2", "Rprec"]
)
def test_queries_are_aggregated_as_ir_measures_does(name: str) -> None:
    measure = ir_measures.parse_measure(name)
    row = first(score(name))
    assert row.value == pytest.approx(ir_measures.calc_aggregate([measure], QRELS, RUN)[measure])
    assert row.queries == len(list(ir_measures.iter_calc([measure], QRELS, RUN)))


def test_counts_are_printed_as_they_are_and_have_no_interval() -> None:
    result = score(*COUNTS, "Accuracy(rel=2)", "RR@10")
    (cells,) = result.tables()[0].rows
    assert [cell.text for cell in cells[4:8]] == ["2", "6", "4", "1"]
    means = result.figures.where(figure=("score", "sum"))
    # A single query has a value of Accuracy(rel=2): a mean of one has no interval either.
    assert [row.measure for row in means if row.interval] == ["RR@10"]
    assert "NumQ: computed by ir_measures, a sum over the queries" in texts(result)
    assert {row.measure: row.figure for row in means} == {
        **dict.fromkeys(COUNTS, "sum"), "Accuracy(rel=2)": "score", "RR@10": "score",
    }  # fmt: skip


def test_queries_without_a_value_are_left_out_of_the_mean_and_said() -> None:
    result = score("Accuracy(rel=2)", "RR@10")
    means = result.figures.where(figure="score")
    assert [row.queries for row in means] == [1, 3]
    assert result.tables()[0].rows[0][1].text == "3"
    note = "Accuracy(rel=2): the mean of the 1 of 3 queries that it has a value for"
    assert note in texts(result)
    assert means[1].interval == first(score("RR@10")).interval
    table = result.per_query()
    scores = table.filter(table["measure"].to_numpy() == "Accuracy(rel=2)")
    assert scores["score"].to_pylist() == [0.0, None, None]


def test_a_mean_of_no_value_at_all_is_none() -> None:
    result = score("Accuracy(rel=9)")
    row = first(result)
    assert (row.queries, row.interval) == (0, None)
    assert np.isnan(row.number)
    assert result.tables()[0].rows[0][4].text == "-"
    (content,) = (one for one in result.to_json()["figures"] if one["figure"] == "score")
    assert content.get("value") is None


def test_without_missing_queries_the_others_are_summed() -> None:
    row = first(score("NumRet", missing="skip"))
    assert (row.value, row.queries) == (6, 2)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NumRet", "sum over queries"),
        ("NumQ", "sum"),
        ("Accuracy(rel=2)", "leaves out the queries"),
    ],
)
def test_run_sets_have_no_loss_in_counts_and_partial_measures(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"{why}.*no Avg In and Out.*'msshift score'") as caught:
        evaluate_run_sets("runs", settings=Settings(("RR@10", name)))
    assert str(caught.value).startswith(name)


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
    assert [measure.name for measure in Settings(text).measures] == names


@pytest.mark.parametrize("text", ["", " , ", "AP(rel=2 RR", "RR@10) AP"])
def test_brackets_that_do_not_match_end_in_no_measure(text: str) -> None:
    with pytest.raises(UsageError):
        Settings(text)


def test_a_run_is_read_again_once_for_all_delegated_measures_and_orders_of_ties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def noted(path: Path) -> AbstractContextManager[BinaryIO]:
        opened.append(path)
        return open_stream(path)

    monkeypatch.setattr(sources, "open_stream", noted)
    path = tmp_path / "a.run.gz"
    path.write_bytes(gzip.compress(b"a Q0 x 1 5 t\na Q0 r 2 4 t\nb Q0 r 1 5 t\n"))
    result = score_runs([path], QRELS, Settings("RR@10 ERR@20 Bpref Rprec"))
    assert opened == [path, path]
    (scored,) = result.scores[0].runs.values()
    assert scored.scores["ERR@20"][1] > 0
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
