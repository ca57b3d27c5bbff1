"""Negatives for any number of training queries, by shards that any machine can carry out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from msshift_bench.data import DATA_VERSION, Collection
from msshift_bench.dataset_builders.named_index import named_index, shared_address
from msshift_bench.dataset_builders.negatives import NegativeSampler
from msshift_bench.plumbing import Progress, batches, counted, map_in_threads, silent
from msshift_bench.records import Passage, Row
from msshift_bench.search import BATCH, Bm25, Bm25Parameters, kept_index, stemmer_version
from msshift_bench.shards import Inputs, Shard, ShardStore, map_shards

__all__ = ["SHARD_QUERIES", "NegativeShard", "NegativesTask", "mine_negatives"]

SHARD_QUERIES = 10_000
"""Training queries per shard."""


class NegativeShard(NamedTuple):
    """The negatives of some queries.

    Attributes:
        store: where they stand.
        name: their name there, which tells them from those of any other request.
    """

    store: ShardStore
    name: str

    def doc_ids(self) -> npt.NDArray[np.bytes_]:
        """Return the doc_ids in UTF-8, of shape ``(queries, count)``; by keyed hash, ascending.

        Raises:
            IntegrityError: if they were damaged after they were written.
        """
        found: npt.NDArray[np.bytes_] = self.store.load(self.name)
        return found


class NegativesTask:
    """Training queries to their negatives: the task of `mine_negatives`, on any machine.

    Args:
        common: ``passages``, the digest of the collection's passages; ``parameters``, the fields of
            `Bm25Parameters`; ``count`` and ``seed``, as `NegativeSampler` takes them;
            ``stemmed_by``, see `stemmer_version`; ``collection``, the collection's address.
        index: the index, if it is at hand.

    Raises:
        NotFoundError: if this machine does not find the collection.
        UsageError: if it finds other passages there, or has another version of the stemmer.
    """

    def __init__(self, common: Inputs, index: Bm25 | None = None) -> None:
        parameters = Bm25Parameters(**common["parameters"])
        if index is None:
            index = named_index(
                common["collection"], common["passages"], parameters, common["stemmed_by"]
            )
        self._ids = index.ids.ids
        self._sampler = NegativeSampler(
            index, count=common["count"], depth=parameters.depth, seed=common["seed"]
        )

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> npt.NDArray[np.bytes_]:
        """Return what `NegativeShard.doc_ids` has.

        Args:
            inputs: ``queries``; of each its query_id, its text and its relevant doc_ids.
            advance: called with the queries that are done.
        """
        rows = [
            Row.judged(query_id, text, "", dict.fromkeys(relevant, 1))
            for query_id, text, relevant in inputs["queries"]
        ]
        chosen: list[npt.NDArray[np.int64]] = []
        for some in map_in_threads(self._sampler.choose, batches(rows, BATCH)):
            chosen.append(some)
            advance(sum(map(len, chosen)))
        return np.char.encode(self._ids[np.concatenate(chosen)], "utf-8")


def mine_negatives(
    collection: Collection,
    rows: Sequence[Row],
    work: Path,
    *,
    passages: str,
    count: int = 100,
    depth: int = 1000,
    seed: int = 0,
    shard_queries: int = SHARD_QUERIES,
    progress: Progress = silent,
) -> list[NegativeShard]:
    """Choose negatives as `sample_negatives` does, for any number of queries, shard by shard.

    The engine in use carries the shards out. What stands is not made again, whatever process made
    it, and what was asked otherwise is not taken. This process opens the index only if it makes a
    shard itself; memory holds only the index, which is kept in the cache.

    Args:
        collection: the passages.
        rows: the training queries, each once, sorted by query_id.
        work: the folder of the shards, unless the engine has a place of its own for them.
        passages: the digest of the collection's passages; see `digests.ContentDigest`.
        count: negatives per query.
        depth: how far down the ranking candidates are taken from.
        seed: the seed of the random choice.
        shard_queries: queries per shard.
        progress: called with the passages indexed and the queries done.

    Returns:
        The shards, in the order of the rows.

    Raises:
        DataError: if a query has not so many passages that are not relevant to it.
        UsageError: if other processes would not find the collection.
        ShardsAwaitedError: if other machines are to carry the shards out, and have not yet.
    """
    parameters = Bm25Parameters(depth=depth)
    common = {
        "version": DATA_VERSION,
        "passages": passages,
        "parameters": asdict(parameters),
        "stemmed_by": stemmer_version(parameters.stemmer),
        "count": count,
        "seed": seed,
    }

    def stream(stage: str) -> Iterable[Passage]:
        return counted(collection.passages(), progress, stage)

    found = map_shards(
        NegativesTask,
        common,
        (
            Shard({"queries": [(r.query_id, r.text, r.relevant_doc_ids) for r in part]}, len(part))
            for part in batches(rows, shard_queries)
        ),
        work,
        places={"collection": shared_address(collection)},
        ready=lambda: NegativesTask(common, kept_index(stream, lambda: passages, parameters)),
        stage="negatives",
        total=len(rows),
        progress=progress,
    )
    return [NegativeShard(*place) for place in found]
