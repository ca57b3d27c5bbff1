from __future__ import annotations

from itertools import chain

import pytest

from msshift_bench.baselines.batches import Example, plan_batches
from msshift_bench.errors import DataError


def _examples(count: int, shared: int) -> list[Example]:
    """`count` queries, of which `shared` in a row have the same relevant passage."""
    return [
        Example(f"q{i}", f"d{i // shared}", (f"n{i % 7}",), frozenset({f"d{i // shared}"}))
        for i in range(count)
    ]


def test_no_passage_of_a_batch_is_relevant_to_another_query() -> None:
    examples = _examples(60, shared=4)
    examples[5] = Example("q5", "d1", ("d9",), frozenset({"d1", "n3"}))
    for batch in plan_batches(examples, batch_size=8, steps=50, seed=1):
        assert len(batch) == len(set(batch)) == 8
        members = [examples[place] for place in batch]
        for one in members:
            for other in members:
                if one is not other:
                    assert not one.relevant & {other.positive, *other.negatives}


def test_every_example_comes_once_a_round() -> None:
    examples = _examples(60, shared=1)
    plan = plan_batches(examples, batch_size=10, steps=12, seed=1)
    first, second = plan[:6], plan[6:]
    assert sorted(chain.from_iterable(first)) == list(range(60))
    assert sorted(chain.from_iterable(second)) == list(range(60))
    assert list(chain.from_iterable(first)) != list(chain.from_iterable(second))


def test_the_plan_follows_from_the_seed_alone() -> None:
    examples = _examples(60, shared=3)

    def ids(order: list[Example], seed: int, steps: int) -> list[list[str]]:
        plan = plan_batches(order, batch_size=8, steps=steps, seed=seed)
        return [[order[place].query_id for place in batch] for batch in plan]

    plan = ids(examples, 1, 20)
    assert ids(examples[::-1], 1, 20) == plan
    assert ids(examples, 1, 9) == plan[:9]
    assert ids(examples, 2, 20) != plan


def test_a_batch_that_cannot_be_filled() -> None:
    with pytest.raises(DataError, match="no batch of 4 can be made of 20 training examples"):
        plan_batches(_examples(20, shared=10), batch_size=4, steps=1, seed=0)
