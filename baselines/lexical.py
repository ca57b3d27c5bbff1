"""BM25 as a baseline; the index itself is `msshift_bench.search.bm25`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.system import System, Task
from msshift_bench.dataset_builders.negatives import named_index, shared_address
from msshift_bench.engine import engine_in_use
from msshift_bench.plumbing import batches
from msshift_bench.records import Passage
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    kept_index,
    rankings_of,
    stemmer_version,
)

__all__ = ["Bm25System", "CommonIndex", "index_of"]

_BLOCK_QUERIES = 8 * BATCH
"""Queries of a block: 8 MB of passages and scores at depth 1,000."""


def index_of(task: Task, parameters: Bm25Parameters) -> Bm25:
    """Return the index of a task's collection, from the cache if it is there."""

    def digest() -> str:
        known: dict[str, str] = task.record.facts.get("passages", {})
        return known.get("sha256", "")

    return kept_index(task.passages, digest, parameters)


class CommonIndex:
    """BM25's index of a collection, made for the first task that needs it, and kept for others."""

    def __init__(self) -> None:
        self._index: Bm25 | None = None

    def of(self, task: Task) -> Bm25:
        """Return the index of the task's collection, which is the same for all tasks."""
        if self._index is None:
            self._index = index_of(task, Bm25Parameters())
        return self._index


class Bm25System(System):
    """BM25 as a baseline; one index serves all shifts.

    Args:
        **options: fields of `Bm25Parameters`.
    """

    name = "bm25"
    per_group = False

    def __init__(self, **options: Any) -> None:
        self._parameters = Bm25Parameters(**options)
        self._index: Bm25 | None = None
        self._ids: PassageIds | None = None
        self._passages: dict[str, object] = {}

    @property
    def tag(self) -> str:
        """The run tag."""
        return self.name

    @property
    def parameters(self) -> Mapping[str, object]:
        """The variant and the fields of `Bm25Parameters`."""
        return {"variant": "lucene", **asdict(self._parameters)}

    def check(self, work: Path) -> None:
        """Check that the engine is installed, by indexing one word."""
        del work
        Bm25([Passage("1", "word")], self._parameters)

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Index the collection, unless that is done, and rank."""
        yield from self._rankings_by(self._parameters, task)

    def _rankings_by(self, parameters: Bm25Parameters, task: Task) -> Iterator[tuple[str, Ranking]]:
        # Other machines have an index of their own, and this process only needs the doc_ids.
        needs_index = engine_in_use().address is None
        if self._ids is None or (
            needs_index and (self._index is None or self._index.parameters != parameters)
        ):
            with task.record.stage("index"):
                self._index = index_of(task, parameters) if needs_index else None
                self._ids = self._index.ids if self._index else _ids_of(task.passages("read"))
            self._passages = task.record.facts["passages"]
        task.record.facts["passages"] = self._passages
        index = self._index if needs_index else None
        yield from task.ranked(_rank(task, parameters, self._ids, index), self._ids)


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries to be ranked for, and what decides their rankings."""

    passages: str
    parameters: Bm25Parameters
    stemmed_by: str
    texts: Sequence[str]
    index: Bm25 | None = field(compare=False)
    address: str = field(compare=False)


def _find(block: _Block) -> npt.NDArray[np.int64]:
    """Return the rankings of a block, packed; see `Bm25.find`."""
    index = block.index
    if index is None:
        index = named_index(block.address, block.passages, block.parameters, block.stemmed_by)
    return index.find(block.texts)


def _rank(
    task: Task, parameters: Bm25Parameters, ids: PassageIds, index: Bm25 | None
) -> Iterator[Ranking]:
    """Rank passages for the test queries of a task, by the engine in use.

    Args:
        task: the task; its passages were streamed.
        parameters: the parameters.
        ids: the doc_ids of its collection.
        index: the index; `None` if only a cluster's machines rank.

    Yields:
        A ranking for each query, in their order.

    Raises:
        UsageError: if a cluster's machines would not find the collection.
    """
    passages = task.record.facts["passages"]["sha256"]
    stemmed_by = stemmer_version(parameters.stemmer)
    address = shared_address(task.collection) if index is None else ""
    blocks = (
        _Block(passages, parameters, stemmed_by, [row.text for row in part], index, address)
        for part in batches(task.queries, _BLOCK_QUERIES)
    )
    done = 0
    for block in engine_in_use().keep(_find, blocks, task.work / "blocks"):
        best = block.load()
        done += len(best)
        task.progress(f"search {task.test_set}".rstrip(), done, len(task.queries))
        for part in batches(range(len(best)), BATCH):
            yield from rankings_of(best[part[0] : part[-1] + 1], ids)


def _ids_of(passages: Iterator[Passage]) -> PassageIds:
    return PassageIds([passage.doc_id for passage in passages])
