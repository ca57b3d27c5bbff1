"""Queries and judgements as columns, in the order of their source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msshift_bench.records import Qrel, Query

__all__ = ["QrelColumns", "QueryColumns"]


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """Queries as two columns of equal length, in the order of their source."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.ids, self.texts)


@dataclass(frozen=True, slots=True)
class QrelColumns:
    """Judgements as three columns of equal length, in the order of their source."""

    query_ids: tuple[str, ...]
    doc_ids: tuple[str, ...]
    relevances: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[Qrel]:
        return map(Qrel, self.query_ids, self.doc_ids, self.relevances)

    def relevant(self) -> dict[str, tuple[str, ...]]:
        """Return each query's relevant passages (relevance at least 1), doc_ids sorted."""
        return {query_id: tuple(sorted(docs)) for query_id, docs in self.graded().items()}

    def graded(self) -> dict[str, dict[str, int]]:
        """Return query_id -> doc_id -> relevance, of relevant passages (relevance at least 1)."""
        found: dict[str, dict[str, int]] = {}
        rows = zip(self.query_ids, self.doc_ids, self.relevances, strict=True)
        for query_id, doc_id, relevance in rows:
            if relevance >= 1:
                found.setdefault(query_id, {})[doc_id] = relevance
        return found
