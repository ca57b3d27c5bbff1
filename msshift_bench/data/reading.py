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
"""Names of columns of ids in a header."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def read_table(
    rows: Iterable[tuple[str, int, Key, Value]],
    findings: FindingLog,
    problem_of: Callable[[Key, Value, bool], tuple[str, ...]],
) -> dict[Key, Value]:
    """Return the sound rows in their order; the others give findings.

    Args:
        rows: source, line, key and value of each row; keys must be unique.
        findings: the log of findings.
        problem_of: takes a key, its value, and whether the key is repeated; returns nothing for a
            sound row, else a finding's code, message and optional fix.
    """
    sound: dict[Key, Value] = {}
    for source, line, key, value in rows:
        problem = problem_of(key, value, key in sound)
        if problem:
            code, message, *fix = problem
            findings.add(code, message, source, line, *fix)
        else:
            sound[key] = value
    return sound


def query_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, int, str, str]]:
    """Yield source, line, query_id and text of the lines of a file, separated by a tab."""
    for line, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
        yield str(path), line, query_id, text


def qrel_rows(paths: Iterable[Path], findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
    """Yield source, line and judgement of the lines of files of qrels."""
    for path in paths:
        for line, qrel in qrels_rows(path, findings):
            yield str(path), line, qrel


def read_texts(
    rows: Iterable[tuple[str, int, str, str]], findings: FindingLog, filled: Path | None = None
) -> dict[str, str]:
    """Return query_id -> text; ids must be unique, and texts not empty.

    Args:
        rows: rows from `query_rows`.
        findings: the log of findings.
        filled: their file, if it must have a query.
    """
    texts = read_table(rows, findings, _problem_of_query)
    if filled is not None and not texts and not len(findings):
        findings.add("no-queries", "the file holds no query", str(filled))
    return texts


def problem_of_id(name: str, value: str) -> tuple[str, ...]:
    """Return a finding's code, message and fix, if a value is not a valid id; else nothing.

    Args:
        name: the name of its column, ``query_id`` or ``doc_id``.
        value: the id.
    """
    if value.strip("'\"").lower() in COLUMN_NAMES:
        return "header-line", f"{name} {value!r} is the name of a column", "remove the header"
    if _ID.fullmatch(value):
        return ()
    message = f"{name} {value!r} is empty or holds white space"
    return "id-of-words", message, "make it one word: no run file can hold it"


def _problem_of_query(query_id: str, text: str, is_repeated: bool) -> tuple[str, ...]:
    if problem := problem_of_id("query_id", query_id):
        return problem
    if is_repeated:
        return "repeated-id", f"query_id {query_id!r} again"
    if not text.strip():
        return "empty-text", f"query {query_id!r} has no text"
    return ()


def read_queries(path: Path) -> dict[str, str]:
    """Return query_id -> text, from a file of both separated by a tab.

    Raises:
        NotFoundError: if there is no such file.
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

    A repeated judgement counts once, as in `judged_once`.

    Args:
        rows: rows from `qrel_rows`.
        findings: the log of findings.
        queries: the ids of the queries; `None` if they could not be read, to accept any.
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
    """A variant of a query: a paraphrase, or the query with an error, by some method.

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
        """Its query_id in run files."""
        return f"{self.query_id}{_MARK}{self.method}"


def read_variants(path: Path, queries: Container[str] | None = None) -> tuple[Variant, ...]:
    """Return the variants in a file: query_id, text and method, separated by tabs.

    Args:
        path: the file.
        queries: the ids of possible original queries; by default any.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed or empty, has two variants of a query by one method, or
            a variant without text, with an unknown query, or with an invalid name of a method.
    """

    def problem_of(key: tuple[str, str], text: str, is_repeated: bool) -> tuple[str, ...]:
        query_id, method = key
        if problem := problem_of_id("query_id", query_id):
            return problem
        if len(method.split()) != 1 or _MARK in method:
            message = f"{method!r} is not a method's name"
            return "bad-method", message, f"name it by one word without {_MARK!r}"
        if is_repeated:
            return "repeated-id", f"query {query_id!r} has a variant by {method} already"
        if not text.strip():
            return "empty-text", f"the variant of query {query_id!r} has no text"
        if queries is not None and query_id not in queries:
            return "unknown-query", f"there is no query {query_id!r}", "remove the variant"
        return ()

    findings = FindingLog()
    rows = (
        (str(path), line, (query_id, method), text)
        for line, (query_id, text, method) in tsv_rows(path, Variant._fields, findings)
    )
    variants = read_table(rows, findings, problem_of)
    if not variants and not len(findings):
        findings.add("no-variants", "the file holds no variant", str(path))
    findings.stop_if_any(CollectionError, f"the variants in {path} cannot be used:")
    return tuple(Variant(query_id, text, method) for (query_id, method), text in variants.items())


def write_variants(path: Path, variants: Iterable[Variant]) -> None:
    """Write variants to a file, in their order.

    Raises:
        DataError: if a text has a tab or a line break, which would end its field.
    """
    lines = ["\t".join(variant) for variant in variants]
    for line in lines:
        # Not splitlines, which breaks at further characters that the readers keep: raw MS MARCO has
        # some, as halves of letters that were encoded twice.
        if line.count("\t") != 2 or "\n" in line or "\r" in line:
            query_id = line.split("\t", 1)[0]
            raise DataError(
                f"the variant of query {query_id!r} holds a tab or a line break, so that no file "
                "of variants can hold it; write the query with spaces"
            )
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
