"""Runs: read and check them, and judge them against a test set.

The reader streams a run and keeps only the places of its relevant documents, so that memory does
not grow with the depth of the ranking. It compares scores as 32-bit floats, as `trec_eval` does.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType
from typing import Protocol

import numpy as np

from msshift_bench.errors import Finding, UnknownNameError
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.hits import (
    JudgedRun,
    QueryRanking,
    RankedDoc,
    RunReport,
    check_tie_policy,
)
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reading.judge import QueriesInterleavedError, RunJudge
from msshift_bench.runs.reading.lines import SoundLines, judge_grouped
from msshift_bench.runs.reading.memory import MemoryRun
from msshift_bench.runs.reading.run_files import (
    InputFile,
    is_parquet,
    open_run_files,
    sha256_of_files,
)
from msshift_bench.runs.reading.text_runs import TextRun

__all__ = ["RUN_FORMATS", "RunPart", "RunValidation", "judge_run", "read_run", "validate_run"]

RUN_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "auto": "what the file itself shows",
        "trec": "six columns: query_id Q0 doc_id rank score tag",
        "msmarco": "three columns: query_id doc_id rank",
        "parquet": "Parquet with columns query_id, doc_id, score and optionally rank",
    }
)
"""The formats of run files. Text formats may be compressed with gzip, bzip2, xz or zstd."""

_DIGESTED_ALONGSIDE = 1 << 22
"""Bytes from which on a run is digested while it is read; a thread for less takes longer."""


@dataclass(frozen=True, slots=True)
class RunValidation:
    """The result of checking a run.

    Attributes:
        errors: the first `MAX_FINDINGS` errors of each code, in reading order.
        warnings: the first `MAX_FINDINGS` warnings of each code, in reading order.
        counts: how many findings there were in all, by code.
        error_count: how many errors there were in all.
        report: what was read.
    """

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    counts: Mapping[str, int]
    error_count: int
    report: RunReport

    @property
    def ok(self) -> bool:
        """Whether the run can be evaluated."""
        return not self.error_count


class RunPart(Protocol):
    """One part of a run: a file, or values in memory. `file` is its number among the parts."""

    name: str
    tag: str

    def rows(self, file: int, findings: RunFindings) -> Iterator[SoundLines]:
        """Yield the rows in reading order; malformed ones become findings."""

    def judge(self, file: int, judge: RunJudge) -> None:
        """Judge the rows in reading order.

        Raises:
            QueriesInterleavedError: if a query comes back after another one.
        """


def read_run(
    source: object,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option on the command line too
    strict: bool = False,
) -> dict[str, dict[str, float]]:
    """Read a run into memory, and check it.

    `evaluate_run` and `write_run` take what this returns. To score a file, give them its path:
    a run that is scored is read as a stream.

    Args:
        source: a path, ``"-"`` for standard input, several paths that make one run, a mapping of
            mappings (query id -> doc id -> score), a table with columns query_id, doc_id and
            score (PyTerrier's qid and docno are understood), or an iterable of records.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        Query id -> doc id -> score as a 32-bit float, in the order in which they were read. Where
        a run has no scores, a document's score is minus its rank.

    Raises:
        RunError: with every error found; the message shows three of each kind.
        NotFoundError: if there is no such file.
        UsageError: if the source is nothing that can be read as a run.
        UnknownNameError: if the format is not a known one.
    """
    with _open_parts(source, format, "trec", keep_text=True) as (parts, files):
        _, findings = _judge_parts(parts, None, "trec", strict=strict)
        findings.stop_if_errors()
        return {
            query: {doc: score for doc, score, _ in lines}
            for query, lines in _read_again(parts, files)
        }


def judge_run(
    source: object,
    judgements: Judgements,
    *,
    tie_policy: str = "trec",
    format: str = "auto",  # noqa: A002 - as in read_run
    strict: bool = False,
    keep_text: bool = False,
) -> JudgedRun:
    """Read a run as a stream, check it, and judge it.

    Queries may be interleaved and rankings may differ in depth. Three-column files have no scores:
    a better rank counts as a higher score.

    Args:
        source: as in `read_run`.
        judgements: the test set.
        tie_policy: one of `TIE_POLICIES`.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.
        keep_text: keep the text of files in memory, for measures that need the rankings, too: else
            their files are read and decompressed a second time.

    Returns:
        What measures need of the run.

    Raises:
        RunError: with every error found; the message shows three of each kind.
        NotFoundError: if there is no such file.
        UsageError: if the source is nothing that can be read as a run, or has no ranks although
            the tie policy is ``rank``.
        UnknownNameError: if the tie policy or the format is not a known one.
    """
    run, findings = _judge(
        source, judgements, tie_policy, format, strict=strict, keep_text=keep_text
    )
    findings.stop_if_errors()
    return run


def validate_run(
    source: object,
    judgements: Judgements | None = None,
    *,
    tie_policy: str = "trec",
    format: str = "auto",  # noqa: A002 - as in judge_run
    strict: bool = False,
) -> RunValidation:
    """Check a run without computing anything from it.

    Args:
        source: as in `read_run`.
        judgements: the test set; without it, query ids are not checked.
        tie_policy: under ``rank``, warnings about ranks are errors.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        Errors and warnings, and what was read.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: as in `judge_run`.
    """
    run, findings = _judge(source, judgements, tie_policy, format, strict=strict)
    return RunValidation(
        errors=findings.kept("error"),
        warnings=findings.kept("warning"),
        counts=MappingProxyType(dict(findings.counts)),
        error_count=findings.errors,
        report=run.report,
    )


@contextmanager
def _open_parts(
    source: object, run_format: str, tie_policy: str, *, keep_text: bool
) -> Iterator[tuple[list[RunPart], list[InputFile]]]:
    """Open a run: its parts, and the files among them, readable while the context lasts."""
    check_tie_policy(tie_policy)
    if run_format not in RUN_FORMATS:
        raise UnknownNameError("run format", run_format, RUN_FORMATS)
    paths = _paths(source)
    if paths is None:
        yield [MemoryRun(source, with_ranks=tie_policy == "rank")], []
        return
    with open_run_files(paths) as files:
        yield _parts_of(files, run_format, tie_policy, keep_text=keep_text), files


def _judge(
    source: object,
    judgements: Judgements | None,
    tie_policy: str,
    run_format: str,
    *,
    strict: bool,
    keep_text: bool = False,
) -> tuple[JudgedRun, RunFindings]:
    with (
        _open_parts(source, run_format, tie_policy, keep_text=keep_text) as (parts, files),
        ThreadPoolExecutor(1) as digesting,
    ):
        digest: Callable[[], str] = functools.partial(sha256_of_files, files)
        if sum(file.state.size for file in files if file.state) >= _DIGESTED_ALONGSIDE:
            digest = digesting.submit(digest).result
        run, findings = _judge_parts(parts, judgements, tie_policy, strict=strict)
        report = replace(run.report, digest=digest() if files else "")
        _check_unchanged(files, findings)
        lasting = all(file.lasting for file in files)
        reread = functools.partial(_read_again, parts, tuple(files))
        return replace(
            run, report=report, reread=functools.cache(reread) if lasting else None
        ), findings


def _check_unchanged(files: Sequence[InputFile], findings: RunFindings) -> None:
    """Add a finding for each file that has changed since its lines were read and digested."""
    for number, file in enumerate(files):
        if file.has_changed:
            message = "the file changed while it was read"
            findings.add("changed-while-read", place_of(number, 0), message)


def _read_again(parts: Sequence[RunPart], files: Sequence[InputFile]) -> list[QueryRanking]:
    """Read a run that is known to be sound again, and return it query by query.

    Raises:
        RunError: if one of its files has changed since.
    """
    findings = RunFindings([part.name for part in parts])
    by_query: dict[bytes, list[RankedDoc]] = {}
    for number, part in enumerate(parts):
        for rows in part.rows(number, findings):
            ranks = rows.ranks or itertools.repeat(0)
            scores = np.array(rows.scores, dtype=np.float32).tolist()
            docs = [doc.decode() for doc in rows.docs]
            lines = zip(docs, scores, ranks, strict=False)
            for query, same_query in itertools.groupby(rows.queries):
                count = sum(1 for _ in same_query)
                by_query.setdefault(query, []).extend(itertools.islice(lines, count))
    _check_unchanged(files, findings)
    findings.stop_if_errors()
    return [(query.decode(), lines) for query, lines in by_query.items()]


def _paths(source: object) -> list[str | PathLike[str]] | None:
    """The paths that `source` names, or `None` if it is a run in memory."""
    if isinstance(source, str | PathLike):
        return [source]
    if isinstance(source, list | tuple) and source:
        paths = [part for part in source if isinstance(part, str | PathLike)]
        return paths if len(paths) == len(source) else None
    return None


def _parts_of(
    files: Iterable[InputFile], run_format: str, tie_policy: str, *, keep_text: bool
) -> list[RunPart]:
    parts: list[RunPart] = []
    first_text: TextRun | None = None
    for file in files:
        if run_format == "parquet" or (run_format == "auto" and is_parquet(file.path)):
            from msshift_bench.runs.reading.parquet import ParquetRun

            parts.append(ParquetRun(file, with_ranks=tie_policy == "rank"))
        else:
            text = TextRun(file, run_format, first_text, keeps=keep_text)
            first_text = first_text or text
            parts.append(text)
    return parts


def _judge_parts(
    parts: Sequence[RunPart],
    judgements: Judgements | None,
    tie_policy: str,
    *,
    strict: bool,
) -> tuple[JudgedRun, RunFindings]:
    """Judge a run's parts in order, or grouped by query if its queries are interleaved."""

    def begin() -> RunJudge:
        names = [part.name for part in parts]
        escalated = ("rank-zero-based", "rank-repeated") if tie_policy == "rank" else ()
        return RunJudge(
            judgements, tie_policy, RunFindings(names, strict=strict, escalated=escalated)
        )

    judge = begin()
    try:
        for number, part in enumerate(parts):
            part.judge(number, judge)
    except QueriesInterleavedError:
        judge = begin()
        rows = (part.rows(number, judge.findings) for number, part in enumerate(parts))
        judge_grouped(itertools.chain.from_iterable(rows), judge)
    findings = judge.findings
    if not (judge.queries or findings.errors):
        findings.add("empty-file", place_of(0, 0), "the run holds no line")
    report = RunReport(
        name=", ".join(part.name for part in parts),
        tag=parts[0].tag,
        lines=judge.lines,
        queries=judge.queries,
        extra_queries=judge.extra_queries,
        warnings=findings.kept("warning"),
        warning_counts=findings.warning_counts,
    )
    return judge.finish(report), findings
