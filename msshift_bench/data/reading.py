"""Reading of queries, judgements and variants from files, with findings for all errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from msshift_bench.errors import CollectionError, DataError, FindingLog
from msshift_bench.plumbing import judged_once, qrels_rows, tsv_rows, write_bytes
from msshift_bench.records import Qrel

_MARK = "#"

_ID = re.compile(r"[^\0\t-\r ]+")
"""Pattern of a field of a run file; only ASCII white space separates fields."""

COLUMN_NAMES = frozenset(
    f"{kind}{end}" for kind in ("query", "doc", "corpus") for end in ("_id", "-id", "id")
).union(("qid", "pid", "docno"))
"""Names of id columns in a header, in lower case."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def read_table(
    rows: Iterable[tuple[str, int, Key, Value]],
    findings: FindingLog,
    problem_of: Callable[[Key, Value, bool], tuple[str, ...]],
) -> dict[Key, Value]:
    """Return key -> value of the valid rows, in their order; other rows are added to findings.

    Args:
        rows: source, line, key and value of each row.
        findings: the log of findings.
        problem_of: function of a key, its value, and whether a valid row before has the key. It
            returns ``()`` for a valid row, else a finding's code, message and optional fix.
    """
    valid: dict[Key, Value] = {}
    for source, line, key, value in rows:
        problem = problem_of(key, value, key in valid)
        if problem:
            code, message, *fix = problem
            findings.add(code, message, source, line, *fix)
        else:
            valid[key] = value
    return valid


def query_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, int, str, str]]:
    """Yield source, line, query_id and text of each valid line; see `tsv_rows`."""
    for line, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
        yield str(path), line, query_id, text


def qrel_rows(paths: Iterable[Path], findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
    """Yield source, line and judgement for each valid line of qrels files; see `qrels_rows`."""
    for path in paths:
        for line, qrel in qrels_rows(path, findings):
            yield str(path), line, qrel


def read_texts(
    rows: Iterable[tuple[str, int, str, str]], findings: FindingLog, filled: Path | None = None
) -> dict[str, str]:
    """Return query_id -> text; invalid or repeated ids and empty texts are findings instead.

    Args:
        rows: rows from `query_rows`.
        findings: the log of findings.
        filled: the file of the rows, if a file without queries is a finding.
    """
    texts = read_table(rows, findings, _problem_of_query)
    if filled is not None and not texts and not len(findings):
        findings.add("no-queries", "the file has no queries", str(filled))
    return texts


def problem_of_id(name: str, value: str) -> tuple[str, ...]:
    """Return a finding's code, message and fix for an invalid id; ``()`` for a valid id.

    An id is invalid if it is empty, has ASCII white space, or is the name of an id column.

    Args:
        name: the name of the column, ``query_id`` or ``doc_id``.
        value: the id.
    """
    if value.strip("'\"").lower() in COLUMN_NAMES:
        return "header-line", f"{name} {value!r} is the name of a column", "remove the header"
    if _ID.fullmatch(value):
        return ()
    message = f"{name} {value!r} is empty or contains white space"
    return "id-of-words", message, "make the id one word, because run files separate fields by it"


def _problem_of_query(query_id: str, text: str, is_repeated: bool) -> tuple[str, ...]:
    if problem := problem_of_id("query_id", query_id):
        return problem
    if is_repeated:
        return "repeated-id", f"query_id {query_id!r} is repeated"
    if not text.strip():
        return "empty-text", f"query {query_id!r} has no text"
    return ()


def read_queries(path: Path) -> dict[str, str]:
    """Return query_id -> text, from a file with these two tab-separated columns, without a header.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if the path is a folder.
        CollectionError: if the file is malformed or empty, an id is repeated, or a query has no
            text.
    """
    findings = FindingLog()
    queries = read_texts(query_rows(path, findings), findings, path)
    findings.stop_if_any(CollectionError, f"the queries in {path} cannot be used:")
    return queries


def read_judgements(
    rows: Iterable[tuple[str, int, Qrel]], findings: FindingLog, queries: Container[str] | None
) -> dict[str, dict[str, int]]:
    """Return the judgements of queries: query_id -> doc_id -> relevance, in their order.

    A repeated judgement counts once, as in `judged_once`. Judgements of unknown queries are
    findings.

    Args:
        rows: rows from `qrel_rows`.
        findings: the log of findings.
        queries: the valid query_ids; `None` to accept any.
    """

    def known() -> Iterator[tuple[str, int, Qrel]]:
        for source, line, qrel in rows:
            if queries is None or qrel.query_id in queries:
                yield source, line, qrel
            else:
                message = f"query_id {qrel.query_id!r} is not among the queries"
                findings.add(
                    "unknown-query", message, source, line, "add the query, or remove the row"
                )

    judged: dict[str, dict[str, int]] = {}
    for query_id, doc_id, relevance in judged_once(known(), findings):
        judged.setdefault(query_id, {})[doc_id] = relevance
    return judged


class Variant(NamedTuple):
    """A variant of a query: a paraphrase, or the query with an error, made by a method.

    Attributes:
        query_id: the id of the original query.
        text: the text of the variant.
        method: the name of the method, e.g. ``typos-1``; one word without ``#``.

    Examples:
        >>> Variant("1048585", "waht is paula deen's brother", "typos-1").run_id
        '1048585#typos-1'
    """

    query_id: str
    text: str
    method: str

    @property
    def run_id(self) -> str:
        """The variant's query_id in run files."""
        return f"{self.query_id}{_MARK}{self.method}"


def read_variants(path: Path, queries: Container[str] | None = None) -> tuple[Variant, ...]:
    """Return the variants in a file: query_id, text and method, separated by tabs; no header.

    Args:
        path: the file.
        queries: the valid query_ids of original queries; by default any.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if the path is a folder.
        CollectionError: if the file is malformed or empty, or has two variants of a query by one
            method. Or if a variant has no text, an unknown query, or an invalid method name.
    """

    def problem_of(key: tuple[str, str], text: str, is_repeated: bool) -> tuple[str, ...]:
        query_id, method = key
        if problem := problem_of_id("query_id", query_id):
            return problem
        if len(method.split()) != 1 or _MARK in method:
            message = f"{method!r} is not a valid method name"
            return "bad-method", message, f"use one word without {_MARK!r}"
        if is_repeated:
            return "repeated-id", f"query {query_id!r} has two variants by {method}"
        if not text.strip():
            return "empty-text", f"the variant of query {query_id!r} has no text"
        if queries is not None and query_id not in queries:
            return "unknown-query", f"no query has the id {query_id!r}", "remove the variant"
        return ()

    findings = FindingLog()
    rows = (
        (str(path), line, (query_id, method), text)
        for line, (query_id, text, method) in tsv_rows(path, Variant._fields, findings)
    )
    variants = read_table(rows, findings, problem_of)
    if not variants and not len(findings):
        findings.add("no-variants", "the file has no variants", str(path))
    findings.stop_if_any(CollectionError, f"the variants in {path} cannot be used:")
    return tuple(Variant(query_id, text, method) for (query_id, method), text in variants.items())


def write_variants(path: Path, variants: Iterable[Variant]) -> None:
    """Write variants to a file, in their order.

    Raises:
        DataError: if a field contains a tab or a line break.
        UsageError, OSError: if the file cannot be written.
    """
    lines = ["\t".join(variant) for variant in variants]
    for line in lines:
        # `splitlines` would also split at characters of double-encoded texts of MS MARCO.
        if line.count("\t") != 2 or "\n" in line or "\r" in line:
            query_id = line.split("\t", 1)[0]
            raise DataError(
                f"the variant of query {query_id!r} contains a tab or a line break, which separate "
                "fields and lines; replace them by spaces"
            )
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
