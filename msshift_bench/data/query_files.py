"""Files of queries: two tab-separated columns, query_id and text."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data.collection_columns import QueryColumns
from msshift_bench.errors import CollectionError, FindingLog
from msshift_bench.plumbing import tsv_rows

__all__ = ["read_queries"]


def read_queries(path: Path) -> QueryColumns:
    """Read a file of queries.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if the file is malformed, repeats an id, holds a query without text, or
            holds none.
    """
    findings = FindingLog()
    texts: dict[str, str] = {}
    for line, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
        if query_id in texts:
            findings.add("repeated-id", f"query_id {query_id!r} again", str(path), line)
        elif not text.strip():
            findings.add("empty-text", f"query {query_id!r} has no text", str(path), line)
        else:
            texts[query_id] = text
    if not texts and not len(findings):
        findings.add("no-queries", "the file holds no query", str(path))
    findings.stop_if_any(CollectionError, f"the queries in {path} cannot be used:")
    return QueryColumns(tuple(texts), tuple(texts.values()))
