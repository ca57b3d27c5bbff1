"""Every measure that we share with trec_eval, pytrec_eval and ir_measures, per query and in all.

Generated runs have ties, queries that nobody judged and queries that are missing; qrels have grades
and negative relevance. pytrec_eval is trec_eval itself.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, example, given, settings, strategies as st

from msshift_bench.evaluation import Result, Settings, parse_measure, score_runs
from msshift_bench.stats import Figures
from tests.support.command_line import run_python

EXTENDED = pytest.mark.extended
TOLERANCE = 1e-12
CUTOFFS = (1, 3, 5, 10, 100)
RECALLS = (0.0, 0.1, 0.5, 1.0)

Values = Mapping[str, Mapping[str, float]]
"""Query -> measure of trec_eval -> value."""


def trec_names(level: int = 1, *, judged_only: bool = False) -> dict[str, str]:
    """Return our name -> trec_eval's, of every measure that both have.

    Args:
        level: the least relevance of a relevant document (trec_eval -l).
        judged_only: whether documents without a judgement are taken out of the run first (-J).
    """
    rel = [f"rel={level}"] if level > 1 else []
    judged = ["judged_only=True"] if judged_only else []

    def ours(name: str, *more: str, takes_judged: bool = True, takes_rel: bool = True) -> str:
        parameters = [*(rel if takes_rel else []), *more, *(judged if takes_judged else [])]
        return f"{name}({','.join(parameters)})" if parameters else name

    names = {
        ours("RR"): "recip_rank",
        ours("AP"): "map",
        ours("Rprec"): "Rprec",
        ours("SetP"): "set_P",
        ours("SetP", "relative=True"): "set_relative_P",
        ours("SetF"): "set_F",
        ours("SetAP"): "set_map",
        ours("nDCG", takes_rel=False): "ndcg",
        **{f"{ours('IPrec')}@{r}": f"iprec_at_recall_{r:.2f}" for r in RECALLS},
    }
    for ours_at, theirs in (("AP", "map_cut"), ("P", "P"), ("Success", "success"), ("R", "recall")):
        names |= {f"{ours(ours_at)}@{k}": f"{theirs}_{k}" for k in CUTOFFS}
    names |= {f"{ours('nDCG', takes_rel=False)}@{k}": f"ndcg_cut_{k}" for k in CUTOFFS}
    if not judged_only:
        # ir_measures has these without judged_only, and NumRel without another level.
        names |= {
            ours("Bpref"): "bpref",
            ours("infAP"): "infAP",
            ours("SetR"): "set_recall",
            f"NumRet(rel={level})": "num_rel_ret",
            "NumRet": "num_ret",
            "NumQ": "num_q",
            **({"NumRel": "num_rel"} if level == 1 else {}),
        }
    return names


def requests(names: Mapping[str, str]) -> set[str]:
    """Return what pytrec_eval is asked for: one string for all cutoffs of a measure."""
    cutoffs: dict[str, list[str]] = {}
    for name in names.values():
        stem, _, cutoff = name.rpartition("_")
        number = re.fullmatch(r"[0-9.]+", cutoff)
        cutoffs.setdefault(stem if number else name, []).extend([cutoff] if number else [])
    return {f"{stem}.{','.join(found)}" if found else stem for stem, found in cutoffs.items()}


def score(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    names: Mapping[str, str],
    *,
    ties: str = "trec",
    missing: str = "zero",
) -> Result:
    assume(run.keys() & qrels.keys())  # a run that answers nothing is refused
    return score_runs([run], qrels, Settings(tuple(names), ties=ties, missing=missing))


def means(result: Result) -> Figures:
    return result.figures.where(figure=("score", "sum"))


@cache
def canonical_name(ours: str) -> str:
    return parse_measure(ours).name


def canonical(names: Mapping[str, str]) -> dict[str, str]:
    return {canonical_name(ours): theirs for ours, theirs in names.items()}


def check_per_query(result: Result, ids: list[str], names: Mapping[str, str], all_: Values) -> None:
    """Compare with another library's values, in which queries that are missing count as 0."""
    for ours, theirs in canonical(names).items():
        expected = [all_.get(query, {}).get(theirs, 0.0) for query in ids]
        (scored,) = result.scores[0].runs.values()
        np.testing.assert_allclose(
            scored.scores[ours], expected, rtol=0, atol=TOLERANCE, err_msg=ours
        )


def with_relevant(values: Values, qrels: Any, run: Any, name: str) -> Values:
    """Add the number of relevant passages of queries that the run lacks, as `trec_eval -c` does."""
    lacking = {
        query: {**values.get(query, {}), name: float(sum(level >= 1 for level in levels.values()))}
        for query, levels in qrels.items()
        if query not in run
    }
    return {**values, **lacking}


query_ids = st.sampled_from([f"q{n}" for n in range(6)])
doc_ids = st.sampled_from([f"d{n}" for n in range(16)])
# Few distinct scores make ties; below 0 too, but for the provider that takes 0 for "not retrieved".
scores = st.sampled_from([0.5, 1.0, 2.0, 2.5, 3.0])
# The last three are one 32-bit float and three 64-bit ones.
any_scores = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 3.00000001, 2.99999999])
# trec_eval reads outside its memory where all relevance of a query is below 0: see the last test.
judged = st.dictionaries(doc_ids, st.integers(-2, 4), min_size=1).filter(
    lambda docs: max(docs.values()) >= 0
)
qrels_strategy = st.dictionaries(query_ids, judged, min_size=1)


def run_strategy(values: Any) -> Any:
    return st.dictionaries(query_ids, st.dictionaries(doc_ids, values, min_size=1), min_size=1)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("level", "judged_only"),
    [(1, False), *(pytest.param(*one, marks=EXTENDED) for one in ((2, False), (1, True)))],
)
@settings(max_examples=25)
@given(qrels_strategy, run_strategy(any_scores))
def test_every_measure_of_trec_eval(level: int, judged_only: bool, qrels: Any, run: Any) -> None:
    names = trec_names(level, judged_only=judged_only)
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, requests(names), relevance_level=level, judged_docs_only_flag=int(judged_only)
    )
    values = {
        query: {name: 0.0 if math.isnan(value) else value for name, value in found.items()}
        for query, found in evaluator.evaluate(run).items()
    }
    result = score(run, qrels, names)
    complete = with_relevant(values, qrels, run, "num_rel")
    check_per_query(result, list(qrels), names, complete)
    for row in means(result):
        theirs = [
            complete.get(query, {}).get(canonical(names)[row.measure], 0.0) for query in qrels
        ]
        whole = sum(theirs) if row.measure.startswith("Num") else sum(theirs) / len(theirs)
        assert row.value == pytest.approx(whole, rel=0, abs=TOLERANCE), row.measure
    for row in means(score(run, qrels, names, missing="skip")):
        theirs = canonical(names)[row.measure]
        # trec_eval without -c: over the queries of the run that are judged.
        whole = pytrec_eval.compute_aggregated_measure(
            theirs, [one[theirs] for one in values.values()]
        )
        assert row.value == pytest.approx(whole, rel=0, abs=TOLERANCE), row.measure


IR_MEASURES = [
    *(name for level in (1, 2) for name in trec_names(level)),
    # IPrec is 0 / 0 there, if nothing that was retrieved is judged.
    *(name for name in trec_names(judged_only=True) if not name.startswith("IPrec")),
    "nDCG(gains={1:3,2:7})@10",
    "nDCG(gains={0:1},judged_only=True)",
    "SetF(beta=2.0)",
]
"""What ir_measures leaves to trec_eval."""

IN_PYTHON = [
    *(f"RR@{k}" for k in CUTOFFS),
    *(f"RR(rel=2)@{k}" for k in CUTOFFS),
    *(f"Judged@{k}" for k in CUTOFFS),
    "Judged",
]
"""What ir_measures computes in Python, equal scores by ascending doc_id."""

WITHOUT_TIES = ["Compat", "Compat(p=0.8)"]
"""Where its ideal ranking leaves equal scores in the order of the qrels."""


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("names", "ties"),
    [
        pytest.param(IR_MEASURES, "trec", marks=EXTENDED, id="trec"),
        pytest.param(IN_PYTHON, "doc-id-ascending", id="ascending"),
        pytest.param(WITHOUT_TIES, "none", id="without ties"),
    ],
)
@settings(max_examples=25)
@given(qrels=qrels_strategy, run=run_strategy(scores))
def test_every_measure_of_ir_measures(names: list[str], ties: Any, qrels: Any, run: Any) -> None:
    measures = {parse_measure(name).name: ir_measures.parse_measure(name) for name in names}
    if ties != "trec":
        assert not any(ir_measures.pytrec_eval.supports(one) for one in measures.values())
    if ties == "none":
        run = {
            query: {doc: docs[doc] + place / 100 for place, doc in enumerate(sorted(docs))}
            for query, docs in run.items()
        }
    # One at a time: among several, ir_measures may compute a plain nDCG with another one's gains.
    found = [ir_measures.calc([measure], qrels, run) for measure in measures.values()]
    values: dict[str, dict[str, float]] = {}
    for metric in chain.from_iterable(results.per_query for results in found):
        values.setdefault(metric.query_id, {})[str(metric.measure)] = metric.value
    aggregated = {
        str(measure): value for results in found for measure, value in results.aggregated.items()
    }
    result = score(run, qrels, dict.fromkeys(names, ""), ties="trec" if ties == "none" else ties)
    same = {name: str(measure) for name, measure in measures.items()}
    complete = with_relevant(values, qrels, run, "NumRel")
    check_per_query(result, list(qrels), same, complete)
    aggregated["NumRel"] = sum(of_query.get("NumRel", 0.0) for of_query in complete.values())
    for row in means(result):
        whole = aggregated[same[row.measure]]
        assert row.value == pytest.approx(whole, rel=0, abs=TOLERANCE), row.measure


@given(qrels_strategy, run_strategy(scores), st.integers(1, 3))
@example({"q0": {"d0": 1}}, {"q0": {"d0": 0.5, "d1": 0.5}}, 2)
def test_accuracy_of_ir_measures(qrels: Any, run: Any, level: int) -> None:
    # It leaves equal scores as they stand. It divides by the number of non-relevant documents, and
    # fails where there is none.
    run = {
        query: {**dict(sorted(docs.items(), reverse=True)), "never judged": 0.25}
        for query, docs in run.items()
    }
    name = f"Accuracy(rel={level})"
    found = ir_measures.calc([ir_measures.parse_measure(name)], qrels, run)
    values = {metric.query_id: metric.value for metric in found.per_query}
    result = score(run, qrels, {name: ""})
    (row,) = means(result)
    (scored,) = result.scores[0].runs.values()
    per_query = dict(zip(qrels, scored.scores[row.measure].tolist(), strict=True))
    assert {query for query, value in per_query.items() if value == value} == values.keys()
    for query, value in values.items():
        assert per_query[query] == pytest.approx(value, rel=0, abs=TOLERANCE)
    assert row.queries == len(values)
    if values:
        assert row.value == pytest.approx(sum(values.values()) / len(values), abs=TOLERANCE)


@pytest.mark.extended
def test_queries_without_any_judgement_from_0_on_are_worth_nothing(tmp_path: Path) -> None:
    """In a process of its own: trec_eval reads outside its memory, and ends it, or never ends."""
    low: list[dict[str, int]] = [{"a": -2}, {"a": -1, "b": -2}, {}]
    qrels = {"before": {"a": 4, "c": 1}, **{f"q{n}": low[n // 300] for n in range(900)}}
    run = {query: {"a": 2.0, "b": 1.0} for query in qrels}
    names = [name for level in (1, 2) for name in trec_names(level)]
    script = (
        "import json\n"
        "from msshift_bench.evaluation import parse_measure\n"
        "from msshift_bench.runs import Judgements, judge_run\n"
        "qrels, run, names = json.load(open('given.json'))\n"
        "judgements, measures = Judgements.from_qrels(qrels), [parse_measure(n) for n in names]\n"
        "judged = judge_run(run, judgements, depth=max(m.depth for m in measures))\n"
        "print(json.dumps([m.per_query(judged)[1:].tolist() for m in measures]))\n"
    )
    (tmp_path / "given.json").write_text(json.dumps([qrels, run, names]))
    done = run_python(script, tmp_path)
    assert done.returncode == 0, done.stderr
    found = dict(zip(names, json.loads(done.stdout), strict=True))
    assert found.pop("NumQ") == [1] * 900
    assert found.pop("NumRet") == [2] * 900
    assert set(map(tuple, found.values())) == {(0.0,) * 900}
