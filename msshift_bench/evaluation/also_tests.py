"""Run sets on other queries: extra test sets, and variants of queries, e.g. with typing errors.

MS-Shift's first version prints the mean over a shift's models on TREC DL 2019 beside a model
trained on everything (its Table 5), and says what is lost against that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Dataset, TestSet, open_dataset, read_extra_tests
from msshift_bench.errors import DataError, NotFoundError, RunError, UsageError
from msshift_bench.evaluation.checks import COMPARED_RUNS, Checks
from msshift_bench.evaluation.claims import (
    change_claims,
    compound_claims,
    drop_claims,
    extra_claims,
)
from msshift_bench.evaluation.notes import change_notes, extra_notes, trained_notes
from msshift_bench.evaluation.results import Result, notes_of
from msshift_bench.evaluation.scores import Scores, check_is_mean, counted_by_all
from msshift_bench.evaluation.scoring import find_dataset, score_files, test_set_of_shift
from msshift_bench.evaluation.settings import Settings, SettingsSource
from msshift_bench.evaluation.tables import change_tables, extra_tables
from msshift_bench.runs import RunSet, extra_runs_path, find_run_sets
from msshift_bench.shifts import DATASET_NAME, Shift, ShiftNames, get_shift, in_order, shift_names
from msshift_bench.stats import MEAN, Claim, Figure, infer

_TRAINED_ON_ALL = "-all"
"""The end of the name of a system that is another one, trained on everything."""


def evaluate_also_tests(
    runs: str | Path | Iterable[str | Path],
    also_test: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    allow: str | Collection[str] = (),
) -> Result:
    """Score run sets on extra test sets, or say what they lose on variants of queries.

    Args:
        runs: folders of run sets; the runs for a test set lie in ``<system>/also/<name>``, as
            `make` lays them out. Systems without such runs are left out, with a doubt. In
            runs a variant has the id ``<query_id>#<method>``.
        also_test: name -> a folder of ``queries.tsv`` and ``qrels.tsv``, whose judgements may be
            graded, with or without ``variants.tsv``; or a file of variants of the shifts' test
            queries (query_id, text, method). All hold variants, or none.
        data: the data set with the queries of variants, and with the training queries of the
            models: none of them may be asked. Where there is none, a note says so.
        shifts: only the models of these shifts; all, if empty.
        settings: measures and policies; every measure must be a mean.
        allow: what not to refuse, some of `ALLOWANCES`.

    Returns:
        Without variants, the means of every model and of a shift's models on average; for a system
        with one beside it that was trained on everything, such as ``splade-all`` beside ``splade``,
        also what the mean loses against that one. With variants, what every model loses, 1 -
        changed / as they are, and by group whether the model trained without it loses more.

    Raises:
        UsageError: if a measure has no mean, a name cannot be a folder's, or some test sets hold
            variants and others do not.
        UnknownNameError: for an unknown shift or allowance.
        NotFoundError: if a folder or a file does not exist, or no system has runs for a test set.
        CollectionError: if queries, judgements or variants are malformed.
        DataError: if no variant is of a test query of a shift, or none counts.
        RunError: if a run is malformed, was made for other queries, is missing or is that of
            another model, or a system's runs, or those that it is compared with, are of different
            passages or data, or a model was trained on queries of a test set (all unless allowed).

    Examples:
        >>> result = evaluate_also_tests("runs/dense", {"dl19": "dl19"})
        >>> [(row.model, row.value) for row in result.figures.where(figure="score")]
        [('short', 0.5), ('long', 1.0), ('mean', 0.75)]
    """
    settings = Settings.of(settings)
    test_sets = read_extra_tests(also_test)
    varied = [test_set.name for test_set in test_sets if test_set.variants]
    if varied and len(varied) < len(test_sets):
        plain = ", ".join(part.name for part in test_sets if part.name not in varied)
        raise UsageError(
            f"{', '.join(varied)} holds variants of queries and {plain} does not; they are "
            "evaluated differently, so give them in two calls"
        )
    for measure in settings.measures:
        if varied or measure.aggregate != "mean":
            check_is_mean(measure)
    wanted = [get_shift(name) for name in shift_names(shifts)]
    run_sets, checks = find_run_sets(runs), Checks(allow=allow)
    checks.training_data = find_dataset(data)
    claims: list[Claim] = []
    scores: list[Scores] = []
    contents: list[str] = []
    for test_set in test_sets:
        checks.check_grades(test_set, settings.measures)
        dataset = open_dataset(data) if test_set.needs_shift else None
        if dataset is not None:
            checks.data = dataset.info
        extra = _runs_for(run_sets, test_set, Path(also_test[test_set.name]), wanted, checks)
        if not varied:
            scores += _evaluate_extra(extra, test_set, settings, checks, claims)
        for changed in extra if varied else ():
            pairs, described = _pairs_of(run_sets, changed, test_set, dataset, settings, checks)
            claims += _change_claims(pairs, test_set.name, settings)
            scores.append(pairs.scores)
            contents.append(described)
    figures = infer(claims, settings)
    lines = extra_notes(settings, figures)
    if varied:
        lines = change_notes(checks.data, settings, figures, list(dict.fromkeys(contents)))
    notes = notes_of([*lines, *trained_notes(checks.trained)], checks.doubts)
    return Result(
        "variants" if varied else "extra tests",
        figures,
        settings.to_json(),
        checks.data,
        notes,
        partial(change_tables if varied else extra_tables, settings=settings),
        scores,
        {"trained_on": [part._asdict() for part in checks.trained.values() if part]},
    )


def _evaluate_extra(
    run_sets: Sequence[RunSet],
    test_set: TestSet,
    settings: Settings,
    checks: Checks,
    claims: list[Claim],
) -> list[Scores]:
    """Score systems on an extra test set, and add what is claimed of them to the claims."""
    checks.check_passages(
        (f"{part.system} on {test_set.name} ({part.shift.name})", part.files) for part in run_sets
    )
    scored = [(part, _score(part, test_set, settings, checks)) for part in run_sets]
    for run_set, part in scored:
        everything = _trained_on_everything(run_set, scored)
        if everything is not None and len(part.complete_models) > 1:
            compared = [*everything.files, *part.files]
            name = f"{everything.system} and {part.system} on {test_set.name}"
            checks.check_passages([(name, compared)], COMPARED_RUNS)
        for measure in settings.measures:
            (queries,) = counted_by_all([part], settings.missing).values()
            claims += extra_claims(part, measure, queries)
            if everything is not None:
                (queries,) = counted_by_all([part, everything], settings.missing).values()
                claims += drop_claims(part, measure, queries, everything)
    return [part for _, part in scored]


def _runs_for(
    run_sets: Sequence[RunSet],
    test_set: TestSet,
    path: Path,
    wanted: Sequence[Shift],
    checks: Checks,
) -> list[RunSet]:
    """Return the runs of systems for a test set, by shift; systems without any are a doubt."""
    folders = {run_set.folder: run_set.system for run_set in run_sets}
    extra_run_sets = []
    for folder, system in folders.items():
        place = extra_runs_path(folder, test_set.name)
        parts = find_run_sets(place) if place.is_dir() else []
        extra_run_sets += [
            replace(part, system=system, folder=folder)
            for part in parts
            if not wanted or part.shift in wanted
        ]
    if not extra_run_sets:
        raise NotFoundError(
            f"no system has runs for {test_set.name}; they lie in <system>/also/{test_set.name}, "
            f"and 'msshift run ... --also-test {test_set.name}={path}' makes them"
        )
    if lacking := sorted({*folders.values()} - {part.system for part in extra_run_sets}):
        checks.doubts.append(f"{test_set.name}: no runs of {', '.join(lacking)}")
    order = in_order({part.shift.name for part in extra_run_sets})
    return sorted(extra_run_sets, key=lambda part: order.index(part.shift.name))


def _score(run_set: RunSet, test_set: TestSet, settings: Settings, checks: Checks) -> Scores:
    """Score a system's runs on a test set, and check them."""
    if "partial" not in checks.allow:
        place = extra_runs_path(Path(run_set.system), test_set.name)
        replace(run_set, system=str(place)).check_complete()
    checks.check_queries(run_set, test_set)
    checks.check_models(run_set)
    trained = run_set.runs.items() if run_set.trained_per_group else ()
    checks.check_untrained(
        test_set, [(run, run_set.shift.name, name) for (name, _), run in trained]
    )
    (scores,) = score_files([(run_set, test_set)], settings)
    checks.check_scores(scores, settings.missing, every_group=False)
    checks.doubt_runs([scores])
    return scores


def _trained_on_everything(
    run_set: RunSet, scored: Iterable[tuple[RunSet, Scores]]
) -> Scores | None:
    """Return the same system, trained on everything: ``splade-all`` for ``splade``.

    One in the same folder comes before others, and then one with a run for the same shift: a model
    that was trained on everything is the same for all shifts.
    """
    folder = run_set.folder
    candidates = [
        (other.folder.parent != folder.parent, other.shift != run_set.shift, scores)
        for other, scores in scored
        if other.folder.name == folder.name + _TRAINED_ON_ALL and not other.trained_per_group
    ]
    return min(candidates, key=itemgetter(0, 1))[2] if candidates else None


class _Pairs(NamedTuple):
    """A system's scores on queries and on their variants, by the same models and seeds.

    Attributes:
        scores: all that the system scores on variants.
        plain: the scores on queries as they are, of models and seeds that have both.
        changed: the scores of these on variants.
        methods: the methods of the variants, in their order.
        positions: where the queries that have a variant stand in `plain`, ``[queries]``.
        places: where their variants stand in `changed`, ``[methods, queries]``; -1 without one.
        counts: whether a variant counts, likewise.
    """

    scores: Scores
    plain: Scores
    changed: Scores
    methods: list[str]
    positions: Ints
    places: Ints
    counts: NDArray[np.bool_]

    def of(
        self, measure: str, models: Sequence[str], method: str = "", group: str = ""
    ) -> tuple[Floats, Floats]:
        """Return the mean over models of the scores of queries as they are and changed.

        Args:
            measure: the measure.
            models: the models.
            method: only the variants by this method; by default a query's mean over its variants.
            group: only the queries of this group.

        Returns:
            Both ``[seeds, queries]``, of the queries that have a variant that counts.
        """
        chosen = slice(None) if not method else slice(row := self.methods.index(method), row + 1)
        counts, places = self.counts[chosen], self.places[chosen]
        is_used = counts.any(axis=0)
        if group:
            is_used &= np.isin(self.positions, self.plain.groups[group])
        queries = np.flatnonzero(is_used)
        by_method = [
            np.where(row, self.changed.of(measure, models, of_method), 0.0)
            for row, of_method in zip(counts[:, queries], places[:, queries], strict=True)
        ]
        changed = np.sum(by_method, axis=0) / counts[:, queries].sum(axis=0)
        return self.plain.of(measure, models, self.positions[queries]), changed


def _pairs_of(
    run_sets: Sequence[RunSet],
    changed: RunSet,
    test_set: TestSet,
    dataset: Dataset | None,
    settings: Settings,
    checks: Checks,
) -> tuple[_Pairs, str]:
    """Score a system on queries and on their variants, and pair the scores.

    Args:
        run_sets: all systems' runs on the queries as they are.
        changed: the runs on the variants.
        test_set: the variants.
        dataset: the data set with the queries; `None` where the test set has its own.
        settings: measures and policies.
        checks: what is refused, or allowed.

    Returns:
        The pairs; and how many variants there are and, if texts are known, how many change nothing.
    """
    shift = changed.shift
    name = f"{changed.system} on {test_set.name} ({shift.name})"
    tests = dataset.test_sets(shift).values() if dataset else ()
    rows = [row for members in tests for row in members]
    variants = test_set.of_shift(shift.name, rows)
    alike = (part for part in run_sets if (part.system, part.shift) == (changed.system, shift))
    plain = changed if dataset is None else next(alike, None)
    if plain is None:
        raise RunError(
            f"{changed.system} has runs on variants for {shift.name} and none on the queries as "
            f"they are, in {changed.system}/{shift.name}, with which they are compared"
        )
    checks.check_data([*plain.files, *changed.files])
    checks.check_passages([(name, [*plain.files, *changed.files])])
    of_queries = of_variants = _score(changed, variants, settings, checks)
    if dataset is not None:
        if "partial" not in checks.allow:
            plain.check_complete()
        (of_queries,) = score_files([(plain, test_set_of_shift(shift, dataset))], settings)
        checks.check_scores(of_queries, settings.missing, every_group=False)
        checks.check_same_models(name, plain, changed)
    described = f"{test_set.name} ({shift.name}): {len(variants.variants):,} variants"
    if dataset is None or dataset.manifest.texts:
        texts = {row.query_id: row.text for row in (*rows, *variants.rows)}
        same = sum(part.text == texts[part.query_id] for part in variants.variants)
        described += f", {same:,} of them as the query"
    return _pair(name, of_queries, of_variants, variants, settings, checks), described


def _pair(
    name: str,
    of_queries: Scores,
    of_variants: Scores,
    test_set: TestSet,
    settings: Settings,
    checks: Checks,
) -> _Pairs:
    """Pair the scores on queries with those on their variants.

    Raises:
        DataError: if no query is left to count.
    """
    seeds = [seed for seed in of_queries.seeds if seed in of_variants.seeds]
    models = [
        model
        for model in of_variants.models
        if all((model, seed) in part.runs for seed in seeds for part in (of_queries, of_variants))
    ]
    if not (seeds and models):
        raise DataError(f"{name}: no model of one seed has runs on the queries and on the variants")
    if absent := [m for m in {*of_queries.models, *of_variants.models} if m not in models]:
        checks.doubts.append(f"{name}: no pair of runs for {', '.join(sorted(absent))}")
    plain, changed = (
        replace(part, runs={(m, seed): part.runs[m, seed] for seed in seeds for m in models})
        for part in (of_queries, of_variants)
    )
    query_ids = sorted({variant.query_id for variant in test_set.variants})
    methods = list(dict.fromkeys(variant.method for variant in test_set.variants))
    index = {query_id: place for place, query_id in enumerate(of_queries.query_ids)}
    of_changed = {query_id: place for place, query_id in enumerate(of_variants.query_ids)}
    positions = np.array([index[query_id] for query_id in query_ids], np.int64)
    place_of = {
        (variant.method, variant.query_id): of_changed[variant.run_id]
        for variant in test_set.variants
    }
    rows = [[place_of.get((method, name), -1) for name in query_ids] for method in methods]
    places = np.array(rows, np.int64)
    counts = places >= 0
    pairs = zip(plain.runs.values(), changed.runs.values(), strict=True)
    for first, second in pairs if settings.missing == "skip" else ():
        counts &= ~(first.missing[positions] | second.missing[places])
    if not counts.any():
        raise DataError(f"{name}: every variant, or the query that it is of, is missing")
    return _Pairs(of_variants, plain, changed, methods, positions, places, counts)


def _change_claims(pairs: _Pairs, test: str, settings: Settings) -> Iterator[Claim]:
    """Yield what each model loses on all variants, on those of each method, and by group."""
    models, shift = pairs.plain.models, pairs.plain.shift
    assert shift is not None
    of_system = Figure("", test, shift.name, pairs.plain.system)
    average = models[0] if len(models) == 1 else MEAN
    for measure in settings.measures:
        row = of_system._replace(measure=measure.name, seeds=pairs.plain.replicates)
        on_average = row._replace(model=average)
        for model in models if len(models) > 1 else ():
            sides = pairs.of(measure.name, [model])
            yield from change_claims(row._replace(model=model), measure, *sides)
        yield from change_claims(on_average, measure, *pairs.of(measure.name, models))
        for method in pairs.methods if len(pairs.methods) > 1 else ():
            sides = pairs.of(measure.name, models, method)
            yield from change_claims(on_average._replace(slice=method), measure, *sides)
        groups = {}
        for group in shift.tested:
            unseen = shift.unseen_by(group)
            saw = [model for model in models if model != unseen]
            if group in pairs.plain.groups and unseen in models and saw:
                inside = pairs.of(measure.name, saw, group=group)
                out = pairs.of(measure.name, [unseen], group=group)
                groups[group] = (inside[0], out[0]), (inside[1], out[1])
        yield from compound_claims(row, measure, groups)
