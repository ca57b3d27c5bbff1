"""Extra test sets: queries with judgements of their own, for the passages of the benchmark.

MS-Shift's first version measured its models on MS MARCO dev and on TREC DL 2019, too (Table 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msshift_bench.data.collection import find_text_file
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.query_files import read_queries
from msshift_bench.errors import CollectionError, FindingLog, NotFoundError, UsageError
from msshift_bench.plumbing import qrels_rows
from msshift_bench.records import Query, Row
from msshift_bench.shifts import can_name_runs

__all__ = ["ExtraTestSet", "read_extra_tests"]


@dataclass(frozen=True, eq=False, repr=False)
class ExtraTestSet:
    """An extra test set.

    Attributes:
        name: its name, and that of the folder of its runs.
        folder: the folder that it was read from.
        rows: the queries that have judgements, sorted by query_id; `Row.group` is the name.
        judged: query_id -> doc_id -> relevance, of the same queries, with passages judged not
            relevant.
        unjudged: how many further queries the folder holds; they count nowhere.
    """

    name: str
    folder: Path
    rows: tuple[Row, ...]
    judged: Mapping[str, dict[str, int]]
    unjudged: int

    def __repr__(self) -> str:
        return f"<ExtraTestSet {self.name}: {len(self.rows):,} queries>"

    @cached_property
    def facts(self) -> dict[str, object]:
        """What decides a ranking for it, for sidecars: its name, and its queries' digest."""
        queries = (Query(row.query_id, row.text) for row in self.rows)
        return {"name": self.name, "queries_sha256": ContentDigest.of(queries).hexdigest()}


def read_extra_tests(named: Mapping[str, str | Path]) -> tuple[ExtraTestSet, ...]:
    """Read extra test sets.

    Args:
        named: name -> a folder of ``queries.tsv`` (query_id, text) and ``qrels.tsv`` (TREC's four
            columns, or three), each plain or ``.gz``. Queries without a judgement are left out.

    Raises:
        UsageError: if a name cannot be a folder's.
        NotFoundError: if there is no such folder, or it lacks a file.
        CollectionError: if a file is malformed, a judged query has no text, or none is judged.
    """
    return tuple(_read(name, Path(folder).expanduser()) for name, folder in named.items())


def _read(name: str, folder: Path) -> ExtraTestSet:
    if not can_name_runs(name):
        raise UsageError(
            f"{name!r} cannot be a test set's name: it names a folder, so it holds no space or "
            "'/', does not begin with '.', and is no shift's name"
        )
    if not folder.is_dir():
        raise NotFoundError(f"no folder {folder} for the test set {name}")
    queries = read_queries(find_text_file(folder, "queries.tsv"))
    texts = dict(zip(queries.ids, queries.texts, strict=True))
    judged = _judgements(find_text_file(folder, "qrels.tsv"), texts)
    rows = tuple(
        Row.judged(
            query_id,
            texts[query_id],
            name,
            {doc_id: grade for doc_id, grade in judged[query_id].items() if grade >= 1},
        )
        for query_id in sorted(judged)
    )
    judged = {row.query_id: judged[row.query_id] for row in rows}
    return ExtraTestSet(name, folder, rows, judged, len(texts) - len(rows))


def _judgements(path: Path, texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    findings = FindingLog()
    judged: dict[str, dict[str, int]] = {}
    for line, (query_id, doc_id, relevance) in qrels_rows(path, findings):
        if query_id not in texts:
            message = f"query_id {query_id!r} is not in queries.tsv"
            fix = "add the query, or remove the row"
            findings.add("unknown-query", message, str(path), line, fix)
        elif doc_id in judged.setdefault(query_id, {}):
            message = f"query {query_id!r} and passage {doc_id!r} judged again"
            findings.add("duplicate-judgement", message, str(path), line)
        else:
            judged[query_id][doc_id] = relevance
    if not judged and not len(findings):
        message = f"it judges none of the {len(texts):,} queries"
        fix = "add judgements: query_id, 0, doc_id, relevance"
        findings.add("no-judgement", message, str(path), fix=fix)
    findings.stop_if_any(CollectionError, f"the judgements in {path} cannot be used:")
    return judged
