"""Reading line-based files strictly: numbered lines, and findings instead of tracebacks.

Every reader of passages, queries and qrels goes through here, so that a bad line is reported the
same way everywhere: all findings of a file at once, each with its line.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from msshift_bench.errors import Findings
from msshift_bench.records import Qrel

__all__ = ["jsonl_rows", "numbered_lines", "read_qrels_rows", "tsv_rows"]

_BOM = b"\xef\xbb\xbf"


def numbered_lines(path: Path, findings: Findings) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line)`` of a UTF-8 text file, plain or gzip, without line ends.

    A leading byte order mark, CRLF line ends and blank lines at the very end are tolerated. Lines
    that are not UTF-8 and a truncated gzip stream are recorded in `findings` and skipped.

    Args:
        path: the file; read as gzip if its name ends in ``.gz``.
        findings: where what is wrong is recorded.
    """
    number = 0
    blank_since = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for raw in file:
                number += 1
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
                if not raw:
                    blank_since = blank_since or number
                    continue
                if blank_since:
                    findings.add(
                        "blank-line",
                        "blank line inside the file",
                        str(path),
                        blank_since,
                        "remove it",
                    )
                    blank_since = 0
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    findings.add(
                        "not-utf8",
                        f"byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8",
                        str(path),
                        number,
                        "convert the file to UTF-8",
                    )
    except (gzip.BadGzipFile, EOFError) as error:
        findings.add(
            "bad-gzip",
            f"not a complete gzip file ({error})",
            str(path),
            number + 1,
            "compress it again, or drop the .gz from its name",
        )


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


def read_qrels_rows(path: Path, findings: Findings) -> Iterator[tuple[int, Qrel]]:
    """Yield ``(line number, judgement)`` of a qrels file.

    Taken are TREC's four columns (query, iteration, document, relevance) and three (query,
    document, relevance), separated by spaces or tabs, with BEIR's header line or without.
    """
    for number, line in numbered_lines(path, findings):
        fields = line.split()
        if number == 1 and fields[:2] == ["query-id", "corpus-id"]:
            continue
        if len(fields) not in (3, 4):
            findings.add(
                "field-count",
                f"{len(fields)} fields where 4 or 3 were expected "
                "(query_id, [iteration,] doc_id, relevance)",
                str(path),
                number,
            )
            continue
        try:
            relevance = int(fields[-1])
        except ValueError:
            findings.add(
                "bad-relevance",
                f"relevance {fields[-1]!r} is not a whole number",
                str(path),
                number,
            )
            continue
        yield number, Qrel(fields[0], fields[-2], relevance)
