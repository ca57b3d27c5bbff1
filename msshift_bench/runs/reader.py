"""Runs: reading and checking them, and judging them against a test set.

A run is read as a stream; only the places of its relevant documents are kept, so that memory does
not grow with the depth of the ranking. Scores are compared as 32-bit floats, as `trec_eval` does.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType

from msshift_bench.errors import Finding, UnknownNameError
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.hits import TIE_POLICIES, JudgedRun, Lines, RunReport, check_tie_policy
from msshift_bench.runs.qrels import Judgements, read_qrels
from msshift_bench.runs.reading.judge import QueriesInterleavedError, RunJudge
from msshift_bench.runs.reading.lines import judge_grouped
from msshift_bench.runs.reading.memory import MemoryRun
from msshift_bench.runs.reading.run_files import (
    InputFile,
    is_parquet,
    open_run_files,
    sha256_of_files,
)
from msshift_bench.runs.reading.text_runs import RunSource, TextRun, read_again
from msshift_bench.runs.writing import write_run

__all__ = [
    "RUN_FORMATS",
    "TIE_POLICIES",
    "JudgedRun",
    "Judgements",
    "RunReport",
    "RunValidation",
    "read_qrels",
    "judge_run",
    "validate_run",
    "write_run",
]

RUN_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "auto": "what the file itself shows",
        "trec": "six columns: query_id Q0 doc_id rank score tag",
        "msmarco": "three columns: query_id doc_id rank",
        "parquet": "Parquet with columns query_id, doc_id, score and optionally rank",
    }
)
"""The formats of run files. Text formats may be compressed with gzip, bzip2, xz or zstd."""


@dataclass(frozen=True, slots=True)
class RunValidation:
    """What checking a run found.

    Attributes:
        errors: the first `MAX_FINDINGS` errors in reading order.
        warnings: the first `MAX_FINDINGS` warnings in reading order.
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


def judge_run(
    source: object,
    judgements: Judgements,
    *,
    tie_policy: str = "trec",
    format: str = "auto",  # noqa: A002 - the name of the option on the command line too
    strict: bool = False,
) -> JudgedRun:
    """Read a run, check it, and judge it.

    Queries may be interleaved and rankings may differ in depth. Three-column files have no scores:
    a better rank counts as a higher score.

    Args:
        source: a path, ``"-"`` for standard input, several paths that make one run, a mapping of
            mappings (query id -> doc id -> score), a table with columns query_id, doc_id and
            score (PyTerrier's qid and docno are understood), or an iterable of records.
        judgements: the test set.
        tie_policy: one of `TIE_POLICIES`.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        What measures need of the run.

    Raises:
        RunError: with every error found, up to `MAX_FINDINGS` spelled out.
        NotFoundError: if there is no such file.
        UsageError: if the source is nothing that can be read as a run, or has no ranks although
            the tie policy is ``rank``.
        UnknownNameError: if the tie policy or the format is not a known one.
    """
    run, findings = _judge(source, judgements, tie_policy, format, strict=strict)
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
        source: as in `judge_run`.
        judgements: the test set; without it, query ids are not checked.
        tie_policy: under ``rank``, what is odd about ranks is an error.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

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


def _judge(
    source: object, judgements: Judgements | None, tie_policy: str, run_format: str, *, strict: bool
) -> tuple[JudgedRun, RunFindings]:
    check_tie_policy(tie_policy)
    if run_format not in RUN_FORMATS:
        raise UnknownNameError("run format", run_format, RUN_FORMATS)
    paths = _paths(source)
    if paths is None:
        sources: list[RunSource] = [MemoryRun(source, with_ranks=tie_policy == "rank")]
        run, findings = _judge_sources(sources, judgements, tie_policy, strict=strict)
        return replace(run, reread=functools.partial(read_again, sources)), findings
    with open_run_files(paths) as files, ThreadPoolExecutor(1) as digesting:
        digest = digesting.submit(sha256_of_files, files)
        sources = _open_sources(files, run_format, tie_policy)
        run, findings = _judge_sources(sources, judgements, tie_policy, strict=strict)
        report = replace(run.report, digest=digest.result())
        _check_unchanged(files, findings)
        reread = None
        if all(file.lasting for file in files):
            reread = functools.partial(_read_again, sources, tuple(files))
        return replace(run, report=report, reread=reread), findings


def _check_unchanged(files: Sequence[InputFile], findings: RunFindings) -> None:
    """Add a finding for each file that is not the one whose lines were read and digested."""
    for number, file in enumerate(files):
        if file.has_changed:
            message = "the file changed while it was read"
            findings.add("changed-while-read", place_of(number, 0), message)


def _read_again(sources: Sequence[RunSource], files: Sequence[InputFile]) -> Iterator[Lines]:
    """Read the files of a sound run again.

    Raises:
        RunError: if one of them has changed since.
    """
    lines = list(read_again(sources))
    findings = RunFindings([source.name for source in sources])
    _check_unchanged(files, findings)
    findings.stop_if_errors()
    yield from lines


def _paths(source: object) -> list[str | PathLike[str]] | None:
    """The paths that `source` names, or `None` if it is a run in memory."""
    if isinstance(source, str | PathLike):
        return [source]
    if isinstance(source, list | tuple) and source:
        paths = [part for part in source if isinstance(part, str | PathLike)]
        return paths if len(paths) == len(source) else None
    return None


def _open_sources(files: Iterable[InputFile], run_format: str, tie_policy: str) -> list[RunSource]:
    sources: list[RunSource] = []
    first_text: TextRun | None = None
    for file in files:
        if run_format == "parquet" or (run_format == "auto" and is_parquet(file.path)):
            from msshift_bench.runs.reading.parquet import ParquetRun

            sources.append(ParquetRun(file, with_ranks=tie_policy == "rank"))
        else:
            text = TextRun(file, run_format, first_text)
            first_text = first_text or text
            sources.append(text)
    return sources


def _judge_sources(
    sources: Sequence[RunSource],
    judgements: Judgements | None,
    tie_policy: str,
    *,
    strict: bool,
) -> tuple[JudgedRun, RunFindings]:
    """Judge a run's sources in order, or grouped by query where its queries are interleaved."""

    def begin() -> RunJudge:
        names = [source.name for source in sources]
        escalated = ("rank-zero-based", "rank-repeated") if tie_policy == "rank" else ()
        return RunJudge(
            judgements, tie_policy, RunFindings(names, strict=strict, escalated=escalated)
        )

    judge = begin()
    try:
        for number, source in enumerate(sources):
            source.judge(number, judge)
    except QueriesInterleavedError:
        judge = begin()
        parts = (source.rows(number, judge.findings) for number, source in enumerate(sources))
        judge_grouped(itertools.chain.from_iterable(parts), judge)
    findings = judge.findings
    if not (judge.queries or findings.errors):
        findings.add("empty-file", place_of(0, 0), "the run holds no line")
    report = RunReport(
        name=", ".join(source.name for source in sources),
        tag=sources[0].tag,
        lines=judge.lines,
        queries=judge.queries,
        extra_queries=judge.extra_queries,
        warnings=findings.kept("warning"),
        warning_counts=findings.warning_counts,
    )
    return judge.finish(report), findings
