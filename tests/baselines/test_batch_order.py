from __future__ import annotations

from collections import Counter

import pytest

from msshift_bench.baselines.training.training_data import Example, Meeting, plan_batches
from msshift_bench.errors import DataError


def _examples(count: int, shared: int) -> list[Example]:
    """`count` queries, of which `shared` in a row have the same relevant passage."""
    return [
        Example(f"q{i}", f"d{i // shared}", (f"n{i % 7}",), frozenset({f"d{i // shared}"}))
        for i in range(count)
    ]


def _plan(
    examples: list[Example], *, batch_size: int, steps: int, seed: int = 1, negatives: int = 1
) -> list[list[Meeting]]:
    return list(
        plan_batches(examples, batch_size=batch_size, negatives=negatives, steps=steps, seed=seed)
    )


def test_no_passage_of_a_batch_is_relevant_to_another_query() -> None:
    examples = _examples(60, shared=4)
    examples[5] = Example("q5", "d1", ("d9",), frozenset({"d1", "n3"}))
    relevant = {example.query_id: example.relevant for example in examples}
    for batch in _plan(examples, batch_size=8, steps=50):
        assert len({query_id for query_id, *_ in batch}) == 8
        for one in batch:
            for other in batch:
                if one is not other:
                    assert not relevant[one[0]] & {*other[1:]}


def test_every_example_comes_once_a_round() -> None:
    plan = _plan(_examples(60, shared=1), batch_size=10, steps=12)
    first, second = (
        [query_id for batch in part for query_id, *_ in batch] for part in (plan[:6], plan[6:])
    )
    assert sorted(first) == sorted(second) == sorted(f"q{i}" for i in range(60))
    assert first != second


def test_every_meeting_takes_the_next_negatives() -> None:
    pool = tuple(f"n{i}" for i in range(6))
    examples = [
        Example(f"q{i}", f"d{i}", tuple(f"{i}-{one}" for one in pool), frozenset({f"d{i}"}))
        for i in range(10)
    ]
    plan = _plan(examples, batch_size=5, steps=8, negatives=2)
    met: dict[str, list[str]] = {}
    for query_id, _, *negatives in (triple for batch in plan for triple in batch):
        met.setdefault(query_id, []).extend(negatives)
    assert met == {f"q{i}": [f"{i}-{one}" for one in (*pool, "n0", "n1")] for i in range(10)}


def test_a_pool_begins_again_where_a_meeting_goes_beyond_its_end() -> None:
    examples = [Example(f"q{i}", f"d{i}", ("a", "b", "c"), frozenset({f"d{i}"})) for i in range(4)]
    plan = _plan(examples, batch_size=4, steps=3, negatives=2)
    assert [{t[2:] for t in batch} for batch in plan] == [
        {("a", "b")}, {("c", "a")}, {("b", "c")},
    ]  # fmt: skip


def test_the_plan_follows_from_the_seed_alone() -> None:
    examples = _examples(60, shared=3)
    plan = _plan(examples, batch_size=8, steps=20)
    assert _plan(examples[::-1], batch_size=8, steps=20) == plan
    assert _plan(examples, batch_size=8, steps=9) == plan[:9]
    other = _plan(examples, batch_size=8, steps=20, seed=2)
    assert other != plan
    assert Counter(query_id for batch in other for query_id, *_ in batch).keys() <= {
        example.query_id for example in examples
    }


def test_batches_that_cannot_be_filled() -> None:
    with pytest.raises(DataError, match="no batch of 4 can be made of 20 training examples"):
        _plan(_examples(20, shared=10), batch_size=4, steps=1)
    with pytest.raises(DataError, match="3 training examples are fewer than a batch of 4"):
        _plan(_examples(3, shared=1), batch_size=4, steps=1)
