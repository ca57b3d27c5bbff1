"""Rankings that a judged run keeps, and runs whose rankings differ only by ties."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from msshift_bench.runs import JudgedRun, Judgements, judge_run

Run = dict[str, dict[str, float]]

QRELS = {"q1": {"a": 1, "d": 2, "g": 0, "x": -1}, "q2": {"b": 1, "c": 1}, "q3": {}}
POLICIES = ["trec", "doc-id-ascending", "rank"]


def naive_ranking(
    lines: list[tuple[str, float, int]], policy: str, grades: dict[str, int]
) -> list[str]:
    """Return the documents of one query in the order of a tie policy, or of `with_ties`."""
    if policy == "rank":
        return [doc for doc, _, rank in sorted(lines, key=lambda line: line[2])]
    lines = sorted(lines, reverse=policy != "doc-id-ascending")
    sign = {"best": -1, "worst": 1}.get(policy, 0)
    lines.sort(key=lambda line: (-line[1], sign * max(grades.get(line[0], 0), 0)))
    return [doc for doc, _, _ in lines]


@given(
    st.dictionaries(
        st.sampled_from(["q1", "q2", "q3", "extra"]),
        st.dictionaries(st.sampled_from("abcdefghijx"), st.integers(0, 4), min_size=1),
        min_size=1,
    ),
    st.sampled_from(POLICIES),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_kept_rankings_are_the_complete_ones_down_to_the_depth(
    run: Run, policy: str, depth: int, random: Any
) -> None:
    records = []
    for query, docs in run.items():
        ranks = random.sample(range(1, len(docs) + 1), len(docs))
        pairs = zip(docs.items(), ranks, strict=True)
        records += [(query, doc, score, rank) for (doc, score), rank in pairs]
    random.shuffle(records)
    judged = judge_run(
        records, Judgements.from_qrels(QRELS), tie_policy=policy, depth=depth, strict=False
    )
    versions = [(judged, policy)]
    if policy != "rank":
        versions += [(judged.with_ties("best"), "best"), (judged.with_ties("worst"), "worst")]
    for version, order in versions:
        for limit in {depth, (depth + 1) // 2}:
            expected = {
                query: naive_ranking(
                    [(doc, score, rank) for of, doc, score, rank in records if of == query],
                    order,
                    QRELS[query],
                )[:limit]
                for query in run
                if query in QRELS
            }
            assert dict(version.rankings(limit)) == expected


# ---- rankings that differ only by ties -----------------------------------------------------------


def naive_equal(first: Run, second: Run) -> bool:
    """Whether runs of the same passages order no two of a query differently, and few are tied."""
    if {q: set(docs) for q, docs in first.items()} != {q: set(docs) for q, docs in second.items()}:
        return False
    tied, documents = np.zeros(2), 0
    for query, scores in first.items():
        pairs = sorted((score, second[query][doc]) for doc, score in scores.items())
        if any(later < sooner for (_, sooner), (_, later) in pairwise(pairs)):
            return False
        tied += [len(pairs) - len(set(column)) for column in zip(*pairs, strict=True)]
        documents += len(pairs)
    return bool(tied.max() * 2 < documents)


def levels_of(run: Run) -> dict[str, dict[str, int]]:
    """Return the number of different scores below each document's."""
    return {
        query: {doc: sorted(set(docs.values())).index(score) for doc, score in docs.items()}
        for query, docs in run.items()
    }


def judged_run(run: Run) -> JudgedRun:
    return judge_run(run, Judgements.from_qrels({query: {"d0": 1} for query in ("q1", "q2")}))


def found_equal(first: Run, second: Run) -> bool:
    one, other = judged_run(first), judged_run(second)
    is_equal = one.digests.equal_but_for_ties(other.digests)
    assert is_equal == other.digests.equal_but_for_ties(one.digests)
    return is_equal or one.report.ranking == other.report.ranking


def pairs_of_runs(fewest: int, most: int) -> st.SearchStrategy[tuple[Run, Run]]:
    """Return a run, and one of the same passages, rounded, with other scores for a few."""

    @st.composite
    def draw_runs(draw: st.DrawFn) -> tuple[Run, Run]:
        first: Run = {}
        second: Run = {}
        for query in ("q1", "q2"):
            depth, step = draw(st.integers(fewest, most)), draw(st.integers(1, 3))
            docs = draw(st.permutations([f"d{number}" for number in range(depth)]))
            scores = draw(st.lists(st.integers(0, 60), min_size=depth, max_size=depth))
            noises = st.sampled_from([0] * 9 + [4]) if draw(st.booleans()) else st.just(0)
            noise = draw(st.lists(noises, min_size=depth, max_size=depth))
            first[query] = dict(zip(docs, map(float, scores), strict=True))
            changed = {
                doc: float((score + more) // step)
                for doc, score, more in zip(docs, scores, noise, strict=True)
            }
            second[query] = {doc: changed[doc] for doc in draw(st.permutations(docs))}
        return first, second

    return draw_runs()


def flat(*scores: float) -> Run:
    return {"q1": {f"d{place}": score for place, score in enumerate(scores)}}


@given(pairs_of_runs(1, 10))
@example((flat(3, 2, 1), flat(2, 2, 1)))
@example((flat(3, 2, 2), flat(2, 2, 1)))
@example((flat(3, 2, 1), flat(1, 2, 3)))
@example((flat(3, 2, 1), flat(1, 1, 1)))
def test_short_rankings_are_equal_by_the_definition(runs: tuple[Run, Run]) -> None:
    assert found_equal(*runs) == (naive_equal(*runs) or levels_of(runs[0]) == levels_of(runs[1]))


@given(pairs_of_runs(8, 30))
def test_longer_rankings_that_are_equal_are_found(runs: tuple[Run, Run]) -> None:
    if naive_equal(*runs):
        assert found_equal(*runs)


@pytest.mark.parametrize("depth", [8, 40])
def test_runs_of_other_passages_or_other_first_places_differ(depth: int) -> None:
    scores = [-4.0 if place == 3 else float(-place) for place in range(depth)]
    run = flat(*scores)
    assert found_equal(run, flat(*range(0, -depth, -1)))
    swapped = flat(*scores[:1], scores[2], scores[1], *scores[3:])
    assert not found_equal(run, swapped)
    renamed = {"q1": {("x" if doc == "d5" else doc): score for doc, score in run["q1"].items()}}
    assert not found_equal(run, renamed)
    assert not found_equal(run, run | {"extra": {"d": 1.0}})
    assert not found_equal(run | {"extra": {"d": 1.0}}, run | {"extra": {"e": 1.0}})
