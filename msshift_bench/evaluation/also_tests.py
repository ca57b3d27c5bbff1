"""Run sets on other queries: extra test sets, and variants of queries, e.g. with typing errors.

MS-Shift's first version prints the mean over a shift's models on TREC DL 2019 beside a model
trained on everything (its Table 5), and says what is lost against that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import DataInfo, Dataset, TestSet, open_dataset, read_extra_tests
from msshift_bench.errors import DataError, NotFoundError, RunError, UsageError
from msshift_bench.evaluation.checks import COMPARED_RUNS, Checks, missing_doubts
from msshift_bench.evaluation.claims import change_claims, compound_claims, extra_claims
from msshift_bench.evaluation.evaluating import identical_doubts
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.notes import change_notes, extra_notes
from msshift_bench.evaluation.results import Note, Result
from msshift_bench.evaluation.scores import FOR_ALL, Scores, answered_by_all, check_is_mean
from msshift_bench.evaluation.scoring import score_files
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.tables import change_tables, extra_tables
from msshift_bench.records import Row
from msshift_bench.runs import RunSet, extra_runs_path, find_run_sets
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift, in_order
from msshift_bench.stats import Claim, Figure, infer

__all__ = ["evaluate_also_tests"]

_TRAINED_ON_ALL = "-all"
"""The end of the name of a system that is another one, trained on everything."""

ALL_METHODS = ""
"""The slice of figures on the variants of all methods together."""


def evaluate_also_tests(
    runs: str | Path | Iterable[str | Path],
    also_test: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow: Collection[str] = (),
) -> Result:
    """Score run sets on extra test sets, or say what they lose on variants of queries.

    Args:
        runs: folders of run sets; the runs for a test set lie in ``<system>/also/<name>``, as
            `run_baseline` lays them out. Systems without such runs are left out, with a doubt. In
            runs a variant has the id ``<query_id>#<method>``.
        also_test: name -> a folder of ``queries.tsv`` and ``qrels.tsv``, whose judgements may be
            graded, with or without ``variants.tsv``; or a file of variants of the shifts' test
            queries (query_id, text, method). All hold variants, or none.
        data: the data set with the queries of variants; only read for a file of these.
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
        NotFoundError: if a folder or a file does not exist, or no system has runs for a test set.
        CollectionError: if queries, judgements or variants are malformed.
        DataError: if no variant is of a test query of a shift, or none counts.
        RunError: if a run is malformed, was made for other queries, is missing or is that of
            another model, or a system's runs, or those that it is compared with, are of different
            passages or data (all unless allowed).
    """
    settings = settings or Settings()
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
    wanted = [get_shift(name) for name in dict.fromkeys(shifts)]
    run_sets, checks = find_run_sets(runs), Checks(allow=allow)
    if varied:
        return _evaluate_variants(run_sets, test_sets, also_test, data, wanted, settings, checks)
    claims: list[Claim] = []
    scores: list[Scores] = []
    for test_set in test_sets:
        found = _runs_for(run_sets, test_set, Path(also_test[test_set.name]), wanted, checks)
        checks.check_passages(
            (f"{part.system} on {test_set.name} ({part.shift.name})", part.files) for part in found
        )
        of_set = [_score(part, test_set, settings, checks) for part in found]
        folders = {id(part): run_set.folder for part, run_set in zip(of_set, found, strict=True)}
        for part in of_set:
            everything = _trained_on_everything(part, of_set, folders)
            if everything is not None and len(part.complete_models) > 1:
                compared = [*_run_files(everything), *_run_files(part)]
                name = f"{everything.system} and {part.system} on {test_set.name}"
                checks.check_passages([(name, compared)], COMPARED_RUNS)
            for measure in settings.measures:
                claims += extra_claims(part, measure, _counted([part], settings), None)
                if everything is not None:
                    queries = _counted([part, everything], settings)
                    claims += [
                        claim
                        for claim in extra_claims(part, measure, queries, everything)
                        if claim.named.figure == "drop"
                    ]
        scores += of_set
    figures = infer(claims, settings)
    notes = [Note(line) for line in extra_notes(settings, figures)]
    notes += [Note(line, "doubt") for line in checks.doubts]
    layout = partial(extra_tables, settings=settings)
    return Result("extra tests", figures, settings.to_json(), DataInfo(), notes, layout, scores)


def _run_files(scores: Scores) -> list[Path]:
    """Return the run files that scores are of."""
    return [Path(run.report.name) for run in scores.runs.values()]


def _counted(scores: Sequence[Scores], settings: Settings) -> Ints:
    """Return the queries that count: with ``skip``, those that each system's runs hold."""
    queries = np.arange(len(scores[0].query_ids))
    if settings.missing != "skip":
        return queries
    return answered_by_all((run for part in scores for run in part.runs.values()), queries)


def _runs_for(
    run_sets: Sequence[RunSet],
    test_set: TestSet,
    path: Path,
    wanted: Sequence[Shift],
    checks: Checks,
) -> list[RunSet]:
    """Return the runs of systems for a test set, by shift; systems without any are a doubt."""
    folders = {run_set.folder: run_set.system for run_set in run_sets}
    found = []
    for folder, system in folders.items():
        place = extra_runs_path(folder, test_set.name)
        parts = find_run_sets(place) if place.is_dir() else []
        found += [
            replace(part, system=system, folder=folder)
            for part in parts
            if not wanted or part.shift in wanted
        ]
    if not found:
        raise NotFoundError(
            f"no system has runs for {test_set.name}; they lie in <system>/also/{test_set.name}, "
            f"and 'msshift baseline run ... --also-test {test_set.name}={path}' makes them"
        )
    if lacking := sorted({*folders.values()} - {part.system for part in found}):
        checks.doubts.append(f"{test_set.name}: no runs of {', '.join(lacking)}")
    order = in_order({part.shift.name for part in found})
    return sorted(found, key=lambda part: order.index(part.shift.name))


def _score(run_set: RunSet, test_set: TestSet, settings: Settings, checks: Checks) -> Scores:
    """Score a system's runs on a test set, and check them."""
    if "partial" not in checks.allow:
        run_set.check_complete()
    checks.check_queries(run_set, test_set)
    checks.check_models(run_set)
    (scores,) = score_files([(run_set, test_set)], settings)
    checks.check_scores(scores, every_group=False)
    name = f"{run_set.system} on {test_set.name} ({run_set.shift.name})"
    checks.doubts += missing_doubts(scores, name)
    checks.doubts += identical_doubts(scores.runs.values())
    checks.doubts += [
        f"{name}: no run without {group}" + ("" if seed is None else f", seed {seed}")
        for seed, group in run_set.missing
    ]
    return scores


def _trained_on_everything(
    scores: Scores, others: Iterable[Scores], folders: Mapping[int, Path]
) -> Scores | None:
    """Return the same system, trained on everything: ``splade-all`` for ``splade``.

    One in the same folder comes before others, and then one with a run for the same shift: a model
    that was trained on everything is the same for all shifts.
    """
    folder = folders[id(scores)]
    known = [
        part
        for part in others
        if folders[id(part)].name == folder.name + _TRAINED_ON_ALL and FOR_ALL in part.models
    ]
    known.sort(
        key=lambda part: (folders[id(part)].parent != folder.parent, part.shift != scores.shift)
    )
    return known[0] if known else None


class _Pairs(NamedTuple):
    """A system's scores on queries and on their variants, paired by query, model and seed.

    Attributes:
        models: the models that every seed has, on both.
        seeds: the seeds that both have.
        methods: the methods of the variants, in their order.
        groups: group -> places of its queries; empty if the queries are of no group.
        plain: measure -> scores on the queries as they are, ``[seeds, models, queries]``.
        changed: measure -> scores on their variants, ``[seeds, models, methods, queries]``; NaN
            where a query has no variant by a method that counts.
    """

    models: list[str]
    seeds: list[int | None]
    methods: list[str]
    groups: Mapping[str, Ints]
    plain: Mapping[str, Floats]
    changed: Mapping[str, Floats]

    def of(self, measure: str, method: str) -> tuple[Floats, Floats, Ints]:
        """Return the scores of the queries that have a variant, and which queries these are.

        Args:
            measure: the measure.
            method: the method that made the variants; `ALL_METHODS` for each query's mean over its
                variants.

        Returns:
            Scores as they are and changed, each ``[seeds, models, queries]``, and places.
        """
        changed = self.changed[measure]
        if method != ALL_METHODS:
            changed = changed[:, :, [self.methods.index(method)]]
        has = ~np.isnan(changed).any(axis=(0, 1))
        counts = has.sum(axis=0)
        places = np.flatnonzero(counts)
        sums = np.where(has, changed, 0.0).sum(axis=2)
        return self.plain[measure][:, :, places], sums[:, :, places] / counts[places], places


def _evaluate_variants(
    run_sets: Sequence[RunSet],
    test_sets: Sequence[TestSet],
    paths: Mapping[str, str | Path],
    data: Dataset | str | Path,
    wanted: Sequence[Shift],
    settings: Settings,
    checks: Checks,
) -> Result:
    claims: list[Claim] = []
    contents: list[str] = []
    scores: list[Scores] = []
    info = DataInfo()
    for test_set in test_sets:
        dataset = open_dataset(data) if test_set.needs_shift else None
        if dataset is not None:
            info = checks.data = dataset.info
        for changed in _runs_for(run_sets, test_set, Path(paths[test_set.name]), wanted, checks):
            shift = changed.shift
            tests = dataset.test_sets(shift) if dataset else {}
            rows = [row for members in tests.values() for row in members]
            variants = test_set.of_shift(shift.name, rows)
            plain = changed if dataset is None else _own_runs(run_sets, changed)
            name = f"{changed.system} on {test_set.name} ({shift.name})"
            checks.check_data([*plain.files, *changed.files])
            checks.check_passages([(name, [*plain.files, *changed.files])])
            of_variants = _score(changed, variants, settings, checks)
            of_queries = of_variants
            if dataset is not None:
                if "partial" not in checks.allow:
                    plain.check_complete()
                judged = {row.query_id: row.relevant for row in rows}
                groups = {group: [row.query_id for row in part] for group, part in tests.items()}
                queries = TestSet(shift.name, judged, groups)
                (of_queries,) = score_files([(plain, queries)], settings)
                checks.check_scores(of_queries, every_group=False)
                checks.check_same_models(name, plain, changed)
            pairs = _pair(name, of_queries, of_variants, variants, settings, checks)
            named = Figure("", test_set.name, shift.name, changed.system)
            claims += _change_claims(pairs, named, shift, settings)
            scores.append(of_variants)
            contents.append(_contents(variants, shift, [*rows, *variants.rows], dataset))
    figures = infer(claims, settings)
    lines = change_notes(info, settings, figures, list(dict.fromkeys(contents)))
    notes = [Note(line) for line in lines]
    notes += [Note(line, "doubt") for line in checks.doubts]
    layout = partial(change_tables, settings=settings)
    return Result("variants", figures, settings.to_json(), info, notes, layout, scores)


def _own_runs(run_sets: Sequence[RunSet], changed: RunSet) -> RunSet:
    """Return a system's runs on the queries as they are."""
    system, shift = changed.system, changed.shift
    for run_set in run_sets:
        if (run_set.system, run_set.shift) == (system, shift):
            return run_set
    raise RunError(
        f"{system} has runs on variants for {shift.name} and none on the queries as they are, in "
        f"{system}/{shift.name}, with which they are compared"
    )


def _contents(test_set: TestSet, shift: Shift, rows: Iterable[Row], dataset: Dataset | None) -> str:
    """Return how many variants there are and, if texts are known, how many change nothing."""
    texts = {row.query_id: row.text for row in rows}
    contents = f"{test_set.name} ({shift.name}): {len(test_set.variants):,} variants"
    if dataset is None or dataset.manifest.texts:
        same = sum(part.text == texts[part.query_id] for part in test_set.variants)
        contents += f", {same:,} of them as the query"
    return contents


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
    query_ids = sorted({variant.query_id for variant in test_set.variants})
    methods = list(dict.fromkeys(variant.method for variant in test_set.variants))
    index = {query_id: place for place, query_id in enumerate(of_queries.query_ids)}
    of_changed = {query_id: place for place, query_id in enumerate(of_variants.query_ids)}
    positions = np.array([index[query_id] for query_id in query_ids], np.int64)
    column = {query_id: place for place, query_id in enumerate(query_ids)}
    places = np.full((len(methods), len(query_ids)), -1, np.int64)
    for variant in test_set.variants:
        row = methods.index(variant.method)
        places[row, column[variant.query_id]] = of_changed[variant.run_id]
    plain: dict[str, Floats] = {}
    changed: dict[str, Floats] = {}
    for measure in settings.measures:
        plain[measure.name] = np.empty((len(seeds), len(models), len(query_ids)))
        changed[measure.name] = np.empty((len(seeds), len(models), *places.shape))
        for cell in np.ndindex(len(seeds), len(models)):
            model = models[cell[1]], seeds[cell[0]]
            first, second = of_queries.runs[model], of_variants.runs[model]
            lacking = places < 0
            if settings.missing == "skip":
                lacking = lacking | first.missing[positions] | second.missing[places]
            plain[measure.name][cell] = first.scores[measure.name][positions]
            scores = second.scores[measure.name][places]
            changed[measure.name][cell] = np.where(lacking, np.nan, scores)
    if any(np.isnan(scores).any(axis=(0, 1)).all() for scores in changed.values()):
        raise DataError(f"{name}: every variant, or the query that it is of, is missing")
    members = {
        group: np.array(
            sorted(column[q] for q in of_queries.ids_of(group) if q in column), np.int64
        )
        for group in (of_queries.groups if of_queries is not of_variants else ())
    }
    return _Pairs(models, seeds, methods, members, plain, changed)


def _change_claims(
    pairs: _Pairs, named: Figure, shift: Shift, settings: Settings
) -> Iterator[Claim]:
    """Yield what each model loses on all variants, their mean on those of each method, by group."""
    trained = pairs.models != [FOR_ALL]
    for measure in settings.measures:
        row = named._replace(measure=measure.name, seeds=len(pairs.seeds) if trained else None)
        plain, changed, _ = pairs.of(measure.name, ALL_METHODS)
        chosen = [[place] for place in range(len(pairs.models))]
        chosen += [list(range(len(pairs.models)))] if len(pairs.models) > 1 else []
        for places in chosen:
            models = [pairs.models[place] for place in places]
            sides = plain[:, places], changed[:, places]
            yield from change_claims(row, measure, models, *sides)
        for method in pairs.methods if len(pairs.methods) > 1 else ():
            first, second, _ = pairs.of(measure.name, method)
            of_method = row._replace(slice=method)
            yield from change_claims(of_method, measure, pairs.models, first, second)
        yield from compound_claims(row, measure, _by_group(pairs, shift, measure))


def _by_group(
    pairs: _Pairs, shift: Shift, measure: Measure
) -> dict[str, tuple[tuple[Floats, Floats], tuple[Floats, Floats]]]:
    """Return group -> the scores in and out on its queries as they are, and on them changed."""
    plain, changed, places = pairs.of(measure.name, ALL_METHODS)
    groups = {}
    for group, members in pairs.groups.items():
        unseen = shift.unseen_by(group)
        queries = np.flatnonzero(np.isin(places, members))
        if unseen not in pairs.models or len(pairs.models) < 2 or not queries.size:
            continue
        held_out = pairs.models.index(unseen)
        saw = [place for place in range(len(pairs.models)) if place != held_out]
        sides = [
            (scores[:, saw][:, :, queries].mean(axis=1), scores[:, held_out][:, queries])
            for scores in (plain, changed)
        ]
        groups[group] = (sides[0], sides[1])
    return groups
