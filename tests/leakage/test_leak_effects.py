"""Training sets that leak on purpose, and the figures of what models learnt from them."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from msshift_bench.cli.formats import print_values
from msshift_bench.errors import DataError, UsageError
from msshift_bench.leakage import (
    KINDS_OF_LEAKAGE,
    Effectiveness,
    LeakageExperiment,
    LearntPair,
    RerankedTopic,
    effectiveness,
    effects_by_size,
    make_training_sets,
    memorised,
    swaps,
)

SIZES, SEEDS = (8, 16, 32), (1, 2, 3)


def pairs_of(kind: str, count: int) -> list[LearntPair]:
    return [LearntPair(f"{kind}{n}", f"text {n}", f"r{n}", f"o{n}", kind) for n in range(count)]


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

    with pytest.raises(UsageError, match="a training set of 8 instances is smaller than the leak"):
        make_training_sets(SIZES, 10, **given)
    with pytest.raises(UsageError, match="9 instances are no pairs"):
        make_training_sets((9,), 8, **given)
    with pytest.raises(DataError, match="7 pairs of test topics are needed, and there are 6"):
        make_training_sets((16,), 14, **given)
    with pytest.raises(DataError, match=r"50 training queries that leak nothing .* there are 40"):
        make_training_sets((100,), 8, **given)


def topic(name: str) -> RerankedTopic:
    """Three candidates, of which ``b`` is relevant, and two leaked passages behind them."""
    return RerankedTopic(name, f"text {name}", {"b": 2, "z": 1}, ("a", "b", "c", "y", "z"), 3, 3)


def test_ranks_of_passages_that_bm25_did_not_find() -> None:
    scores = np.array([3.0, 2.0, 1.0, 2.0, 0.5])
    found = {doc_id: topic("t").rank(scores, doc_id) for doc_id in "abcyz"}
    # Equal scores are ranked by doc_id, descending; the last is the 4th, never the 5th.
    assert found == {"a": 1, "b": 2, "c": 3, "y": 2, "z": 4}
    ndcg = (2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert topic("t").measure(scores) == (pytest.approx(ndcg), 0.0, 2.0)
    nothing = RerankedTopic("t", "", {"q": 1}, ("a",), 1, 100)
    assert nothing.measure(np.ones(1)) == (0.0, 0.0, 101.0)


TOPICS = [topic(f"topic {n}") for n in range(12)]
SYSTEMS = ("one", "two")


def scores_of() -> dict[tuple[str, str, int, int], list[Any]]:
    """`one` gets better by leakage, and best by size 16; `two` is random."""
    rng = np.random.default_rng(5)
    found: dict[tuple[str, str, int, int], list[Any]] = {}
    for system in SYSTEMS:
        for kind in ("none", "leaked", "test"):
            for size in SIZES:
                for seed in SEEDS:
                    rows = rng.normal(size=(len(TOPICS), 5))
                    if system == "one":
                        rows[:, 1] += {"none": 0.0, "leaked": 2.0, "test": 9.0}[kind]
                        rows[:, 1] += 2 * (size == 16)
                        rows[:, 0] -= {"none": 0.0, "leaked": 1.0, "test": 5.0}[kind]
                    found[system, kind, size, seed] = list(rows)
    return found


def test_the_size_is_chosen_on_the_other_folds_and_tests_are_students() -> None:
    scores = scores_of()
    figures = effectiveness(scores, TOPICS, SYSTEMS, SIZES, SEEDS)
    assert len(figures) == 3 * 2 * 3
    best = [one for one in figures if one.system == "one" and one.kind == "none"]
    assert {size for one in best for size in one.sizes} == {16}
    by_hand = {
        kind: np.array(
            [
                [TOPICS[n].measure(scores["one", kind, 16, seed][n])[0] for n in range(len(TOPICS))]
                for seed in SEEDS
            ]
        )
        for kind in ("none", "leaked")
    }
    (leaked,) = [
        one
        for one in figures
        if (one.system, one.kind, one.measure) == ("one", "leaked", "nDCG@10")
    ]
    assert set(leaked.sizes) == {16}
    assert leaked.value == pytest.approx(by_hand["leaked"].mean())
    assert leaked.difference == pytest.approx((by_hand["leaked"] - by_hand["none"]).mean())
    p = stats.ttest_rel(by_hand["leaked"].mean(axis=0), by_hand["none"].mean(axis=0)).pvalue
    assert leaked.p == pytest.approx(min(1.0, 4 * p))
    assert leaked.interval is not None
    assert leaked.interval.low < leaked.difference < leaked.interval.high

    first = {one.kind: one for one in figures if one.measure == "MFR" and one.system == "one"}
    assert first["test"].value < first["none"].value

    sizes = effects_by_size(scores, TOPICS, SYSTEMS, SIZES, SEEDS, 4)
    assert [(one.size, one.share) for one in sizes[:3]] == [(8, 0.5), (16, 0.25), (32, 0.125)]
    assert sizes[1].none == pytest.approx(by_hand["none"].mean())
    assert sizes[1].leaked[0] == pytest.approx((by_hand["leaked"] - by_hand["none"]).mean())


def test_no_test_where_every_topic_changes_by_the_same() -> None:
    before, after = np.array([3.0, 2.0, 1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.0, 0.0, 0.0])
    scores = {
        ("one", kind, size, seed): [after if kind == "test" else before] * len(TOPICS)
        for kind in KINDS_OF_LEAKAGE
        for size in SIZES
        for seed in SEEDS
    }
    found = {
        (one.measure, one.kind): one
        for one in effectiveness(scores, TOPICS, ("one",), SIZES, SEEDS)
    }
    for measure, difference in (("nDCG@10", None), ("P@1", 1.0), ("MFR", -1.0)):
        # Nothing changed, which needs no test; all changed alike, of which t says nothing.
        assert (found[measure, "leaked"].difference, found[measure, "leaked"].p) == (0, 1)
        assert found[measure, "test"].p is None
        assert not found[measure, "test"].is_significant
        if difference is not None:
            assert found[measure, "test"].difference == difference


def test_who_overtakes_only_by_leakage() -> None:
    values = {
        "nDCG@10": {"one": (0.4, 0.6, 0.4), "two": (0.5, 0.5, 0.9)},
        "P@1": {"one": (0.4, 0.5, 0.4), "two": (0.5, 0.5, 0.5)},
        "MFR": {"one": (2.0, 1.9, 1.2), "two": (1.5, 1.1, 1.6)},
    }
    figures = [
        Effectiveness(system, kind, measure, value, (8,), p=value)
        for measure, systems in values.items()
        for system, three in systems.items()
        for kind, value in zip(KINDS_OF_LEAKAGE, three, strict=True)
    ]
    assert swaps(figures) == [("nDCG@10", "leaked", "one", "two"), ("MFR", "test", "one", "two")]
    assert not figures[0].is_significant
    assert Effectiveness("one", "test", "P@1", 0.4, (8,), p=0.05).is_significant


def test_leaked_passages_that_rise_and_fall() -> None:
    pairs = [
        LearntPair("q1", "x", "b", "a", "topic 0"),
        LearntPair("q2", "x", "z", "c", "topic 0"),
        LearntPair("q3", "x", "b", "c", "topic 3"),
    ]
    before, after = np.array([3.0, 2, 1, 0, 0]), np.array([1.0, 4, 2, 0, 3])
    scores = {
        ("one", kind, size, 1): [after if kind == "leaked" else before] * len(TOPICS)
        for kind in ("none", "leaked")
        for size in (8, 16)
    }
    figures = memorised(scores, TOPICS, {"leaked": pairs}, ["one"], (8, 16), (1,))
    assert [one.sizes for one in figures] == [(8, 16), (8,), (16,)]
    for one in figures:
        assert (one.topics, one.pairs) == (2, 3)
        # b: 2nd, then 1st; z: behind all three, then 2nd. Topics count alike.
        assert one.rank[0] == pytest.approx((1.5 + 1) / 2)
        assert one.rank[2] == pytest.approx(((2 + 4) / 2 + 2) / 2)
        assert one.score[0] == pytest.approx((3.5 + 4) / 2)
        # The others: a 1 -> 3; c 3 -> 2. Offsets: (3-1)-(1-2) = 3, (2-2)-(3-4) = 1, (2-1)-(3-2).
        assert one.offset == pytest.approx(((3 + 1) / 2 + 0) / 2)
        assert one.offset_deviation == pytest.approx(np.std([3, 1, 0]))
        assert one.interval is not None


def test_every_figure_is_a_line_of_csv_and_notes_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores = scores_of()
    found = LeakageExperiment(
        {"topics": len(TOPICS), "seeds": SEEDS},
        effectiveness(scores, TOPICS, SYSTEMS, SIZES, SEEDS),
        effects_by_size(scores, TOPICS, SYSTEMS, SIZES, SEEDS, 4),
        [],
        [],
    )
    assert repr(found) == "<LeakageExperiment: one, two>"
    assert print_values(found, "csv", ["what the figures rest on"])
    printed = capsys.readouterr()
    assert "what the figures rest on" in printed.err
    lines = list(csv.DictReader(io.StringIO(printed.out)))
    value = found.effectiveness[0]
    (line,) = (
        one
        for one in lines
        if (one["system"], one["measure"], one["figure"], one["label"])
        == (value.system, value.measure, "score", value.kind)
    )
    assert float(line["value"]) == pytest.approx(value.value)
