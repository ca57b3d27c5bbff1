"""Reading, checking and judging of runs.

The reader streams a run and keeps only the places of relevant documents, so that memory does not
grow with the depth of rankings. Scores are compared as 32-bit floats, as in `trec_eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from msshift_bench.errors import Finding, UsageError, check_name
from msshift_bench.plumbing import DamagedInputError, file_state
from msshift_bench.runs.findings import RunFindings
from msshift_bench.runs.formats import RUN_FORMATS
from msshift_bench.runs.judged import JudgedRun, Judgements, RunReport, check_tie_policy
from msshift_bench.runs.judging import QueriesInterleavedError, RunJudge, grouped, lines_by_query
from msshift_bench.runs.lines import Findings, Lines, place_of
from msshift_bench.runs.predictions import prediction_files
from msshift_bench.runs.sources import (
    NO_RANKS,
    FileRun,
    InputFile,
    MemoryRun,
    NamedRun,
    RunFormat,
    open_run_files,
    sha256_of_files,
)
from msshift_bench.runs.writing import RankedRun
from msshift_bench.shifts import Shift

Source = FileRun | NamedRun | MemoryRun | RankedRun
"""One part of a run."""

OpenedParts = tuple[Sequence[Source], list[InputFile]]
"""A run's parts in reading order, and its files; none for a run in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class RunSource:
    """A run that can be opened: files, a table, a mapping, records, rankings of a model.

    Attributes:
        name: the name in messages.
        open: returns a context manager of `OpenedParts`; its argument is whether ranks are needed.
        path: the run's only file, next to which its sidecar is; `None` for other sources.
        facts: facts about the run that its file contains, such as MTEB's ``model_name``.
    """

    name: str
    open: Callable[[bool], AbstractContextManager[OpenedParts]]
    path: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, source: object, run_format: str = "auto") -> RunSource:
        """Return the source of a run as `read_run` takes it; a `RunSource` is returned unchanged.

        Files are not opened yet.

        Raises:
            UnknownNameError: if the format is neither ``auto`` nor one of `RUN_FORMATS`.
            UsageError: if the source cannot be read as a run.
        """
        if isinstance(source, RunSource):
            return source
        check_name("run format", run_format, ["auto", *RUN_FORMATS])
        items = source if isinstance(source, list | tuple) and source else [source]
        paths = [path for path in items if isinstance(path, str | PathLike)]
        if len(paths) < len(items):
            run = MemoryRun(source, with_ranks=False)
            return cls(run.name, partial(_open_memory, run.held))
        names = ("<stdin>" if str(path) == "-" else str(path) for path in paths)
        return cls(
            ", ".join(names),
            partial(_open_files, paths, run_format),
            Path(paths[0]) if len(paths) == 1 else None,
        )


@contextmanager
def _open_memory(source: object, with_ranks: bool) -> Iterator[OpenedParts]:
    yield [MemoryRun(source, with_ranks=with_ranks)], []


@contextmanager
def _open_files(
    paths: Sequence[str | PathLike[str]], run_format: str, with_ranks: bool
) -> Iterator[OpenedParts]:
    with open_run_files(paths) as files:
        parts: list[FileRun] = []
        for file in files:
            first = parts[0] if parts else None
            parts.append(FileRun(file, _formats_of(run_format), first, with_ranks))
        yield parts, files


def _formats_of(name: str) -> Mapping[str, RunFormat]:
    return RUN_FORMATS if name == "auto" else {name: RUN_FORMATS[name]}


@contextmanager
def _open_named(run: NamedRun, file: InputFile, with_ranks: bool) -> Iterator[OpenedParts]:
    if with_ranks:
        raise UsageError(f"{run.name} {NO_RANKS}")
    yield [run], [file]


def predicted_run(folder: Path, shift: Shift) -> RunSource:
    """Return the run of a model's predictions for the test queries of all groups of a shift.

    For a query in several test sets, the ranking in the first one counts. The folder must have
    predictions for the shift.
    """
    paths = prediction_files(folder, shift)
    return RunSource(str(folder / f"msshift-{shift.name}"), partial(_open_predictions, paths))


@contextmanager
def _open_predictions(paths: Sequence[Path], with_ranks: bool) -> Iterator[OpenedParts]:
    with open_run_files(paths) as files:
        place_of_query = dict[bytes, int]()
        parts = [FileRun(file, _formats_of("mteb"), needs_ranks=with_ranks) for file in files]
        model = paths[0].parent.name
        runs = [
            NamedRun(part.name, model, {}, partial(_new_lines, part, place_of_query))
            for part in parts
        ]
        yield runs, files


def _new_lines(
    file: FileRun, place_of_query: dict[bytes, int], number: int, findings: Findings
) -> Iterator[Lines]:
    """Yield the lines of queries that are in no earlier file, also if the run is read again."""
    for lines in file.lines(number, findings):
        queries = lines.queries.to_pylist()
        is_first = [place_of_query.setdefault(query, number) == number for query in queries]
        yield lines.take(np.flatnonzero(is_first))


def run_sources(source: object, run_format: str = "auto") -> list[RunSource]:
    """Return a source for each run in a source as `read_run` takes it.

    A file of several named runs, as from MTEB, has a source for each, called
    ``<file>:<subset>/<split>``, and is read in this call. Other sources, and files with errors,
    give a list of one.

    Args:
        source: as in `read_run`.
        run_format: as in `read_run`.

    Raises:
        UnknownNameError: if the format is not a known one.
        UsageError: if the source cannot be read as a run.

    Examples:
        >>> [source.name for source in run_sources("my.run")]
        ['my.run']
    """
    complete = RunSource.of(source, run_format)
    path, runs, findings = complete.path, list[NamedRun](), RunFindings([complete.name])
    if isinstance(source, RunSource) or path is None or str(path) == "-" or not path.is_file():
        return [complete]
    with (
        open_run_files([path]) as (file,),
        suppress(DamagedInputError),
    ):  # reported when the run is read
        runs = FileRun(file, _formats_of(run_format)).named_runs(findings)
    if not runs or findings.counts:
        return [complete]
    names = [f"{complete.name}:{run.name}" for run in runs] if len(runs) > 1 else [complete.name]
    return [
        RunSource(
            name,
            partial(_open_named, replace(run, name=name), file),
            None if len(runs) > 1 else path,
            run.facts,
        )
        for name, run in zip(names, runs, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class RunValidation:
    """The result of checking a run.

    Attributes:
        errors: the first `MAX_FINDINGS` errors of each code, in reading order.
        warnings: the first `MAX_FINDINGS` warnings of each code, in reading order.
        counts: code -> number of all its findings.
        error_count: number of all errors.
        report: the report of the run.
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
    """Return a run in memory, after checking it.

    `score_runs` and `write_run` take the returned value. To score a file, give them its path: it is
    then read as a stream.

    Args:
        source: a path, ``"-"`` for standard input, several paths that make one run, a mapping of
            mappings (query id -> doc id -> score) or of lists (query id -> pairs of doc id and
            score, or PyLate's ``{"id": ..., "score": ...}``), a table with columns query_id,
            doc_id and score (PyTerrier's qid and docno are understood), or an iterable of records
            (query_id, doc_id, score).
        format: ``auto``, or one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        Query id -> doc id -> score as a 32-bit float, in the order of the source. Without scores, a
        document's score is minus its rank.

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
    with RunSource.of(source, format).open(False) as (parts, files):
        lines: list[Lines] = []
        _check_unchanged(
            files, _judge_parts(parts, None, "trec", strict=strict, into=lines).findings
        ).stop_if_errors()
        run: dict[str, dict[str, float]] = {}
        for query, docs, scores in chain.from_iterable(part.rankings() for part in lines):
            run.setdefault(query, {}).update(zip(docs, scores, strict=True))
        return run


def judge_run(
    source: object,
    judgements: Judgements,
    *,
    tie_policy: str = "trec",
    format: str = "auto",  # noqa: A002 - as in read_run
    strict: bool = False,
    depth: int = 0,
) -> JudgedRun:
    """Return a judged run, read as a stream and checked.

    Queries may be interleaved, and rankings may differ in depth. In files without scores, a better
    rank counts as a higher score.

    Args:
        source: as in `read_run`.
        judgements: the test set.
        tie_policy: one of `TIE_POLICIES`.
        format: ``auto``, or one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.
        depth: the number of documents of each ranking to keep, for measures that need more than
            the relevant ones; see `Measure.depth`.

    Returns:
        The parts of the run that measures need.

    Raises:
        RunError: with every error found; the message shows three of each kind.
        NotFoundError: if there is no such file.
        UsageError: if the source is nothing that can be read as a run, or has no ranks although
            the tie policy is ``rank``.
        UnknownNameError: if the tie policy or the format is not a known one.
    """
    run, findings = _judge(source, judgements, tie_policy, format, strict=strict, depth=depth)
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
    """Return the errors and warnings of a run; its errors are not raised.

    Args:
        source: as in `read_run`.
        judgements: the test set, a `msshift_bench.runs.Judgements`; without it, unknown queries are
            not reported.
        tie_policy: one of `TIE_POLICIES`; under ``rank``, warnings about ranks are errors.
        format: ``auto``, or one of `RUN_FORMATS`; files only.
        strict: treat every warning as an error.

    Returns:
        Errors, warnings and the report; `RunValidation.ok` is true without errors.

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


def _judge(
    source: object,
    judgements: Judgements | None,
    tie_policy: str,
    run_format: str,
    *,
    strict: bool,
    depth: int = 0,
) -> tuple[JudgedRun, RunFindings]:
    check_tie_policy(tie_policy)
    with (
        RunSource.of(source, run_format).open(tie_policy == "rank") as (parts, files),
        ThreadPoolExecutor(1) as digesting,
    ):
        digest = digesting.submit(sha256_of_files, files)
        judge = _judge_parts(parts, judgements, tie_policy, strict=strict, depth=depth)
        return judge.finish(parts[0].tag, digest.result() if files else ""), _check_unchanged(
            files, judge.findings
        )


def _judge_parts(
    parts: Sequence[Source],
    judgements: Judgements | None,
    tie_policy: str,
    *,
    strict: bool,
    depth: int = 0,
    into: list[Lines] | None = None,
) -> RunJudge:
    """Return a judge of all queries in a run's parts.

    If queries are interleaved, the parts are read again, into memory.
    """
    escalated = ("rank-zero-based", "rank-repeated") if tie_policy == "rank" else ()
    names = [part.name for part in parts]
    for arrange in (lines_by_query, grouped):
        findings = RunFindings(names, strict=strict, escalated=escalated)
        judge = RunJudge(judgements, tie_policy, findings, depth)
        lines = _lines_of(parts, findings, into)
        with suppress(QueriesInterleavedError):
            for judged in map(judge.judge, arrange(lines)):
                judge.add(judged)
            break
    if not (judge.queries or findings.counts_of("error")):
        findings.add("empty-file", place_of(0, 0), "the run holds no line")
    return judge


def _lines_of(
    parts: Sequence[Source], findings: RunFindings, into: list[Lines] | None = None
) -> Iterator[Lines]:
    """Yield the lines of a run's parts, and fill the list `into` with them, if given."""
    if into:
        into.clear()
    for number, part in enumerate(parts):
        for lines in part.lines(number, findings):
            if into is not None:
                into.append(lines)
            yield lines


def _check_unchanged(files: Sequence[InputFile], findings: RunFindings) -> RunFindings:
    """Return the findings, with one more for each file that has changed since it was opened."""
    for number, file in enumerate(files):
        if file_state(file.path) != file.state:
            findings.add(
                "changed-while-read", place_of(number, 0), "the file changed while it was read"
            )
    return findings
