"""Measures that ir_measures computes: what it cannot compute, and where its numbers differ."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import ir_measures
import pytest

from msshift_bench.errors import UsageError
from msshift_bench.evaluation import Settings, parse_measure, score_runs
from msshift_bench.runs import Judgements, judge_run
from tests.conftest import Command

SUBTOPICS = sorted({of.NAME for of in ir_measures.pyndeval.SUPPORTED_MEASURES})


@pytest.mark.parametrize("name", SUBTOPICS)
def test_measures_of_subtopics_are_refused(name: str) -> None:
    """Their values without the subtopics of qrels are wrong: StRecall is 1 where 2/3 is right."""
    with pytest.raises(UsageError, match=f"{name}.* needs subtopics.*ndeval") as refused:
        parse_measure(name)
    assert "install" not in str(refused.value)


def test_subtopics_on_the_command_line(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 1 a 1\n1 2 b 1\n1 3 c 1\n")
    (tmp_path / "my.run").write_text("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n")
    done = msshift("score", "my.run", "--qrels", "qrels", "--measures", "StRecall@10")
    assert done.returncode == 2
    assert "needs subtopics" in done.stderr


GRADED = ("ERR@2", "nDCG(dcg='exp-log2')@2")


@pytest.mark.parametrize("name", GRADED)
def test_a_grade_above_four_is_named(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    judgements = Judgements.from_qrels({"q1": {"a": 4, "b": 1}, "q2": {"a": 2, "c": 5}})
    run = judge_run({"q1": {"a": 2.0, "b": 1.0}}, judgements, depth=2)
    with pytest.raises(UsageError, match=r"at most 4, and document 'c' of query 'q2' has 5; map"):
        parse_measure(name).per_query(run)
    assert capfd.readouterr() == ("", "")
    unlimited = parse_measure("nDCG@2").per_query(run)
    assert unlimited.tolist() == [1, 0]


def test_grades_up_to_four_have_the_values_of_the_definition() -> None:
    """ERR after Chapelle et al. (CIKM 2009); exponential gains after Burges et al. (ICML 2005)."""
    judgements = Judgements.from_qrels({"q": {"a": 4, "b": 3, "c": -1}})
    run = judge_run({"q": {"x": 3.0, "b": 2.0, "a": 1.0}}, judgements, depth=3)
    stops = [0, 7 / 16, 15 / 16]
    err = sum(
        stop * math.prod(1 - earlier for earlier in stops[:at]) / (at + 1)
        for at, stop in enumerate(stops)
    )
    ndcg = (7 / math.log(3) + 15 / math.log(4)) / (15 / math.log(2) + 7 / math.log(3))
    for name, expected in (("ERR@3", err), ("nDCG(dcg='exp-log2')@3", ndcg)):
        assert parse_measure(name).per_query(run) == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize(("name", "cutoff"), [("Accuracy", 9), ("Accuracy@2", 2)])
def test_accuracy_has_no_value_where_only_relevant_passages_are_retrieved(
    name: str, cutoff: int
) -> None:
    qrels = {"only": {"a": 1, "b": 2}, "mixed": {"a": 1, "b": 1}, "first": {"a": 1, "b": 1}}
    run = {
        "only": {"a": 2.0, "b": 1.0},
        "mixed": {"a": 4.0, "x": 3.0, "b": 2.0, "y": 1.0},
        "first": {"a": 3.0, "b": 2.0, "x": 1.0},
    }

    def of_pairs(query: str) -> float:
        """Return the share of pairs that have the relevant passage first."""
        ranked = list(run[query])[:cutoff]
        relevant = [place for place, doc in enumerate(ranked) if doc in qrels[query]]
        others = [place for place, doc in enumerate(ranked) if doc not in qrels[query]]
        pairs = [hit < miss for hit, miss in product(relevant, others)]
        return sum(pairs) / len(pairs) if pairs else math.nan

    result = score_runs([run], qrels, Settings(name))
    (scored,) = result.scores[0].runs.values()
    expected = [of_pairs(query) for query in qrels]
    assert math.isnan(expected[0])
    assert scored.scores[name].tolist() == pytest.approx(expected, nan_ok=True)
    known = [value for value in expected if value == value]
    (row,) = result.figures.where(figure="score")
    assert (row.value, row.queries) == (pytest.approx(sum(known) / len(known)), len(known))


def test_numrel_counts_the_queries_that_a_run_lacks() -> None:
    """As ``trec_eval -c`` does; ir_measures leaves these queries out."""
    qrels = {"q1": {"a": 3, "b": 1, "c": 0}, "q2": {"d": 1}, "q3": {"e": 2}}
    run = {"q1": {"c": 9.0, "b": 8.0, "a": 7.0}, "q2": {"x": 9.0, "d": 8.0}}
    (row,) = score_runs([run], qrels, Settings("NumRel")).figures.where(figure="sum")
    assert (row.value, row.queries) == (4, 3)
    assert ir_measures.calc_aggregate([ir_measures.NumRel], qrels, run)[ir_measures.NumRel] == 3


def test_equal_scores_in_ir_measures() -> None:
    """Its RR@10 takes equal scores by ascending id, its nDCG@10 by descending id."""
    qrels = {"q1": {"b": 1}, "q2": {"c": 1}}
    run = {"q1": dict.fromkeys("abc", 1.0), "q2": dict.fromkeys("abc", 1.0)}
    values = ir_measures.calc_aggregate([ir_measures.RR @ 10, ir_measures.nDCG @ 10], qrels, run)
    means = {
        ties: [
            row.value
            for row in score_runs([run], qrels, Settings("RR@10 nDCG@10", ties=ties)).figures
            if row.figure == "score"
        ]
        for ties in ("trec", "doc-id-ascending")
    }
    assert means["trec"][0] == pytest.approx((1 / 2 + 1) / 2)
    assert values[ir_measures.RR @ 10] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert values[ir_measures.RR @ 10] == pytest.approx(means["doc-id-ascending"][0])
    assert values[ir_measures.nDCG @ 10] == pytest.approx(means["trec"][1])
