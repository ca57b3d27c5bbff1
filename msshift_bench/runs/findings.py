"""Codes of findings about runs, which never change, and a log of findings."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from msshift_bench.errors import MAX_FINDINGS, Finding, RunError
from msshift_bench.runs.formats import RUN_FORMATS
from msshift_bench.runs.lines import LINE_BITS

WARNINGS: Mapping[str, str] = MappingProxyType(
    {
        "rank-zero-based": "write ranks from 1",
        "rank-repeated": "give every document of a query a rank of its own",
        "rank-gap": "number a query's documents 1, 2, 3, ...",
        "rank-order": "write a query's lines in the order of their ranks",
        "rank-decimal": "write ranks as whole numbers: 1, not 1.0",
        "rank-score-disagree": "make sure that a higher score means a better rank, or use --ties "
        "rank",
        "unknown-query": "check that the run and the test set belong together",
        "query-without-qrels": "check that the run and the qrels belong together",
        "id-leading-zeros": "read ids as strings, and write them as they came",
        "id-decimal": "read ids as strings: a table of numbers turned 7 into 7.0",
    }
)
"""Code of a warning -> its fix, in one sentence."""

_SHAPES = {row.name: f"{row.name} ({row.shape})" for row in RUN_FORMATS.values()}
_COLUMNS = ", ".join(shape for shape in _SHAPES.values() if "(query_id " in shape)
_NESTED = ", ".join(shape for shape in _SHAPES.values() if "({" in shape)

CODES: Mapping[str, str] = MappingProxyType(
    {
        "empty-file": "check that the retrieval run finished and wrote its output",
        "binary-input": f"give a run in one of the formats {', '.join(RUN_FORMATS)}, compressed "
        "with gzip, bzip2, xz or zstd if at all; load lz4 or a pickle with the tool that wrote it, "
        "and save it with msshift_bench.write_run",
        "truncated-input": "copy or compress the file again: it is cut off or damaged",
        "changed-while-read": "wait until the file is written, and try again",
        "unreadable-parquet": "write columns query_id, doc_id and score (optionally rank) to the "
        "file",
        "parquet-too-large": "write short ids, and less than a gigabyte at once",
        "not-utf8": "convert the file to UTF-8",
        "field-count": f"write all lines in one format: {_COLUMNS}, with no white space inside a "
        "field; save other columns with msshift_bench.write_run",
        "format-ambiguous": "name the format: --run-format msmarco if the numbers are ranks, "
        "--run-format three-scores if they are scores",
        "format-contradicted": "write all lines in one format, or name it with --run-format",
        "not-json": "write the file again: its JSON is cut off or damaged",
        "json-too-large": "write the run as Parquet or in columns of text",
        "wrong-nesting": f"nest the values as one of the formats: {_NESTED}",
        "duplicate-key": "keep one value per key: other readers of JSON keep the last one only",
        "several-runs": "keep one run in the file, or score the file with msshift score, which "
        "scores each of its runs; in Python msshift_bench.runs.run_sources opens each",
        "id-invalid": "give ids as strings of 1 to 1,048,576 bytes, or as integers",
        "score-not-number": "write scores as decimal numbers such as 12.75 or 1e-3",
        "score-nan": "find out why the model gave NaN, and retrieve again",
        "score-infinite": "write scores that fit 32-bit floats",
        "rank-not-integer": "write ranks as whole numbers from 1, and no header",
        "duplicate-document": "keep one line per document in a query's ranking",
        **WARNINGS,
    }
)
"""Code of an error or a warning about a run -> its fix. Codes are never renamed or reused."""


class RunFindings:
    """Log of findings while a run is read: counts all, and keeps the first few of each code.

    Args:
        sources: the names of the run's files, in reading order.
        strict: treat every warning as an error.
        escalated: codes of warnings that are errors for this run.
    """

    def __init__(
        self, sources: Sequence[str], *, strict: bool = False, escalated: Sequence[str] = ()
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.sources = tuple(sources)
        self._strict = strict
        self._escalated = frozenset(escalated)
        self._first: dict[str, list[tuple[int, str]]] = {}

    def counts_of(self, severity: Literal["error", "warning"]) -> dict[str, int]:
        """Code -> number of findings of one severity, kept or not."""
        counts = sorted(self.counts.items())
        return {code: count for code, count in counts if self.severity(code) == severity}

    def severity(self, code: str) -> Literal["error", "warning"]:
        """The severity of `code` for this run."""
        is_warning = code in WARNINGS and code not in self._escalated and not self._strict
        return "warning" if is_warning else "error"

    def add(self, code: str, place: int, message: str, *, once: bool = False) -> None:
        """Count one finding, and keep it if it is among the first of its code.

        Args:
            code: one of `CODES`.
            place: the place, encoded by `lines.place_of`.
            message: one sentence with the value and the expected value.
            once: whether to skip the finding if the file already has one of this code.
        """
        files = {known >> LINE_BITS for known, _ in self._first.get(code, ()) if once}
        if place >> LINE_BITS in files:
            return
        self.add_many(code, (place,), (message,))

    def add_many(
        self, code: str, places: Sequence[int] | NDArray[np.int64], messages: Sequence[str]
    ) -> None:
        """Count findings of one code, and keep those among the first.

        Args:
            code: one of `CODES`.
            places: their places, ascending.
            messages: the messages of the first `MAX_FINDINGS` findings.
        """
        if not len(places):
            return
        self.counts[code] += len(places)
        first = self._first.setdefault(code, [])
        for place, message in zip(places, messages, strict=False):
            bisect.insort(first, (int(place), message), key=itemgetter(0))
        del first[MAX_FINDINGS:]

    def kept(self, severity: Literal["error", "warning"]) -> tuple[Finding, ...]:
        """The first `MAX_FINDINGS` of each code of one severity, in reading order."""
        findings = sorted(
            (place, code, message)
            for code, first in self._first.items()
            if self.severity(code) == severity
            for place, message in first
        )
        return tuple(
            Finding(
                code=code,
                message=message,
                source=self.sources[place >> LINE_BITS],
                line=place & ((1 << LINE_BITS) - 1),
                fix=CODES[code],
                severity=severity,
            )
            for place, code, message in findings
        )

    def stop_if_errors(self) -> None:
        """Raise `RunError` with the errors so far, if there are any.

        Raises:
            RunError: with at most `MAX_FINDINGS` errors of each code, in reading order.
        """
        counts = self.counts_of("error")
        if counts:
            name, errors = ", ".join(self.sources), sum(counts.values())
            noun = "error" if errors == 1 else "errors"
            raise RunError(f"{name}: {errors} {noun}", self.kept("error"), counts)
