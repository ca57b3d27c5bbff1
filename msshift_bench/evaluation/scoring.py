"""Scoring runs: run sets on their test sets, and single runs on any test set."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from msshift_bench.data import Dataset, TestSet, open_dataset
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.evaluation.checks import COMPARED_RUNS, Checks
from msshift_bench.evaluation.claims import LeftOut, check_left_out, left_out_claims, run_claims
from msshift_bench.evaluation.notes import left_out_notes, run_notes, trained_notes
from msshift_bench.evaluation.results import Result, Section, notes_of
from msshift_bench.evaluation.scores import (
    ScoredRun,
    Scores,
    check_is_mean,
    counted_by_all,
    judgements_of,
    positions_of,
    score_run,
)
from msshift_bench.evaluation.settings import Settings, SettingsSource
from msshift_bench.evaluation.tables import left_out_tables, run_tables
from msshift_bench.plumbing import map_in_threads, report_progress
from msshift_bench.records import Qrel
from msshift_bench.runs import FOR_ALL, Judgements, RunSet, read_qrels
from msshift_bench.shifts import DATASET_NAME, SHIFTS, Shift, parse_config, several
from msshift_bench.stats import Claim, Figure, Figures, infer

_MOST_AT_ONCE = 4
"""Run files that are read at the same time. Each holds a few blocks of lines in memory."""


TestSetSource = str | PathLike[str] | Mapping[str, Mapping[str, int]] | Iterable[Qrel] | TestSet
"""What single runs may be scored on."""


def open_test_set(source: TestSetSource, data: Dataset | str | Path = DATASET_NAME) -> TestSet:
    """Return a test set.

    Args:
        source: a config of the data set, e.g. ``length-short``, whose test queries are meant; a
            file of qrels, as `read_qrels` takes it; a mapping of mappings (query id -> doc id ->
            relevance); records (query id, doc id, relevance), or a table of these columns; or a
            test set.
        data: the built data set; only read for a config.

    Returns:
        Its queries with their judgements; of a config, also the data that they are of.

    Raises:
        UnknownNameError: if there is no such config.
        UsageError: if the config is a whole shift, which has no test split of its own.
        NotFoundError: if there is no built data set, or no such file.
        CollectionError: if the qrels are malformed.

    Examples:
        >>> qrels = open_test_set({"q1": {"d1": 1}, "q2": {"d7": 2}})
        >>> short = open_test_set("length-short", "msshift")
        >>> list(qrels.judged), len(short.judged)
        (['q1', 'q2'], 44)
    """
    if isinstance(source, TestSet):
        return source
    if isinstance(source, Shift):
        source = source.name
    if isinstance(source, str) and not Path(source).exists() and "." not in Path(source).name:
        return _test_set_of_config(source, data)
    if not isinstance(source, str | PathLike):
        name, judgements = "<qrels>", Judgements.from_qrels(source)
    elif Path(source).exists():
        name, judgements = str(source), Judgements.from_qrels(read_qrels(source))
    else:
        raise NotFoundError(
            f"no qrels file {source}; give a file, such as ir_datasets export ID qrels prints"
        )
    return TestSet(name, judgements.judged, {name: judgements.query_ids})


def _test_set_of_config(config: str, data: Dataset | str | Path) -> TestSet:
    shift, group = parse_config(config)
    if group is None:
        raise UsageError(
            f"{config} is a whole shift; name one test set: {', '.join(shift.configs)}"
        )
    whole = test_set_of_shift(shift, open_dataset(data))
    ids = whole.groups[shift.test_set_of(group)]
    judged = {query_id: whole.judged[query_id] for query_id in ids}
    strangers = frozenset(whole.judged).difference(ids)
    return replace(whole, name=config, judged=judged, groups={config: ids}, elsewhere=strangers)


def find_dataset(data: Dataset | str | Path) -> Dataset | None:
    """Return the data set; `None` if none was named and there is none in the usual places.

    Raises:
        NotFoundError: if the one that was named does not exist.
        IntegrityError: if its manifest cannot be read.
    """
    try:
        return open_dataset(data)
    except NotFoundError:
        if str(data) != DATASET_NAME:
            raise
        return None


def test_set_of_shift(shift: Shift, dataset: Dataset) -> TestSet:
    """Return the test queries of all groups of a shift."""
    rows = dataset.test_sets(shift)
    judged = {row.query_id: row.relevant for part in rows.values() for row in part}
    groups = {group: tuple(row.query_id for row in part) for group, part in rows.items()}
    return TestSet(shift.name, judged, groups, dataset.info, relevant_only=True)


def score_files(run_sets: Sequence[tuple[RunSet, TestSet]], settings: Settings) -> Iterator[Scores]:
    """Read and score run sets; files of the next are read while the caller looks at one.

    Args:
        run_sets: every run set, with its test set.
        settings: measures and policies.

    Yields:
        The scores, in the order of the run sets.

    Raises:
        RunError: if a run is malformed.
    """
    judgements = {id(test_set): judgements_of(test_set) for _, test_set in run_sets}
    files = [
        (path, judgements[id(test_set)]) for run_set, test_set in run_sets for path in run_set.files
    ]

    def read(file: tuple[Path, Judgements]) -> ScoredRun:
        return score_run(*file, settings)

    scored = map_in_threads(read, files, _MOST_AT_ONCE)
    numbers = itertools.count(1)
    for run_set, test_set in run_sets:
        runs = {}
        for model in run_set.runs:
            runs[model] = next(scored)
            report_progress("run files", next(numbers), len(files))
        compiled = judgements[id(test_set)]
        is_own = test_set.name == run_set.shift.name
        yield Scores(
            run_set.system,
            run_set.shift,
            compiled.query_ids,
            positions_of(test_set.groups, compiled),
            runs,
            "" if is_own else test_set.name,
            run_set.missing,
        )


def score_runs(
    runs: object,
    test_set: TestSetSource,
    settings: SettingsSource = None,
    *,
    data: Dataset | str | Path = DATASET_NAME,
    reference: object = None,
    without: LeftOut | None = None,
    allow: str | Collection[str] = (),
) -> Result:
    """Score single runs on one test set, and compare their means with that of a reference.

    A single run is one ranking: intervals and p-values count queries only, so that nothing is
    called significant of another training of the same system.

    Args:
        runs: one run or several: paths, or anything else that `read_run` takes, or what it returns.
            A list holds several runs, so that the parts of one run are a list within it.
        test_set: what `open_test_set` takes.
        settings: measures and policies.
        data: the data set of a config; see `open_test_set`. For other test sets, what models
            were trained on that sidecars name; none of it may be asked.
        reference: the run to compare the others with, one of `runs` or another.
        without: test queries to compute the figures without, too.
        allow: what not to refuse, some of `ALLOWANCES`.

    Returns:
        The mean of every measure for every run, on the measure's scale (mostly 0 to 1, not times
        100); of a count, such as ``NumRet``, the sum.

    Raises:
        RunError: if a run is malformed, answers no query of the test set, or was made on other
            data; or runs that are compared are of different passages, or a model was trained on
            queries of the test set (unless allowed).
        UsageError: if there is no run, one is given twice, or a measure is no mean over the same
            queries for runs that are compared.
        DataError: if no query is left to count.
        UnknownNameError: for an unknown config, allowance or run format.
        NotFoundError: if there is no such run, qrels file or data set.
        CollectionError: if the qrels are malformed.

    Examples:
        >>> result = score_runs(["my.run"], "qrels.txt", Settings("RR@10 R@10"))
        >>> for score in result.figures.where(figure="score"):
        ...     print(score.measure, score.value, score.queries)
        RR@10 0.75 2
        R@10 0.75 2
    """
    sources = several(runs)
    if not sources:
        raise UsageError("name at least one run to score")
    check_left_out(without)
    settings, judged = Settings.of(settings), open_test_set(test_set, data)
    checks = Checks(judged.data, allow)
    for earlier, run in itertools.combinations(sources, 2):
        if _is_same(run, earlier):
            raise UsageError(f"{run} is given twice")
    place = None
    if reference is not None:
        for measure in settings.measures:
            check_is_mean(measure)
        place = next((n for n, run in enumerate(sources) if _is_same(run, reference)), len(sources))
        sources = sources if place < len(sources) else [*sources, reference]
        if len(sources) < 2:
            raise UsageError("nothing to compare: it takes two runs")
    parts = [part for run in sources for part in (run if isinstance(run, list | tuple) else [run])]
    files = [Path(part) for part in parts if isinstance(part, str | PathLike)]
    if reference is not None:
        checks.check_passages([(judged.name, files)], COMPARED_RUNS)
    checks.check_data(files)
    trained = [(part.run, part.shift, part.held_out) for part in map(checks.sidecar, files)]
    trained = [model for model in trained if model[1] in SHIFTS and not judged.data.content_digest]
    known = find_dataset(data) if trained or judged.data.content_digest else None
    if known and known.info.content_digest == judged.data.content_digest:
        checks.doubt_collection(known)
    checks.training_data = known
    checks.check_untrained(judged, trained)  # a data set's own tests are no training queries
    checks.check_grades(judged, settings.measures)
    judgements = judgements_of(judged)
    groups = positions_of(judged.groups, judgements)
    scored = [score_run(source, judgements, settings) for source in sources]
    names = [run.report.name for run in scored]
    scores = []
    for number, (name, run) in enumerate(zip(names, scored, strict=True)):
        before = names[:number].count(name)
        name += f" ({before + 1})" * bool(before)
        scores.append(Scores(name, None, judgements.query_ids, groups, {(FOR_ALL, None): run}))
        checks.check_scores(scores[-1], settings.missing, every_group=False)
    figures = _run_figures(scores, settings, judged.name, None if place is None else scores[place])
    if without is not None:
        means = [measure for measure in settings.measures if measure.aggregate == "mean"]
        claims = [
            claim
            for part, measure in itertools.product(scores, means)
            for claim in left_out_claims(part, measure, settings.missing, "macro", without)
        ]
        figures = Figures([*figures, *infer(claims, settings)])
    lines = [*run_notes(judged.data, settings, scores, figures), *trained_notes(checks.trained)]
    notes = notes_of(lines, about={"view": "runs"})
    if without is not None:
        notes += notes_of(left_out_notes(figures, without.source), about={"view": "left out"})
    checks.doubt_runs(scores)
    notes += notes_of((), checks.doubts)
    layout = partial(_run_sections, settings=settings)
    return Result("scores", figures, settings.to_json(), judged.data, notes, layout, scores)


def _run_figures(
    scores: Sequence[Scores], settings: Settings, name: str, reference: Scores | None
) -> Figures:
    """Return the means of runs, their leads, and how many queries of each count, lack or tie."""
    rows: list[Figure] = []
    claims: list[Claim] = []
    for part in scores:
        (run,) = part.runs.values()
        (group,) = part.groups
        (counted,) = part.counted(settings.missing).values()
        if not counted.size:
            raise DataError(f"{part.system} holds no query of {name}")
        counts = {
            "queries": len(counted),
            "missing": int(run.missing.sum()),
            "tied": int(run.tied[counted].sum()),
        }
        rows += [
            Figure(figure, system=part.system, group=group, value=count)
            for figure, count in counts.items()
        ]
        for measure in settings.measures:
            claims += run_claims(part, measure, counted)
    if reference is not None:
        (counted,) = counted_by_all(scores, settings.missing).values()
        for part in scores:
            for measure in settings.measures if part is not reference else ():
                claims += run_claims(part, measure, counted, reference)
    return Figures([*rows, *infer(claims, settings)])


def _run_sections(figures: Figures, *, settings: Settings) -> Iterator[Section]:
    of_all_queries = figures.where(slice="")
    tables = list(run_tables(of_all_queries, settings.measures, settings.correction))
    yield Section(tables, {"view": "runs"})
    if len(of_all_queries) < len(figures):
        yield Section(list(left_out_tables(figures, settings)), {"view": "left out"})


def _is_same(run: object, earlier: object) -> bool:
    if isinstance(run, str | PathLike) and isinstance(earlier, str | PathLike):
        return Path(run).resolve() == Path(earlier).resolve()
    return run is earlier
