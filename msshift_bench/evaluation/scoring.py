"""Scoring of run sets on their test sets, and of single runs on any test set."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.data import Dataset, TestSet, open_dataset, read_labels
from msshift_bench.errors import DataError, UsageError, first_few
from msshift_bench.evaluation.checks import apply_checks, check_allowances
from msshift_bench.evaluation.claims import leakage_claims, run_claims, slice_claims
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.notes import (
    answered,
    data_caveats,
    data_notes,
    leakage_notes,
    policy_notes,
    run_counts,
    run_notes,
    slice_notes,
    trained_notes,
    value_notes,
)
from msshift_bench.evaluation.opening import (
    OpenedRun,
    OpenedRuns,
    OpenedRunSet,
    TestSetSource,
    open_runs,
    open_test_set,
    test_set_of_shift,
)
from msshift_bench.evaluation.results import Result, Section, notes_of
from msshift_bench.evaluation.scores import (
    ScoredRun,
    Scores,
    check_labels,
    check_means,
    counted_by_all,
    judgements_of,
    positions_of,
    score_run,
)
from msshift_bench.evaluation.settings import (
    LeakedQueries,
    Settings,
    SettingsSource,
    check_leaked_queries,
)
from msshift_bench.evaluation.tables import WITH_ENDS, difference_heads, leakage_tables, scale_of
from msshift_bench.output import COUNT, QUERIES, Head, Table, heads_of, number, pivot
from msshift_bench.plumbing import map_in_threads, report_progress
from msshift_bench.runs import Judgements, RunSource, run_sources
from msshift_bench.shifts import DATASET_NAME, Shift, as_list, get_shift, grouped
from msshift_bench.stats import FIGURES, Claim, Figure, Figures, infer

_MOST_AT_ONCE = 4
"""Number of run files read at the same time. Each has a few blocks of lines in memory."""


class Scored(NamedTuple):
    """Scores of opened runs, and warnings about them.

    Attributes:
        scores: the scores of `OpenedRuns.run_sets`, in their order.
        plain: for each, the scores of `OpenedRunSet.plain`, or `None`.
        warnings: see `apply_checks`; and `OpenedRuns.warnings`.
    """

    scores: list[Scores]
    plain: list[Scores | None]
    warnings: list[str]


def score_opened(
    opened: OpenedRuns, settings: Settings, allow: str | Collection[str] = ()
) -> Scored:
    """Return the scores of opened runs, with warnings; check the runs and the scores.

    Every evaluation calls this, with the same checks in the same order.

    Args:
        opened: the runs, with test sets and data.
        settings: measures and policies.
        allow: errors to allow, some of `ALLOWANCES`.

    Raises:
        UnknownNameError: for an unknown allowance.
        RunError: if a run is malformed or missing, or runs and data do not belong together.
        NotFoundError: if a run file does not exist.
        UsageError: as in `score_run`; or if the exclusions differ from the data set's.
    """
    allowed = check_allowances(allow)
    warnings = [*opened.warnings, *apply_checks("opened", opened, settings, allowed)]
    known: dict[int, Scores] = {}
    for part, scores in _scores_of(opened.parts, settings):
        warnings += apply_checks("scores", scores, settings, allowed)
        known[id(part)] = scores
    systems = [known[id(part)] for part in opened.run_sets]
    warnings += apply_checks("systems", systems, settings, allowed)
    return Scored(systems, [known.get(id(part.plain)) for part in opened.run_sets], warnings)


def _scores_of(
    parts: Sequence[OpenedRunSet], settings: Settings
) -> Iterator[tuple[OpenedRunSet, Scores]]:
    """Read run sets, and yield each with its scores, in their order.

    Files of the next run set are read while the caller uses one. Runs in memory are read one after
    the other, since opening one may run a model.
    """
    test_sets = {id(part.test_set): part.test_set.excluding(settings.exclude) for part in parts}
    compiled = {key: judgements_of(test_set) for key, test_set in test_sets.items()}
    jobs = [(run, compiled[id(part.test_set)]) for part in parts for run in part.runs.values()]

    def read(job: tuple[OpenedRun, Judgements]) -> ScoredRun:
        return score_run(*job, settings)

    are_files = all(run.source.path is not None for run, _ in jobs)
    scored = map_in_threads(read, jobs, _MOST_AT_ONCE) if are_files else map(read, jobs)
    numbers = itertools.count(1)
    for part in parts:
        runs = {}
        for model in part.runs:
            runs[model] = next(scored)
            report_progress("run files", next(numbers), len(jobs))
        test_set, queries = test_sets[id(part.test_set)], compiled[id(part.test_set)]
        yield (
            part,
            Scores(
                part.system,
                part.shift,
                queries.query_ids,
                positions_of(test_set.groups, queries),
                runs,
                part.test,
                part.missing,
            ),
        )


def score_runs(
    runs: object,
    test_set: TestSetSource | None = None,
    settings: SettingsSource = None,
    *,
    shift: str | Shift | None = None,
    by: str | Path | Mapping[str, str] | None = None,
    data: Dataset | str | Path = DATASET_NAME,
    reference: object = None,
    without: LeakedQueries | None = None,
    allow: str | Collection[str] = (),
) -> Result:
    """Score single runs on one test set, and on groups of its queries; compare with a reference.

    A single run is one ranking: intervals and p-values count queries only, and are not about
    another training of the same system.

    Args:
        runs: one run or a list of runs: paths, or anything else that `read_run` takes or returns.
            The parts of one run are a list within the list.
        test_set: a test set as `open_test_set` takes it; `None` with `shift`. A `TestSet` of
            several groups is broken down by group.
        settings: measures and policies.
        shift: the shift whose test queries are scored, by group.
        by: labels to break means down by, instead of groups: query_id -> label, or a file for
            `msshift_bench.data.read_labels`.
        data: the data set of a config or a shift; see `open_test_set`. For other test sets, the
            data set of the training of models named in sidecars: none of its queries may be a test
            query.
        reference: the run to compare the others with, one of `runs` or another.
        without: test queries; the figures are also computed without them.
        allow: errors to allow, some of `ALLOWANCES`.

    Returns:
        The mean of every measure for every run, on the measure's scale (mostly 0 to 1, not times
        100); for a count, such as ``NumRet``, the sum. For each group, named in the figure's
        ``slice``, also ``score`` or, over a reference, ``lead``; and its difference from the mean
        on the other groups. A ``score`` with ``against`` is a difference from the reference. Also
        the numbers of counted, missing and tied queries.

    Raises:
        RunError: if a run is malformed, contains no query of the test set, or was made on other
            data; if compared runs are of different passages; or if a model was trained on test
            queries (unless allowed).
        UsageError: if there is no run, one twice, or only the reference; if a measure cannot be
            computed, or is not a mean over the same queries for compared runs; or if not exactly
            one of test set and shift is given.
        DataError: if no query is left to count or has a label, or a run has no query of a group.
        UnknownNameError: for an unknown config, shift, allowance or run format.
        NotFoundError: if a run, qrels file or data set does not exist.
        CollectionError: if the qrels or the labels are malformed.

    Examples:
        >>> result = score_runs(["my.run"], "qrels.txt", Settings("RR@10 R@10"))
        >>> for score in result.figures.where(figure="score"):
        ...     print(score.measure, score.value, score.queries)
        RR@10 0.75 2
        R@10 0.75 2
        >>> by_group = score_runs(["runs/dense/length/short.run.gz"], shift="length").figures
        >>> for row in by_group.where(figure="score_difference"):
        ...     print(f"{row.slice}: {row.value:+.2f} [{row.low:.2f}, {row.high:.2f}]{row.mark}")
        short: -0.18 [-0.28, -0.09]†
        long: +0.18 [0.09, 0.28]†
    """
    sources = as_list(runs)
    if not sources:
        raise UsageError("name at least one run to score")
    check_leaked_queries(without)
    settings = Settings.of(settings)
    if shift is not None and test_set is None:
        data = open_dataset(data)
        test_set = test_set_of_shift(get_shift(shift, data.shifts), data)
    elif shift is not None or test_set is None:
        raise UsageError("runs are scored on a test set or on a shift; give one of them")
    judged = open_test_set(test_set, data)
    slices, about_slices = _slices_of(judged) if by is None else _slices_by(by, judged, data)
    if slices:
        judged = replace(judged, groups={judged.name: tuple(judged.judged)})
    for earlier, run in itertools.combinations(sources, 2):
        if _is_same(run, earlier):
            raise UsageError(f"{run} is given twice")
    sources = [
        source
        for run in sources
        for source in (
            run_sources(run, settings.run_format) if isinstance(run, str | PathLike) else [run]
        )
    ]
    place = None
    if reference is not None:
        check_means(settings.measures)
        place = next((n for n, run in enumerate(sources) if _is_same(run, reference)), len(sources))
        sources = sources if place < len(sources) else [*sources, reference]
        if len(sources) < 2:
            raise UsageError("nothing to compare: expected two runs")
    opened = open_runs(sources, judged, data, settings.run_format)
    opened = opened if reference is None else opened.comparing()
    scores, _, warnings = score_opened(opened, settings, allow)
    figures = _run_figures(
        scores, settings, judged.name, None if place is None else scores[place], slices
    )
    if without is not None:
        means = [measure for measure in settings.measures if measure.aggregate == "mean"]
        claims = [
            claim
            for part, measure in itertools.product(scores, means)
            for claim in leakage_claims(part, measure, settings.missing, "macro", without)
        ]
        figures = Figures([*figures, *infer(claims, settings)])
    notes = notes_of(
        run_notes(settings, figures),
        about={"view": "runs"},
        data=[
            *data_notes(judged.data),
            *policy_notes(settings),
            *(f"{part.system}: {run_counts(list(part.runs.values()))}" for part in scores),
        ],
        caveats=[
            *data_caveats(judged.data),
            *trained_notes(opened.trained),
            *value_notes(settings, scores, figures),
        ],
    )
    if slices:
        notes += notes_of(
            [*about_slices, *slice_notes(figures, settings, slices)], about={"view": "groups"}
        )
    if without is not None:
        notes += notes_of(leakage_notes(figures, without.source), about={"view": "left out"})
    notes += notes_of((), warnings)
    layout = partial(_run_sections, settings=settings, labels=[*slices])
    return answered("scores", figures, judged.data, settings, notes, layout, scores)


_Slices = Mapping[str, Sequence[str]]
"""Label -> the ids of its queries in a test set."""


def _slices_of(test_set: TestSet) -> tuple[_Slices, list[str]]:
    """Return the groups of a test set, and a note on shared queries; both empty without groups."""
    if [*test_set.groups] == [test_set.name]:
        return {}, []
    repeated = sum(map(len, test_set.groups.values())) - len(test_set.judged)
    shared = f"{repeated:,} test queries are in several groups, and count in each"
    return test_set.groups, [shared] if repeated else []


def _slices_by(
    by: str | Path | Mapping[str, str], test_set: TestSet, data: Dataset | str | Path
) -> tuple[_Slices, list[str]]:
    """Return the test queries by label, labels sorted, and a note on the other queries.

    Raise `DataError` if no test query has a label.
    """
    labels = by if isinstance(by, Mapping) else read_labels(by, data)
    check_labels(test_set.judged, labels)
    labelled = filter(labels.__contains__, test_set.judged)
    slices = grouped((str(labels[query_id]), query_id) for query_id in labelled)
    total, others = len(test_set.judged), len(labels.keys() - test_set.judged.keys())
    note = "groups: the labels" + (f" of {by}" if isinstance(by, str | Path) else "")
    if unlabelled := total - sum(map(len, slices.values())):
        note += f"; in no group, without a label: {unlabelled:,} of {total:,} test queries"
    note += f"; labels of other queries, which do not count: {others:,}" if others else ""
    return dict(sorted(slices.items())), [note]


def _run_figures(
    scores: Sequence[Scores],
    settings: Settings,
    name: str,
    reference: Scores | None,
    slices: _Slices,
) -> Figures:
    """Return the means of runs, their leads, and numbers of counted, missing and tied queries.

    Raise `DataError` if a run has no query of the test set or of a label.
    """
    index = {query_id: place for place, query_id in enumerate(scores[0].query_ids)}
    positions = {label: np.array([index[name] for name in ids]) for label, ids in slices.items()}

    def claims_of(part: Scores, counted: Ints, reference: Scores | None = None) -> Iterator[Claim]:
        by_label = {label: of[np.isin(of, counted)] for label, of in positions.items()}
        for measure in settings.measures:
            yield from run_claims(part, measure, counted, reference)
            yield from slice_claims(part, measure, by_label, reference)

    rows: list[Figure] = []
    claims: list[Claim] = []
    for part in scores:
        (run,) = part.runs.values()
        (group,) = part.groups
        (counted,) = part.counted(settings.missing).values()
        if not counted.size:
            raise DataError(f"{part.system} has no query of {name}")
        counts = {
            "queries": len(counted),
            "missing": int(run.missing.sum()),
            "tied": int(run.tied[counted].sum()),
        }
        rows += [
            Figure(figure, system=part.system, group=group, value=count)
            for figure, count in counts.items()
        ]
        for label, queries in positions.items():
            missing = int(run.missing[queries].sum())
            if missing == len(queries):
                raise DataError(
                    f"{part.system} holds none of the {missing:,} queries of {label} "
                    f"({first_few(slices[label])}); add them to the run, or leave the label out"
                )
            rows.append(
                Figure("missing", system=part.system, group=group, slice=label, value=missing)
            )
        claims += claims_of(part, counted)
    if reference is not None:
        (counted,) = counted_by_all(scores, settings.missing).values()
        for part in scores:
            claims += claims_of(part, counted, reference) if part is not reference else ()
    return Figures([*rows, *infer(claims, settings)])


def _run_sections(
    figures: Figures, *, settings: Settings, labels: Collection[str]
) -> Iterator[Section]:
    of_all_queries, sliced = figures.where(slice=""), figures.where(slice=labels)
    yield Section(
        list(_run_tables(of_all_queries, settings.measures, settings.correction)), {"view": "runs"}
    )
    if sliced:
        yield Section(list(_slice_tables(sliced, settings)), {"view": "groups"})
    if len(of_all_queries) + len(sliced) < len(figures):
        yield Section(list(leakage_tables(figures, settings)), {"view": "left out"})


def _run_tables(figures: Figures, measures: Sequence[Measure], correction: str) -> Iterator[Table]:
    """Yield tables with a row per run: the mean of every measure, then leads over a reference."""
    (group,) = figures.names("group")
    title = f"{group}{scale_of(measures, ', means')}"
    columns = [
        *(Head((name,), {"figure": name}, number(0)) for name in ("queries", "missing", "tied")),
        *(Head((m.name,), {"measure": m.name, "against": ""}, WITH_ENDS) for m in measures),
    ]
    values = figures.where(figure=("score", "sum"))
    yield pivot(figures, title, ("run",), heads_of(values, "system"), columns)
    for measure in measures:
        title = f"{group}, {measure.mean_name}{scale_of([measure])}"
        for (reference,), leads in values.where(measure=measure.name).each("against"):
            if reference:
                yield pivot(
                    leads,
                    f"{title}: run - {reference}",
                    ("run",),
                    heads_of(leads, "system"),
                    difference_heads(correction, {}),
                    label=f"{group} {measure} runs",
                )


def _slice_tables(figures: Figures, settings: Settings) -> Iterator[Table]:
    """Yield the means of runs on slices of one test set, then their leads over a reference."""
    (group,) = figures.names("group")
    for measure in settings.measures:
        for (reference,), part in figures.where(measure=measure.name).each("against"):
            value, *others = part.names("figure")
            title = f"{group}, {measure.mean_name}{scale_of([measure])}: by group"
            columns = [
                Head(("queries",), {"figure": value}, QUERIES),
                Head(("missing",), {"figure": "missing"}, COUNT),
            ]
            if reference:
                title += f", run - {reference}"
                columns += difference_heads(settings.correction, {"figure": value}, "lead")
            else:
                columns.append(Head((measure.name,), {"figure": value}, WITH_ENDS))
            for figure in others:
                columns += difference_heads(
                    settings.correction, {"figure": figure}, FIGURES[figure].title
                )
            rows = heads_of(part.where(figure=value), "system", "slice")
            label = f"{group} {measure} by group against {reference}"
            shown = Figures([*part, *figures.where(figure="missing")])
            yield pivot(shown, title, ("run", "group"), rows, columns, ruled=1, label=label)


def _is_same(run: object, earlier: object) -> bool:
    run = run.path or run.name if isinstance(run, RunSource) else run
    if isinstance(run, str | PathLike) and isinstance(earlier, str | PathLike):
        return Path(run).resolve() == Path(earlier).resolve()
    return run is earlier
