"""Native measures against MS MARCO's script, all orders of ties, and their definitions.

test_shared_measures.py compares them with trec_eval and ir_measures.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ir_measures.bin import msmarco_eval

from msshift_bench.evaluation import parse_measure
from msshift_bench.runs import Judgements, judge_run

TOLERANCE = 1e-12


@given(
    st.dictionaries(
        st.integers(1, 6), st.dictionaries(st.integers(1, 30), st.just(1), min_size=1), min_size=1
    ),
    st.dictionaries(
        st.integers(1, 6), st.lists(st.integers(1, 30), unique=True, min_size=1), min_size=1
    ),
    st.sets(st.integers(1, 30)),
    st.randoms(),
)
def test_the_rank_column_as_in_the_script_of_ms_marco(
    tmp_path_factory: pytest.TempPathFactory,
    qrels: Any,
    run: Any,
    left_out: Any,
    rng: random.Random,
) -> None:
    """The script puts each passage at its rank; missing ranks stay empty."""
    folder = tmp_path_factory.mktemp("msmarco")
    reference, candidate = folder / "qrels.tsv", folder / "run.tsv"
    reference.write_text(
        "".join(f"{query}\t0\t{doc}\t1\n" for query, docs in qrels.items() for doc in docs)
    )
    lines = [
        f"{query}\t{doc}\t{rank}\n"
        for query, docs in run.items()
        for rank, doc in enumerate(docs, start=1)
        if rank == 1 or rank not in left_out
    ]
    rng.shuffle(lines)
    candidate.write_text("".join(lines))
    judgements = Judgements.from_qrels(
        {str(query): {str(doc): 1 for doc in docs} for query, docs in qrels.items()}
    )
    judged = judge_run(candidate, judgements, tie_policy="rank", format="msmarco")
    for cutoff in (1, 5, 10):
        theirs = msmarco_eval.compute_metrics_from_files(
            str(reference), str(candidate), max_rank=cutoff
        )[f"MRR @{cutoff} by query"]
        values = {str(query): value for query, value in theirs.items()}
        expected = [values.get(query, 0.0) for query in judgements.query_ids]
        found = parse_measure(f"RR@{cutoff}").per_query(judged)
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def orders(docs: dict[str, float]) -> Any:
    """Every order of a ranking in which only documents of equal score change places."""
    levels = sorted(set(map(np.float32, docs.values())), reverse=True)
    ties = [[doc for doc, score in docs.items() if np.float32(score) == level] for level in levels]
    for parts in itertools.product(*(itertools.permutations(tie) for tie in ties)):
        yield list(itertools.chain.from_iterable(parts))


@pytest.mark.extended
@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), min_size=1),
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.sampled_from([1.0, 2.0]), min_size=1, max_size=6
    ),
)
def test_expected_is_the_mean_over_all_orders_and_the_bounds_are_reached(
    qrels: Any, docs: Any
) -> None:
    judgements = Judgements.from_qrels({"q": qrels})
    names = ["RR", "AP", "nDCG"]
    names += [
        f"{name}@{k}"
        for name in ("RR", "AP", "nDCG", "P", "R", "Success", "ASL")
        for k in (1, 2, 4)
    ]
    ranked = {
        f"q{number}": {doc: -float(place) for place, doc in enumerate(order)}
        for number, order in enumerate(orders(docs))
    }
    in_order = judge_run(ranked, Judgements.from_qrels(dict.fromkeys(ranked, qrels)))
    values = {name: parse_measure(name).per_query(in_order).tolist() for name in names}
    expected = judge_run({"q": docs}, judgements, tie_policy="expected")
    for name in names:
        measure = parse_measure(name)
        mean = math.fsum(values[name]) / len(values[name])
        assert measure.per_query(expected)[0] == pytest.approx(mean, rel=0, abs=TOLERANCE), name
        best, worst = (max, min) if measure.higher_is_better else (min, max)
        for order, bound in (("best", best), ("worst", worst)):
            value = measure.per_query(expected.with_ties(order))[0]
            assert value == pytest.approx(bound(values[name]), rel=0, abs=TOLERANCE), name


def naive_search_length(ranking: list[str], relevant: set[str], bound: int) -> float:
    lengths = [
        min(sum(doc not in relevant for doc in ranking[: ranking.index(doc)]), bound)
        if doc in ranking
        else bound
        for doc in relevant
    ]
    return sum(lengths) / len(lengths) if lengths else bound


@given(
    st.sets(st.sampled_from("abcdefghij"), min_size=1),
    st.lists(st.sampled_from("abcdefghij"), unique=True),
    st.integers(1, 6),
)
def test_search_length_by_its_definition(relevant: Any, ranking: Any, bound: Any) -> None:
    judgements = Judgements.from_qrels({"q": dict.fromkeys(relevant, 1)})
    docs = {doc: -float(place) for place, doc in enumerate(ranking)} or {"other": 1.0}
    value = parse_measure(f"ASL@{bound}").per_query(judge_run({"q": docs}, judgements))[0]
    assert value == pytest.approx(naive_search_length(ranking, relevant, bound), abs=TOLERANCE)


def test_expected_values_stay_exact_in_long_ties() -> None:
    """Against sums in exact arithmetic over the places of one relevant document."""
    size = 1000
    judgements = Judgements.from_qrels({"q": {"r": 1}})
    docs = {f"x{n}": 1.0 for n in range(size - 1)} | {"r": 1.0} | {f"y{n}": 2.0 for n in range(50)}
    run = judge_run({"q": docs}, judgements, tie_policy="expected")
    places = range(51, 51 + size)
    expected = {
        "RR": math.fsum(1 / place for place in places) / size,
        "RR@100": math.fsum(1 / place for place in places if place <= 100) / size,
        "AP": math.fsum(1 / place for place in places) / size,
        "nDCG@100": math.fsum(1 / math.log2(place + 1) for place in places if place <= 100) / size,
        "R@100": 50 / size,
        "Success@100": 50 / size,
        "P@100": 50 / size / 100,
        "ASL@100": math.fsum(min(place - 1, 100) for place in places) / size,
    }
    for name, value in expected.items():
        assert parse_measure(name).per_query(run)[0] == pytest.approx(value, rel=0, abs=TOLERANCE)
