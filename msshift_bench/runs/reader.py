"""Runs: read and check them, and judge them against a test set.

The reader streams a run and keeps only the places of its relevant documents, so that memory does
not grow with the depth of the ranking. It compares scores as 32-bit floats, as `trec_eval` does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType

import pyarrow as pa

from msshift_bench.errors import Finding, UnknownNameError
from msshift_bench.plumbing import file_state, map_in_threads
from msshift_bench.runs.findings import RunFindings, place_of
from msshift_bench.runs.judged import (
    JudgedRun,
    Judgements,
    QueryRanking,
    RankedDoc,
    RunReport,
    check_tie_policy,
)
from msshift_bench.runs.judging import QueriesInterleavedError, RunJudge, grouped, whole_queries
from msshift_bench.runs.lines import Lines, take
from msshift_bench.runs.sources import (
    MOST_THREADS,
    InputFile,
    MemoryRun,
    ParquetRun,
    Source,
    TextRun,
    is_parquet,
    open_run_files,
    sha256_of_files,
)

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
        """Whether the run can be scored."""
        return not self.error_count


def read_run(
    source: object,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option on the command line too
    strict: bool = False,
) -> dict[str, dict[str, float]]:
    """Read a run into memory, and check it.

    `score_runs` and `write_run` take what this returns. To score a file, give them its path:
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
        UsageError: if the source is nothing that can be read as a run, such as a folder.
        UnknownNameError: if the format is not a known one.

    Examples:
        >>> run = read_run("my.run")
        >>> run["q2"], list(run["q1"])
        ({'d8': 5.0}, ['d3', 'd1'])
    """
    with _open_parts(source, format, "trec") as (parts, files):
        lines: list[Lines] = []
        judge = _judge_parts(parts, None, "trec", strict=strict, into=lines)
        findings = _check_unchanged(files, judge.findings)
        findings.stop_if_errors()
        return {
            query: {doc: score for doc, score, _ in ranking} for query, ranking in _rankings(lines)
        }


def judge_run(
    source: object,
    judgements: Judgements,
    *,
    tie_policy: str = "trec",
    format: str = "auto",  # noqa: A002 - as in read_run
    strict: bool = False,
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

    Returns:
        What measures need of the run.

    Raises:
        RunError: with every error found; the message shows three of each kind.
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
        source: as in `read_run`.
        judgements: the test set, a `msshift_bench.runs.Judgements`; without it, query ids are not
            checked.
        tie_policy: one of `TIE_POLICIES`; under ``rank``, warnings about ranks are errors.
        format: one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        Errors and warnings, and what was read; `RunValidation.ok` says whether there is no error.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if the source is nothing that can be read as a run, or has no ranks although
            the tie policy is ``rank``.
        UnknownNameError: if the tie policy or the format is not a known one.

    Examples:
        >>> validate_run("my.run").ok
        True
        >>> report = validate_run({"q1": {"d1": float("nan"), "d2": 1.0}})
        >>> report.error_count, report.errors[0].code
        (1, 'score-nan')
    """
    run, findings = _judge(source, judgements, tie_policy, format, strict=strict)
    return RunValidation(
        errors=findings.kept("error"),
        warnings=findings.kept("warning"),
        counts=MappingProxyType(dict(findings.counts)),
        error_count=sum(findings.counts_of("error").values()),
        report=run.report,
    )


@contextmanager
def _open_parts(
    source: object, run_format: str, tie_policy: str
) -> Iterator[tuple[list[Source], list[InputFile]]]:
    """Open a run: its parts, and the files among them, readable while the context lasts."""
    check_tie_policy(tie_policy)
    if run_format not in RUN_FORMATS:
        raise UnknownNameError("run format", run_format, RUN_FORMATS)
    with_ranks = tie_policy == "rank"
    items = source if isinstance(source, list | tuple) and source else [source]
    paths = [path for path in items if isinstance(path, str | PathLike)]
    if len(paths) < len(items):
        yield [MemoryRun(source, with_ranks=with_ranks)], []
        return
    with open_run_files(paths) as files:
        parts: list[Source] = []
        first_text: TextRun | None = None
        for file in files:
            if run_format == "parquet" or (run_format == "auto" and is_parquet(file.path)):
                parts.append(ParquetRun(file, with_ranks=with_ranks))
            else:
                text = TextRun(file, run_format, first_text)
                first_text = first_text or text
                parts.append(text)
        yield parts, files


def _judge(
    source: object, judgements: Judgements | None, tie_policy: str, run_format: str, *, strict: bool
) -> tuple[JudgedRun, RunFindings]:
    with (
        _open_parts(source, run_format, tie_policy) as (parts, files),
        ThreadPoolExecutor(1) as digesting,
    ):
        digest = digesting.submit(sha256_of_files, files)
        judge = _judge_parts(parts, judgements, tie_policy, strict=strict)
        reread = None
        if all(file.lasting for file in files):
            reread = functools.cache(functools.partial(_read_again, parts, tuple(files)))
        run = judge.finish(parts[0].tag, digest.result() if files else "", reread)
        return run, _check_unchanged(files, judge.findings)


def _judge_parts(
    parts: Sequence[Source],
    judgements: Judgements | None,
    tie_policy: str,
    *,
    strict: bool,
    into: list[Lines] | None = None,
) -> RunJudge:
    """Judge a run's parts in order, or in memory if its queries are interleaved.

    Args:
        parts: the parts.
        judgements: the test set; `None` checks the run without one.
        tie_policy: one of `TIE_POLICIES`.
        strict: treat every warning as an error.
        into: a list for the run's lines; `None` does not hold them in memory.
    """
    escalated = ("rank-zero-based", "rank-repeated") if tie_policy == "rank" else ()
    names = [part.name for part in parts]
    for arrange in (whole_queries, grouped):
        findings = RunFindings(names, strict=strict, escalated=escalated)
        judge = RunJudge(judgements, tie_policy, findings)
        lines = _lines_of(parts, findings, into)
        with suppress(QueriesInterleavedError):
            for judged in map_in_threads(judge.judge, arrange(lines), MOST_THREADS):
                judge.add(judged)
            break
    if not (judge.queries or findings.counts_of("error")):
        findings.add("empty-file", place_of(0, 0), "the run holds no line")
    return judge


def _lines_of(
    parts: Sequence[Source], findings: RunFindings, into: list[Lines] | None = None
) -> Iterator[Lines]:
    """Yield the lines of a run's parts, and put them into a list, if there is one."""
    if into:
        into.clear()
    for number, part in enumerate(parts):
        for lines in part.lines(number, findings):
            if into is not None:
                into.append(lines)
            yield lines


def _check_unchanged(files: Sequence[InputFile], findings: RunFindings) -> RunFindings:
    """Add a finding for each file that has changed since its lines were read and digested."""
    for number, file in enumerate(files):
        if file_state(file.path) != file.state:
            message = "the file changed while it was read"
            findings.add("changed-while-read", place_of(number, 0), message)
    return findings


def _read_again(parts: Sequence[Source], files: Sequence[InputFile]) -> list[QueryRanking]:
    """Read a run that is known to be sound again, and return it query by query.

    Raises:
        RunError: if one of its files has changed since.
    """
    findings = RunFindings([part.name for part in parts])
    rankings = _rankings(_lines_of(parts, findings))
    _check_unchanged(files, findings).stop_if_errors()
    return rankings


def _rankings(parts: Iterable[Lines]) -> list[QueryRanking]:
    """Return sound lines query by query, as Python values."""
    by_query: dict[str, list[RankedDoc]] = {}
    for lines in parts:
        if not len(lines.scores):
            continue
        starts = lines.starts()
        queries = take(lines.queries, starts).cast(pa.string()).to_pylist()
        docs, scores = lines.docs.cast(pa.string()).to_pylist(), lines.scores.tolist()
        ranks = [0] * len(lines.scores) if lines.ranks is None else lines.ranks.tolist()
        for query, start, end in zip(
            queries, starts, [*starts[1:], len(lines.scores)], strict=True
        ):
            ranking = zip(docs[start:end], scores[start:end], ranks[start:end], strict=True)
            by_query.setdefault(query, []).extend(ranking)
    return list(by_query.items())
