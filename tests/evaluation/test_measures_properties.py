"""What must hold of every measure on every run."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.evaluation import parse_measure
from msshift_bench.runs import TIE_POLICIES, Judgements, judge_run

NAMES = ["RR", "AP", "nDCG", "RR@3", "AP@3", "nDCG@3", "R@3", "P@3", "Success@3", "ASL@3"]
BY_SCORE = [policy for policy in TIE_POLICIES if policy != "rank"]

doc_ids = st.sampled_from("abcdefghij")
qrels_strategy = st.dictionaries(
    st.sampled_from("xyz"), st.dictionaries(doc_ids, st.integers(0, 3)), min_size=1
)
run_strategy = st.dictionaries(
    st.sampled_from("xyz"), st.dictionaries(doc_ids, st.integers(0, 4), min_size=1), min_size=1
)


@given(qrels_strategy, run_strategy, st.sampled_from(BY_SCORE))
def test_values_lie_within_their_range_and_between_the_bounds(
    qrels: Any, run: Any, policy: str
) -> None:
    judged = judge_run(run, Judgements.from_qrels(qrels), tie_policy=policy)
    best, worst = judged.with_ties("best"), judged.with_ties("worst")
    for name in NAMES:
        measure = parse_measure(name)
        values = measure.per_query(judged)
        assert values.shape == (len(qrels),)
        assert values.dtype == np.float64
        assert (values >= 0).all()
        assert (
            values <= (1 if measure.higher_is_better else int(name.partition("@")[2])) + 1e-12
        ).all()
        sign = 1 if measure.higher_is_better else -1
        assert (sign * measure.per_query(best) >= sign * values - 1e-12).all()
        assert (sign * measure.per_query(worst) <= sign * values + 1e-12).all()


@given(qrels_strategy, run_strategy)
def test_without_ties_all_policies_agree(qrels: Any, run: Any) -> None:
    spread = {
        query: {doc: score + ord(doc) / 1000 for doc, score in docs.items()}
        for query, docs in run.items()
    }
    judgements = Judgements.from_qrels(qrels)
    runs = [judge_run(spread, judgements, tie_policy=policy) for policy in BY_SCORE]
    assert all((judged.hits.tied <= 1).all() for judged in runs)
    for name in NAMES:
        measure = parse_measure(name)
        first, *others = (measure.per_query(judged) for judged in runs)
        for other in others:
            np.testing.assert_allclose(other, first, rtol=0, atol=1e-12)


@given(qrels_strategy, run_strategy, st.sampled_from(BY_SCORE), st.integers(1, 12))
def test_a_larger_cutoff_finds_no_less(qrels: Any, run: Any, policy: str, cutoff: int) -> None:
    judged = judge_run(run, Judgements.from_qrels(qrels), tie_policy=policy)
    for name in ("RR", "R", "Success", "AP"):
        smaller = parse_measure(f"{name}@{cutoff}").per_query(judged)
        larger = parse_measure(f"{name}@{cutoff + 1}").per_query(judged)
        assert (larger >= smaller - 1e-12).all()
    found = parse_measure(f"P@{cutoff}").per_query(judged) * cutoff
    recalled = parse_measure(f"R@{cutoff}").per_query(judged) * judged.judgements.relevant_counts
    np.testing.assert_allclose(found, recalled, rtol=0, atol=1e-12)


@given(qrels_strategy, run_strategy)
def test_a_cutoff_below_the_whole_ranking_changes_nothing(qrels: Any, run: Any) -> None:
    judged = judge_run(run, Judgements.from_qrels(qrels), tie_policy="expected")
    for name in ("RR", "AP", "nDCG"):
        whole = parse_measure(name).per_query(judged)
        np.testing.assert_array_equal(parse_measure(f"{name}@100").per_query(judged), whole)


@given(qrels_strategy, run_strategy, st.sampled_from(BY_SCORE))
def test_moving_a_relevant_document_to_the_top_never_hurts(
    qrels: Any, run: Any, policy: str
) -> None:
    judgements = Judgements.from_qrels(qrels)
    before = judge_run(run, judgements, tie_policy=policy)
    for query, docs in run.items():
        relevant = [doc for doc in docs if qrels.get(query, {}).get(doc, 0) > 0]
        if not relevant:
            continue
        moved = {**run, query: {**docs, relevant[0]: 100}}
        after = judge_run(moved, judgements, tie_policy=policy)
        position = judgements.index[query]
        for name in ("RR@3", "R@3", "P@3", "Success@3", "AP", "ASL@3"):
            measure = parse_measure(name)
            sign = 1 if measure.higher_is_better else -1
            gained = sign * (measure.per_query(after) - measure.per_query(before))
            assert gained[position] >= -1e-12
            assert np.delete(gained, position).tolist() == [0] * (len(judgements) - 1)
