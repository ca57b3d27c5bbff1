from __future__ import annotations

import builtins
import io
import sys

import ir_measures
import pytest

from msshift_bench import delegated
from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.measures import parse_measure
from msshift_bench.runs import Judgements, read_run

QRELS = {"a": {"r": 1, "s": 3, "n": 0}, "b": {"r": 1}, "missing": {"r": 1}}
RUN = {
    "a": {"x": 9.0, "r": 8.0, "n": 7.0, "s": 6.0},
    "b": {"x": 9.0, "r": 7.0},
    "extra": {"r": 1.0},
}


def test_other_names_are_left_to_ir_measures_and_say_so():
    names = ["Rprec", "Judged@3", "Bpref", "Compat", "AP(rel=2)"]
    run = read_run(RUN, Judgements.from_qrels(QRELS))
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


@pytest.mark.parametrize(
    ("policy", "expected"), [("trec", 1 / 2), ("doc-id-ascending", 1), ("rank", 1 / 3)]
)
def test_the_tie_policy_decides_for_delegated_measures_too(policy, expected):
    records = [("q", "b", 5.0, 1), ("q", "c", 4.0, 2), ("q", "a", 5.0, 3)]
    run = read_run(records, Judgements.from_qrels({"q": {"a": 1}}), tie_policy=policy)
    value = parse_measure("RR(rel=1)@10").per_query(run)[0]
    assert value == expected == parse_measure("RR@10").per_query(run)[0]


def test_the_best_and_the_worst_order_of_ties_hold_for_delegated_measures():
    judgements = Judgements.from_qrels({"q": {"a": 1, "b": 2, "n": -1}})
    run = read_run({"q": {"a": 1, "b": 1, "x": 1, "n": 1, "z": 5}}, judgements)
    best, worst = run.with_ties("best"), run.with_ties("worst")
    assert list(best.rankings()) == [("q", ["z", "b", "a", "x", "n"])]
    assert list(worst.rankings()) == [("q", ["z", "x", "n", "a", "b"])]
    measure = parse_measure("RR(rel=2)@10")
    values = [measure.per_query(judged)[0] for judged in (best, run, worst)]
    assert values == [1 / 2, 1 / 4, 1 / 5]


@pytest.mark.parametrize("name", ["a.run", "a.run.gz"])
def test_files_are_read_again(tmp_path, name):
    text = "q1 Q0 b 1 5 t\nq2 Q0 a 1 5 t\nq1 Q0 a 2 5 t\n"
    path = tmp_path / name
    path.write_text(text)
    run = read_run(path, Judgements.from_qrels({"q1": {"a": 1}, "q2": {}}))
    assert list(run.rankings()) == [("q1", ["b", "a"]), ("q2", ["a"])]


def test_what_gives_no_order_or_cannot_be_read_twice_is_a_usage_error(monkeypatch):
    measure = parse_measure("Bpref")
    judgements = Judgements.from_qrels(QRELS)
    with pytest.raises(UsageError, match="only native measures"):
        measure.per_query(read_run(RUN, judgements, tie_policy="expected"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a Q0 r 1 1 t\n")))
    with pytest.raises(UsageError, match="cannot be read twice"):
        measure.per_query(read_run("-", judgements))


def test_what_ir_measures_cannot_compute_as_installed_is_a_usage_error():
    run = read_run(RUN, Judgements.from_qrels(QRELS))
    with pytest.raises(UsageError, match="ir_measures cannot compute INST"):
        parse_measure("INST").per_query(run)


def test_without_ir_measures_the_extra_is_named(monkeypatch):
    real_import = builtins.__import__

    def no_ir_measures(name, *arguments, **options):
        if name == "ir_measures":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", no_ir_measures)
    with pytest.raises(UnknownNameError, match="'measures' extra"):
        parse_measure("Bpref")
    assert parse_measure("RR@10").name == "RR@10"
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    run = read_run(RUN, Judgements.from_qrels(QRELS))
    with pytest.raises(MissingExtraError, match="'measures' extra"):
        delegated.DelegatedMeasure("Bpref").per_query(run)
