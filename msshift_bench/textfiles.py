"""Reading line-based files strictly: numbered lines, and findings instead of tracebacks.

Every reader of passages, queries and qrels goes through here, so that a bad line is reported the
same way everywhere: all findings of a file at once, each with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from msshift_bench.errors import Findings
from msshift_bench.reading.files import DamagedInputError, open_stream
from msshift_bench.records import Qrel

__all__ = ["jsonl_rows", "numbered_lines", "qrels_rows", "tsv_rows"]

_BOM = b"\xef\xbb\xbf"
_BEIR_HEADER = ["query-id", "corpus-id", "score"]


def numbered_lines(path: Path, findings: Findings) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line)`` of a UTF-8 text file, without line ends.

    A leading byte order mark, CRLF line ends and blank lines at the very end are tolerated. Lines
    that are not UTF-8, other blank lines and a truncated file are recorded in `findings`.

    Args:
        path: the file; plain, or compressed with gzip, bzip2, xz or zstd, whatever its name.
        findings: where what is wrong is recorded.

    Raises:
        NotFoundError: if there is no such file.
    """
    number = 0
    blank_since = 0
    try:
        with open_stream(path) as stream:
            for raw in stream:
                number += 1
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
                if not raw:
                    blank_since = blank_since or number
                    continue
                if blank_since:
                    fix = "remove it"
                    findings.add("blank-line", "blank line", str(path), blank_since, fix)
                    blank_since = 0
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    message = f"byte {error.start + 1} of the line is not UTF-8"
                    fix = "convert the file to UTF-8"
                    findings.add("not-utf8", message, str(path), number, fix)
    except DamagedInputError as error:
        fix = "copy or compress the file again"
        findings.add("truncated-input", str(error), str(path), number + 1, fix)


def tsv_rows(
    path: Path, columns: tuple[str, ...], findings: Findings
) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of the lines with exactly the given tab-separated columns."""
    expected = len(columns)
    for number, line in numbered_lines(path, findings):
        fields = line.split("\t")
        if len(fields) != expected:
            findings.add(
                "field-count",
                f"{len(fields)} tab-separated fields where {expected} were expected "
                f"({', '.join(columns)})",
                str(path),
                number,
                "one record per line, fields separated by single tabs",
            )
        elif not fields[0]:
            findings.add("empty-id", f"the {columns[0]} is empty", str(path), number)
        else:
            yield number, fields


def jsonl_rows(
    path: Path, fields: tuple[str, ...], findings: Findings
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield ``(line number, record)`` of the JSON lines that hold all `fields`, ids as strings."""
    for number, line in numbered_lines(path, findings):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            findings.add("not-json", f"not a JSON object: {error}", str(path), number)
            continue
        missing = [f for f in fields if not isinstance(record, dict) or f not in record]
        if missing:
            findings.add(
                "missing-field",
                f"no {' and no '.join(map(repr, missing))} in the record",
                str(path),
                number,
                f"every line is an object with {', '.join(fields)}",
            )
        else:
            yield number, {key: str(value) for key, value in record.items()}


def qrels_rows(path: Path, findings: Findings) -> Iterator[tuple[int, Qrel]]:
    """Yield ``(line number, judgement)`` of a qrels file.

    Taken are TREC's four columns (query, iteration, document, relevance) and three (query,
    document, relevance), separated by spaces or tabs, with BEIR's header line or without.
    """
    for number, line in numbered_lines(path, findings):
        # Only ASCII white space separates: an id may hold any other character.
        fields = [field.decode() for field in line.encode().split()]
        if number == 1 and fields == _BEIR_HEADER:
            continue
        if len(fields) not in (3, 4):
            message = f"found {len(fields)} fields where four (TREC) or three were expected"
            fix = "write 'query_id 0 doc_id relevance' or 'query_id doc_id relevance'"
            findings.add("field-count", message, str(path), number, fix)
            continue
        try:
            yield number, Qrel(fields[0], fields[-2], int(fields[-1]))
        except ValueError:
            message = f"relevance {fields[-1]!r} is not a whole number"
            findings.add("relevance-not-integer", message, str(path), number)
