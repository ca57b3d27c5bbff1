"""BM25's search by shards of queries, each of which any machine can carry out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.system import Task
from msshift_bench.dataset_builders.named_index import named_index, shared_address
from msshift_bench.plumbing import batches
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    rankings_of,
    stemmer_version,
)
from msshift_bench.shards import Inputs, Shard, map_shards

__all__ = ["Bm25Task", "rank_by_bm25"]

_QUERIES = 8 * BATCH
"""Queries of a shard: 8 MB of passages and scores at depth 1,000."""


class Bm25Task:
    """Queries to their rankings, packed: the task of `rank_by_bm25`, on any machine.

    Args:
        common: ``parameters``, the fields of `Bm25Parameters`; ``collection``, its address;
            ``passages``, the digest of its passages; ``stemmed_by``, see `stemmer_version`.
        index: the index, if it is at hand.

    Raises:
        NotFoundError: if this machine does not find the collection.
        UsageError: if it finds other passages there, or has another version of the stemmer.
    """

    def __init__(self, common: Inputs, index: Bm25 | None = None) -> None:
        if index is None:
            parameters = Bm25Parameters(**common["parameters"])
            index = named_index(
                common["collection"], common["passages"], parameters, common["stemmed_by"]
            )
        self._index = index

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> npt.NDArray[np.int64]:
        """Return what `Bm25.find` does for the ``texts`` of a shard."""
        del advance
        return self._index.find(inputs["texts"])


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
    common = {
        "parameters": asdict(parameters),
        "stemmed_by": stemmer_version(parameters.stemmer),
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
        places={"collection": shared_address(task.collection)},
        ready=None if index is None else lambda: Bm25Task(common, index),
        stage=f"search {task.test_set}".rstrip(),
        total=len(task.queries),
        progress=task.progress,
    )
    for store, name in found:
        best = store.load(name)
        for part in batches(range(len(best)), BATCH):
            yield from rankings_of(best[part[0] : part[-1] + 1], ids)
