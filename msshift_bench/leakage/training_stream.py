"""Training queries as a stream of blocks, however many there are."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.errors import CollectionError, DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.plumbing import Progress, batches, counted, silent, tsv_rows
from msshift_bench.records import Query
from msshift_bench.similarity import QuerySource, read_query_set

__all__ = ["TrainingStream"]


class TrainingStream:
    """Training queries that can be read several times, a block of them at a time in memory.

    Args:
        source: the queries. A file must be one on disk, since it is read more than once.
        progress: called with ``(stage, done, total)``.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if it is a pipe or a folder.
        DataError: if there is no query in memory.
    """

    def __init__(self, source: QuerySource, *, progress: Progress = silent) -> None:
        self._progress = progress
        self._path = Path(source) if isinstance(source, str | Path) else None
        self._queries = None if isinstance(source, str | Path) else read_query_set(source)
        self._total = 0
        if self._path is not None and not self._path.is_file():
            if self._path.exists():
                raise UsageError(f"{self._path} is read twice; give a file, no pipe and no folder")
            raise NotFoundError(f"there is no file {self._path}")

    def __len__(self) -> int:
        """Return the number of queries; 0 before they were read to their end once."""
        return self._total

    def checked(self, test_texts: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Yield the text of every query, and check the queries.

        Args:
            test_texts: query_id -> the texts of which a training query of this id must have one.

        Raises:
            CollectionError: at the end, if the file is malformed, repeats an id, holds a query
                without text, or holds none; with every such line.
            DataError: if a query has another text than the test query of its id.
        """
        findings = FindingLog()
        hashes = array("q")
        differing: list[Query] = []
        for query in counted(self._rows(findings), self._progress, "read"):
            hashes.append(hash(query.query_id))
            if query.text not in test_texts.get(query.query_id, (query.text,)):
                differing.append(query)
            yield query.text
        self._total = len(hashes)
        if self._path is not None:
            if not (self._total or len(findings)):
                findings.add("no-queries", "the file holds no query", str(self._path))
            self._find_repeated(np.frombuffer(hashes, dtype=np.int64), findings)
            findings.stop_if_any(CollectionError, f"the queries in {self._path} cannot be used:")
        if differing:
            query_id, text = differing[0]
            raise DataError(
                f"{len(differing)} query ids have another text among the training queries than "
                f"among the test queries: {query_id!r} is {text!r} and "
                f"{min(test_texts[query_id])!r}; if the two number their queries each in its own "
                "way, say so (--separate-ids; in Python, separate_ids), or else give queries of "
                "one collection"
            )

    def blocks(self, size: int) -> Iterator[list[Query]]:
        """Yield the queries, after they were checked, in blocks and in their order."""
        rows = counted(self._rows(FindingLog()), self._progress, "compare", self._total)
        return batches(rows, size)

    def _rows(self, findings: FindingLog) -> Iterator[Query]:
        if self._queries is not None:
            yield from self._queries
            return
        assert self._path is not None
        for line, (query_id, text) in tsv_rows(self._path, ("query_id", "text"), findings):
            if text.strip():
                yield Query(query_id, text)
            else:
                message = f"query {query_id!r} has no text"
                findings.add("empty-text", message, str(self._path), line)

    def _find_repeated(self, hashes: Ints, findings: FindingLog) -> None:
        """Find repeated ids without holding them all: only those whose hashes occur twice."""
        ordered = np.sort(hashes)
        suspected = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not suspected:
            return
        assert self._path is not None
        seen: set[str] = set()
        for line, (query_id, _) in tsv_rows(self._path, ("query_id", "text"), FindingLog()):
            if hash(query_id) in suspected:
                if query_id in seen:
                    message = f"query_id {query_id!r} again"
                    findings.add("repeated-id", message, str(self._path), line)
                seen.add(query_id)
