"""Training examples and the order in which a model meets them.

The seed and the examples' ids decide everything, so that training can continue at any step, and two
systems with one seed meet the same batches.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msshift_bench.errors import DataError

__all__ = ["Example", "TrainingInstance", "plan_batches"]


@dataclass(frozen=True, slots=True)
class Example:
    """One query with a passage relevant to it and passages that are not.

    Attributes:
        query_id: the query.
        positive: doc_id of a relevant passage.
        pool: doc_ids of passages that are not relevant, at least as many as one batch takes.
        relevant: doc_ids of all passages relevant to the query.
    """

    query_id: str
    positive: str
    pool: tuple[str, ...]
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class TrainingInstance:
    """A query with a relevant passage and some that are not: what a model meets at once.

    Attributes:
        query_id: the query.
        positive: doc_id of a relevant passage.
        negatives: doc_ids of passages that are not relevant.
    """

    query_id: str
    positive: str
    negatives: tuple[str, ...]


def plan_batches(
    examples: Sequence[Example], *, batch_size: int, negatives: int, steps: int, seed: int
) -> Iterator[list[TrainingInstance]]:
    """Yield the batch of each step.

    The model goes through the examples again and again, each time in an order that depends on the
    seed and the round, and each time with the next of their negatives; after the end of the pool
    come those at its beginning. An example that would bring a passage relevant to another query of
    the batch, or meet one relevant to its own, waits for the next batch: in-batch negatives are
    never relevant, as far as the judgements know.

    Args:
        examples: the training examples, in any order.
        batch_size: examples per batch.
        negatives: negatives per example and batch.
        steps: batches.
        seed: the seed of the orders.

    Yields:
        Each batch.

    Raises:
        DataError: if there are too few examples, or so many of them share passages that no batch
            can be filled.
    """
    if len(examples) < batch_size:
        raise DataError(f"{len(examples)} training examples are fewer than a batch of {batch_size}")
    met = [0] * len(examples)
    waiting: deque[int] = deque()
    order: list[int] = []
    rounds = 0
    for _ in range(steps):
        batch: list[TrainingInstance] = []
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
            first = met[place] * negatives % len(example.pool)
            end = first + negatives
            chosen = example.pool[first:end] + example.pool[: max(0, end - len(example.pool))]
            documents = {example.positive, *chosen}
            if documents & relevant or example.relevant & present:
                put_off.append(place)
                continue
            met[place] += 1
            batch.append(TrainingInstance(example.query_id, example.positive, chosen))
            relevant |= example.relevant
            present |= documents
        waiting.extendleft(reversed(put_off))
        yield batch


def _order(examples: Sequence[Example], seed: int, rounds: int) -> list[int]:
    key = f"{seed}/order/{rounds}".encode()

    def keyed(place: int) -> bytes:
        example = examples[place]
        text = f"{example.query_id}\0{example.positive}".encode()
        return hashlib.blake2b(text, digest_size=16, key=key).digest()

    return sorted(range(len(examples)), key=keyed)
