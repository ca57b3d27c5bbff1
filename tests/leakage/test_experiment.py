"""Training sets that leak on purpose, and the figures of what models learnt from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from msshift_bench.evaluation import Result
from msshift_bench.leakage import (
    LEAKAGE_KINDS,
    RerankedTopic,
    TrainingPair,
    leakage_experiment,
    make_training_sets,
)
from tests.support.golden import Golden
from tests.support.refusals import check_refusals

SIZES, SEEDS = (8, 16, 32), (1, 2, 3)


def pairs_of(kind: str, count: int) -> list[TrainingPair]:
    return [TrainingPair(f"{kind}{n}", f"text {n}", f"r{n}", f"o{n}", kind) for n in range(count)]


def test_sets_of_every_size_hold_the_same_leak() -> None:
    given: dict[str, Any] = {
        "others": list(pairs_of("", 40)),
        "leaking": pairs_of("leak", 9),
        "topics": pairs_of("topic", 6),
    }
    sets = make_training_sets(SIZES, 8, **given)
    for (kind, size), pairs in sets.items():
        assert len(pairs) == len(set(pairs)) == size // 2
        leaks = [one for one in pairs if one.topic]
        assert len(leaks) == (0 if kind == "none" else 4)
        assert leaks == [one for one in sets[kind, 8] if one.topic]
        smaller = {one for one in sets[kind, SIZES[0]] if not one.topic}
        assert smaller <= set(pairs)
    assert {one.topic for one in sets["leaked", 8]} == {"leak"}
    assert {one.topic for one in sets["test", 8]} == {"topic"}
    # The order in which pairs are given decides nothing; the seed does.
    turned = {name: pairs[::-1] for name, pairs in given.items()}
    assert make_training_sets(SIZES, 8, **turned) == sets
    assert make_training_sets(SIZES, 8, **given, seed=1) != sets

    check_refusals({
        "UsageError 8 10 --sizes": partial(make_training_sets, SIZES, 10, **given),
        "UsageError 9 2": partial(make_training_sets, (9,), 8, **given),
        "DataError 7 6 --sizes": partial(make_training_sets, (16,), 14, **given),
        "DataError 50 40 --sizes": partial(make_training_sets, (100,), 8, **given),
    })  # fmt: skip


def topic(name: str) -> RerankedTopic:
    """Three candidates, of which ``b`` is relevant, and two leaked passages behind them."""
    return RerankedTopic(name, f"text {name}", {"b": 2, "z": 1}, ("a", "b", "c", "y", "z"), 3, 3)


def test_ranks_of_passages_that_bm25_did_not_find() -> None:
    scores = np.array([3.0, 2.0, 1.0, 2.0, 0.5])
    found = {doc_id: topic("t").rank(scores, doc_id) for doc_id in "abcyz"}
    # Equal scores are ranked by doc_id, descending; the last is the 4th, never the 5th.
    assert found == {"a": 1, "b": 2, "c": 3, "y": 2, "z": 4}


def ndcg(one: RerankedTopic, scores: Any) -> float:
    """Of `topic`: of its relevant passages only ``b`` is a candidate."""
    return (2 / math.log2(1 + one.rank(scores, "b"))) / (2 + 1 / math.log2(3))


TOPICS = [topic(f"topic {n}") for n in range(12)]
SYSTEMS = ("one", "two")
LEAKED = [TrainingPair("q", "x", "b", "a", one.query_id) for one in TOPICS]
Scores = dict[tuple[str, str, int, int], list[Any]]


def result_of(
    scores: Scores,
    leaked: Sequence[TrainingPair] = LEAKED,
    test: Sequence[TrainingPair] = LEAKED,
    topics: Sequence[RerankedTopic] = TOPICS,
) -> Result:
    systems, sizes, seeds = (
        list(dict.fromkeys(key[place] for key in scores)) for place in (0, 2, 3)
    )
    counts = ("topics", "depth", "epochs", "leaking_pairs", "planted_pairs", "test_pairs")
    facts: Mapping[str, Any] = {
        **dict.fromkeys((*counts, "judged_not_relevant"), 1),
        "systems": systems,
        "sizes": sizes,
        "seeds": seeds,
        "leaked": 4,
    }
    return leakage_experiment(scores, topics, {"leaked": leaked, "test": test}, facts)


def scores_of() -> Scores:
    """`one` gets better by leakage, and best by size 16; `two` is random."""
    rng = np.random.default_rng(5)
    scores: Scores = {}
    for key in product(SYSTEMS, LEAKAGE_KINDS, SIZES, SEEDS):
        system, kind, size, _ = key
        rows = rng.normal(size=(len(TOPICS), 5))
        if system == "one":
            rows[:, 1] += {"none": 0.0, "leaked": 2.0, "test": 9.0}[kind] + 2 * (size == 16)
            rows[:, 0] -= {"none": 0.0, "leaked": 1.0, "test": 5.0}[kind]
        scores[key] = list(rows)
    return scores


def test_the_size_is_chosen_on_the_other_folds_and_tests_are_students() -> None:
    scores = scores_of()
    result = result_of(scores)
    of_all = result.figures.where(slice="all topics", system="one")
    assert {row.value for row in of_all.where(figure="chosen_size", model="none")} == {16}
    by_hand = {
        kind: np.array([list(map(ndcg, TOPICS, scores["one", kind, 16, seed])) for seed in SEEDS])
        for kind in ("none", "leaked")
    }
    of_leaked = of_all.where(model="leaked", measure="nDCG@10")
    score, difference, published = (
        of_leaked.where(figure=name)[0] for name in ("score", "difference", "students_t")
    )
    assert score.value == pytest.approx(by_hand["leaked"].mean())
    added = (by_hand["leaked"] - by_hand["none"]).mean()
    assert difference.value == pytest.approx(added)
    p = stats.ttest_rel(by_hand["leaked"].mean(axis=0), by_hand["none"].mean(axis=0)).pvalue
    assert published.p == pytest.approx(min(1.0, 4 * p))
    assert published.p_uncorrected == pytest.approx(p)
    assert published.family == "bonferroni over 4 tests (systems x kinds of leakage)"
    assert difference.family == "holm over 4 tests (systems x kinds of leakage)"
    assert difference.p_uncorrected >= published.p_uncorrected
    assert difference.low < difference.value < difference.high
    assert difference.counts == "queries and seeds"

    at_16 = result.figures.where(slice="leaking topics", measure="nDCG@10", system="one")
    assert at_16.first(model="none, 16 instances").value == pytest.approx(by_hand["none"].mean())
    assert at_16.first(model="leaked, 16 instances").value == pytest.approx(added)


def test_what_experiments_show(golden: Golden) -> None:
    right, second = np.array([0.0, 2, 1, 0, 0]), np.array([3.0, 2, 1, 0, 0])
    before, after = np.array([3.0, 2, 1, 0, 0]), np.array([1.0, 2, 0, 0, 0])
    # Topics of 12 at which each system has the relevant passage first: without, leaked, test.
    firsts = {"one": (4, 6, 4), "two": (5, 5, 9)}
    scores: Scores = {
        (system, kind, 8, 1): [right] * count + [second] * (len(TOPICS) - count)
        for system, counts in firsts.items()
        for kind, count in zip(LEAKAGE_KINDS, counts, strict=True)
    }
    shown = {
        "one gains": result_of(scores_of()),
        "overtaking by leakage alone": result_of(scores),
        "all alike": result_of({key: [right] * len(TOPICS) for key in scores}),
        # Nothing changed, which needs no test; all changed alike, of which t says nothing.
        "every topic by the same": result_of(
            {key: [before if key[1] != "test" else after] * len(TOPICS) for key in scores_of()}
        ),
    }
    golden.check_results("experiments.csv.gz", shown)
    golden.check_layout("experiment.md", shown["overtaking by leakage alone"])


def test_a_first_rank_counts_where_nothing_relevant_is_a_candidate() -> None:
    topics = [
        replace(topic("topic 0"), relevant={"z": 1}, depth=100),
        replace(topic("topic 1"), candidates=0, depth=100),
        topic("topic 2"),
    ]
    scores = {("one", kind, 8, 1): [np.array([3.0, 2, 1, 0, 0])] * 3 for kind in LEAKAGE_KINDS}
    result = result_of(scores, LEAKED[:1], LEAKED[:1], topics)
    value = {row.measure: row.value for row in result.figures.where(figure="score", model="none")}
    assert value["MFR"] == pytest.approx((101 + 101 + 2) / 3)
    assert value["P@1"] == 0
    assert value["nDCG@10"] == pytest.approx(ndcg(topics[2], scores["one", "none", 8, 1][0]) / 3)


def test_leaked_passages_that_rise_and_fall() -> None:
    pairs = [
        TrainingPair("q1", "x", "b", "a", "topic 0"),
        TrainingPair("q2", "x", "z", "c", "topic 0"),
        TrainingPair("q3", "x", "b", "c", "topic 3"),
    ]
    before, after = np.array([3.0, 2, 1, 0, 0]), np.array([1.0, 4, 2, 0, 3])
    scores = {
        ("one", kind, size, 1): [after if kind == "leaked" else before] * len(TOPICS)
        for kind in LEAKAGE_KINDS
        for size in (8, 16)
    }
    result = result_of(scores, pairs, pairs)
    for model in ("leaked, 8 and 16 instances", "leaked, 8 instances", "leaked, 16 instances"):
        of_model = result.figures.where(model=model)
        value = {row.figure: row.value for row in of_model if not row.measure}
        # b: 2nd, then 1st; z: behind all three, then 2nd. Topics count alike.
        assert value["rank_with"] == pytest.approx((1.5 + 1) / 2)
        assert value["rank_without"] == pytest.approx(((2 + 4) / 2 + 2) / 2)
        assert value["score_with"] == pytest.approx((3.5 + 4) / 2)
        # The others: a 1 -> 3; c 3 -> 2. Offsets: (3-1)-(1-2) = 3, (2-2)-(3-4) = 1, (2-1)-(3-2).
        assert value["rank_offset"] == pytest.approx(((3 + 1) / 2 + 0) / 2)
        assert value["rank_offset_deviation"] == pytest.approx(np.std([3, 1, 0]))
        assert of_model.first(figure="rank_offset").queries == 2
        assert of_model.first(figure="rank_offset").interval
    passages = result.tables()[-1]
    assert [row[2].text for row in passages.rows] == ["all", "8", "16"] * 2
    assert passages.rows[0][3].text == f"1.25 ± {np.std([1, 2, 1]):.2f}"
