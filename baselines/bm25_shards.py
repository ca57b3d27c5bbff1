"""BM25's search by shards of queries, each of which any machine can carry out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.system import Task, stream_passages
from msshift_bench.data import open_collection
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import batches, silent
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    kept_index,
    rankings_of,
)
from msshift_bench.shards import Inputs, Shard, map_shards

__all__ = ["Bm25Task", "rank_by_bm25"]

_QUERIES = 8 * BATCH
"""Queries of a shard: 8 MB of passages and scores at depth 1,000."""


class Bm25Task:
    """Queries to their rankings, packed: the task of `rank_by_bm25`, on any machine.

    Args:
        common: ``parameters``, the fields of `Bm25Parameters`; ``collection``, its address;
            ``passages``, the digest of its passages.
        index: the index, if it is at hand.

    Raises:
        NotFoundError: if this machine does not find the collection.
        UsageError: if it finds other passages there.
    """

    def __init__(self, common: Inputs, index: Bm25 | None = None) -> None:
        if index is None:
            index = _index_of(common)
        self._index = index

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> npt.NDArray[np.int64]:
        """Return what `Bm25.find` does for the ``texts`` of a shard."""
        del advance
        return self._index.find(inputs["texts"])


def _index_of(common: Inputs) -> Bm25:
    """Return the index of a collection that another process has named, kept for others here."""
    collection = open_collection(common["collection"])
    facts: dict[str, dict[str, str]] = {}

    def digest() -> str:
        return facts["passages"]["sha256"] if facts else str(common["passages"])

    index = kept_index(
        lambda stage: stream_passages(collection, facts, silent, stage),
        digest,
        Bm25Parameters(**common["parameters"]),
    )
    if digest() != common["passages"]:
        raise UsageError(
            f"the collection {common['collection']} has other passages on this machine: copy the "
            "same files to all machines"
        )
    return index


def rank_by_bm25(
    task: Task, parameters: Bm25Parameters, ids: PassageIds, index: Bm25 | None
) -> Iterator[Ranking]:
    """Rank passages for the test queries of a task, by the engine in use.

    Args:
        task: the task; its passages were streamed.
        parameters: the parameters.
        ids: the doc_ids of its collection.
        index: the index; `None` if only other processes rank.

    Yields:
        A ranking for each query, in their order.

    Raises:
        UsageError: if other processes would not find the collection.
    """
    address = task.collection.address
    if index is None and address is None:
        raise UsageError(
            f"other processes cannot read the collection {task.collection.name}, which has no "
            "path and no name: give --engine local, with one worker"
        )
    common = {
        "parameters": asdict(parameters),
        "passages": task.record.facts["passages"]["sha256"],
    }
    found = map_shards(
        Bm25Task,
        common,
        (
            Shard({"texts": [row.text for row in part]}, len(part))
            for part in batches(task.queries, _QUERIES)
        ),
        task.work / "shards",
        places={"collection": address or ""},
        ready=None if index is None else lambda: Bm25Task(common, index),
        stage=f"search {task.test_set}".rstrip(),
        total=len(task.queries),
        progress=task.progress,
    )
    for store, name in found:
        best = store.load(name)
        for part in batches(range(len(best)), BATCH):
            yield from rankings_of(best[part[0] : part[-1] + 1], ids, floor=0.0)
