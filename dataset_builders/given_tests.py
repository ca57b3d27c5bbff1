"""Test queries from a file instead of a sample: ``msshift build --test-queries FILE``.

The release of 2022 tests `length` with all of MS MARCO's dev-small, cut in two by the rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection as Sized
from pathlib import Path

from msshift_bench.data import Collection
from msshift_bench.errors import CollectionError, FindingLog
from msshift_bench.plumbing import numbered_lines

__all__ = ["describe", "read_test_queries"]


def read_test_queries(path: Path, collection: Collection, usable: Sized[str]) -> frozenset[str]:
    """Read the ids of test queries, each on a line of its own.

    Args:
        path: the file, which may be compressed. In lines with tabs, as in ``queries.tsv``, the
            first column is the id.
        collection: the collection of the queries.
        usable: the ids of its queries that have a relevant passage.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it names no query, names one twice, or names one that the collection
            lacks or that has no relevant passage; with all such lines.
    """
    findings = FindingLog()
    lines: dict[str, int] = {}
    known = frozenset(collection.queries.ids)
    for line, text in numbered_lines(path, findings):
        query_id = text.partition("\t")[0]
        first = lines.setdefault(query_id, line)
        if first != line:
            message, fix = f"query {query_id!r} again, after line {first}", "name it once"
            findings.add("repeated-id", message, str(path), line, fix)
        elif query_id not in known:
            message = f"{collection.name} has no query {query_id!r}"
            fix = "a line is a query_id, or begins with one and a tab"
            findings.add("unknown-query", message, str(path), line, fix)
        elif query_id not in usable:
            message = f"query {query_id!r} has no relevant passage in {collection.name}"
            fix = "leave it out: what it is answered with cannot be scored"
            findings.add("unjudged-query", message, str(path), line, fix)
    if not lines:
        findings.add("no-queries", "the file names no query", str(path))
    findings.stop_if_any(CollectionError, f"the test queries in {path} cannot be used:")
    return frozenset(lines)


def describe(query_ids: Sized[str]) -> dict[str, object]:
    """Return what a manifest records of given test queries: their number and a digest of ids."""
    joined = "".join(f"{query_id}\n" for query_id in sorted(query_ids))
    return {"queries": len(query_ids), "sha256": hashlib.sha256(joined.encode()).hexdigest()}
