"""BM25 as a baseline; the index itself is `msshift_bench.search.bm25`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msshift_bench.baselines.system import System, Task
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, Ranking, kept_index

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
        if self._index is None or self._index.parameters != parameters:
            with task.record.stage("index"):
                self._index = index_of(task, parameters)
            self._passages = task.record.facts["passages"]
        task.record.facts["passages"] = self._passages
        rankings = self._index.search(row.text for row in task.queries)
        yield from task.ranked(rankings, self._index.ids)
