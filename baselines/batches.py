"""Training examples and the order in which a model meets them.

Everything follows from the seed and the examples' ids, so that training can be taken up again at
any step, and two systems with one seed meet the same batches.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from msshift_bench.errors import DataError

__all__ = ["Example", "plan_batches"]


@dataclass(frozen=True, slots=True)
class Example:
    """One query with a passage relevant to it and passages that are not.

    Attributes:
        query_id: the query.
        positive: doc_id of a relevant passage.
        negatives: doc_ids of passages that are not relevant.
        relevant: doc_ids of all passages relevant to the query.
    """

    query_id: str
    positive: str
    negatives: tuple[str, ...]
    relevant: frozenset[str]


def plan_batches(
    examples: Sequence[Example], *, batch_size: int, steps: int, seed: int
) -> list[list[int]]:
    """Say which examples make up each batch.

    The examples are gone through again and again, each time in an order that is keyed by the seed
    and the round. One that would bring a passage relevant to another query of the batch, or meet
    one relevant to its own, waits for the next batch: in-batch negatives are never relevant, as
    far as the judgements know.

    Args:
        examples: the training examples, in any order.
        batch_size: examples per batch.
        steps: batches.
        seed: keys the orders.

    Returns:
        For each batch, the places of its examples in `examples`.

    Raises:
        DataError: if so many queries share passages that no batch can be filled.
    """
    plan: list[list[int]] = []
    waiting: deque[int] = deque()
    order: list[int] = []
    rounds = 0
    while len(plan) < steps:
        batch: list[int] = []
        relevant: set[str] = set()
        present: set[str] = set()
        put_off: list[int] = []
        while len(batch) < batch_size:
            if len(put_off) > len(examples):
                raise DataError(
                    f"no batch of {batch_size} can be made of {len(examples)} training examples, "
                    "because they share passages; choose a smaller batch size"
                )
            if waiting:
                place = waiting.popleft()
            else:
                if not order:
                    order = _order(examples, seed, rounds)
                    rounds += 1
                place = order.pop()
            example = examples[place]
            documents = {example.positive, *example.negatives}
            if documents & relevant or example.relevant & present:
                put_off.append(place)
                continue
            batch.append(place)
            relevant |= example.relevant
            present |= documents
        waiting.extendleft(reversed(put_off))
        plan.append(batch)
    return plan


def _order(examples: Sequence[Example], seed: int, rounds: int) -> list[int]:
    key = f"{seed}/order/{rounds}".encode()

    def keyed(place: int) -> bytes:
        example = examples[place]
        text = f"{example.query_id}\0{example.positive}".encode()
        return hashlib.blake2b(text, digest_size=16, key=key).digest()

    return sorted(range(len(examples)), key=keyed)
