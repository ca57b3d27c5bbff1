"""BM25 as a baseline; the index itself is `msshift_bench.search.bm25`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msshift_bench.baselines.bm25_shards import rank_by_bm25
from msshift_bench.baselines.system import System, Task
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, PassageIds, Ranking, kept_index
from msshift_bench.shards import works_here

__all__ = ["Bm25System", "CommonIndex", "index_of"]


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
        needs_index = works_here()
        if self._ids is None or (
            needs_index and (self._index is None or self._index.parameters != parameters)
        ):
            with task.record.stage("index"):
                self._index = index_of(task, parameters) if needs_index else None
                self._ids = self._index.ids if self._index else _ids_of(task.passages("read"))
            self._passages = task.record.facts["passages"]
        task.record.facts["passages"] = self._passages
        index = self._index if needs_index else None
        yield from task.ranked(rank_by_bm25(task, parameters, self._ids, index), self._ids)


def _ids_of(passages: Iterator[Passage]) -> PassageIds:
    return PassageIds([passage.doc_id for passage in passages])
