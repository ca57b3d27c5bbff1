"""Run sets on other queries: extra test sets, and variants of queries, e.g. with typing errors.

As in Table 5 of MS-Shift's first version, a shift's models are compared with a model trained on
everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation.claims import (
    change_claims,
    compound_claims,
    drop_claims,
    extra_claims,
)
from msshift_bench.evaluation.notes import (
    change_notes,
    data_caveats,
    data_notes,
    extra_notes,
    policy_notes,
    trained_notes,
)
from msshift_bench.evaluation.opening import (
    OpenedRuns,
    OpenedRunSet,
    open_extra_tests,
    trained_on_everything,
)
from msshift_bench.evaluation.results import Result, notes_of
from msshift_bench.evaluation.scores import Scores, check_means, counted_by_all
from msshift_bench.evaluation.scoring import score_opened
from msshift_bench.evaluation.settings import Settings, SettingsSource
from msshift_bench.evaluation.tables import change_tables, extra_tables
from msshift_bench.shifts import DATASET_NAME, ShiftNames
from msshift_bench.stats import MEAN, Claim, Figure, infer


def evaluate_extra_tests(
    runs: str | Path | Iterable[str | Path] | OpenedRuns,
    extra_test: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    allow: str | Collection[str] = (),
) -> Result:
    """Score run sets on extra test sets, or compute their losses on variants of queries.

    Args:
        runs: folders of run sets; the runs for a test set are in ``<system>/extra/<name>``, as
            `make_runs` writes them; or `OpenedRuns`. Systems without such runs are left out, with
            a warning. In runs, a variant has the id ``<query_id>#<method>``.
        extra_test: name -> a folder of ``queries.tsv`` and ``qrels.tsv``, whose judgements may be
            graded, with or without ``variants.tsv``; a folder or an ir_datasets id with passages of
            its own; or a file of variants of the shifts' test queries (query_id, text, method). All
            hold variants, or none.
        data: the data set with the queries of variants, and with the training queries of the
            models: none of them may be a test query. Without a data set, a note reports that this
            was not checked.
        shifts: the shifts whose models are scored; by default all.
        settings: measures and policies; every measure must be a mean. With variants, it needs a
            value for every query.
        allow: errors to allow, some of `ALLOWANCES`.

    Returns:
        Without variants, the mean of every model and their average. For a system that was also
        trained on everything, such as ``splade`` with ``splade-all``, also the drop of the average.
        With variants, the loss of every model, 1 - changed / unchanged, and by group whether the
        held-out model loses more.

    Raises:
        UsageError: if a measure has no mean, a name cannot be a folder's, or some test sets hold
            variants and others do not.
        UnknownNameError: for an unknown shift or allowance.
        NotFoundError: if a folder or a file does not exist, or no system has runs for a test set.
        CollectionError: if queries, judgements or variants are malformed.
        DataError: if no variant is of a test query of a shift, or every variant or its query is
            missing from the runs.
        RunError: if a run is malformed, missing, was made for other queries or by another model; if
            compared runs are of different passages or data; or if a model was trained on test
            queries (all unless allowed).

    Examples:
        >>> result = evaluate_extra_tests("runs/dense", {"dl19": "dl19"})
        >>> [(row.model, row.value) for row in result.figures.where(figure="score")]
        [('short', 0.5), ('long', 1.0), ('mean', 0.75)]
    """
    settings = Settings.of(settings)
    opened = open_extra_tests(runs, extra_test, data, shifts, settings.run_format)
    varied = any(part.test_set.variants for part in opened.run_sets)
    check_means(part for part in settings.measures if varied or part.aggregate != "mean")
    scores, plain, warnings = score_opened(opened, settings, allow)
    claims: list[Claim] = []
    contents: list[str] = []
    for part, changed, as_is in zip(opened.run_sets, scores, plain, strict=True):
        if varied:
            claims += _change_claims(
                _pair_scores(part, as_is or changed, changed, settings, warnings),
                part.test,
                settings,
            )
            contents.append(_describe_variants(part, opened))
        else:
            everything = trained_on_everything(part, opened.run_sets)
            reference = None if everything is None else scores[opened.run_sets.index(everything)]
            claims += _extra_claims(changed, reference, settings)
    figures = infer(claims, settings)
    lines, facts = extra_notes(settings, figures), policy_notes(settings)
    caveats = trained_notes(opened.trained)
    if varied:
        lines = change_notes(settings, figures, list(dict.fromkeys(contents)))
        facts = [*data_notes(opened.data), *facts]
        caveats = [*data_caveats(opened.data), *caveats]
    return Result(
        "variants" if varied else "extra tests",
        figures,
        settings.to_json(),
        opened.data,
        notes_of(lines, warnings, data=facts, caveats=caveats),
        partial(change_tables if varied else extra_tables, settings=settings),
        scores,
        {"trained_on": [part._asdict() for _, part in opened.trained.values() if part is not None]},
    )


def _extra_claims(scores: Scores, everything: Scores | None, settings: Settings) -> Iterator[Claim]:
    """Yield a system's claims on an extra test set, and its drop from training on everything."""
    for measure in settings.measures:
        (queries,) = counted_by_all([scores], settings.missing).values()
        yield from extra_claims(scores, measure, queries)
        if everything is not None:
            (queries,) = counted_by_all([scores, everything], settings.missing).values()
            yield from drop_claims(scores, measure, queries, everything)


def _describe_variants(part: OpenedRunSet, opened: OpenedRuns) -> str:
    variants, queries = part.test_set.variants, part.plain.test_set.rows if part.plain else ()
    texts = {row.query_id: row.text for row in (*queries, *part.test_set.rows)}
    same = sum(variant.text == texts[variant.query_id] for variant in variants)
    has_texts = not part.plain or opened.dataset is None or opened.dataset.manifest.texts
    counted = f"{part.test} ({part.shift_name}): {len(variants):,} variants"
    return counted + f", {same:,} of them as the query" * has_texts


class _VariantScores(NamedTuple):
    """A system's scores on queries and on their variants, by the same models and seeds.

    Attributes:
        scores: all scores of the system on variants.
        plain: the scores on unchanged queries, of models and seeds that have both.
        changed: the scores of the same models and seeds on variants.
        methods: the methods of the variants, in their order.
        positions: positions in `plain` of the queries with a variant, ``[queries]``.
        places: positions in `changed` of their variants, ``[methods, queries]``; -1 if none.
        counts: whether a variant counts, ``[methods, queries]``.
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
        """Return the mean over models of the scores of unchanged and of changed queries.

        Args:
            measure: the measure.
            models: the models.
            method: only the variants by this method; by default a query's mean over its variants.
            group: only the queries of this group.

        Returns:
            Both ``[seeds, queries]``, of the queries with a variant that counts.
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


def _pair_scores(
    part: OpenedRunSet,
    of_queries: Scores,
    of_variants: Scores,
    settings: Settings,
    warnings: list[str],
) -> _VariantScores:
    """Return the scores on queries paired with the scores on their variants.

    `warnings` gets a line on models without a pair of runs.

    Raises:
        DataError: if no model has both runs for all shared seeds, or no variant is left to count.
    """
    name = part.place
    seeds = [seed for seed in of_queries.seeds if seed in of_variants.seeds]
    models = [
        model
        for model in of_variants.models
        if all((model, seed) in part.runs for seed in seeds for part in (of_queries, of_variants))
    ]
    if not (seeds and models):
        raise DataError(f"{name}: no model of one seed has runs on the queries and on the variants")
    if absent := [m for m in {*of_queries.models, *of_variants.models} if m not in models]:
        warnings.append(f"{name}: no pair of runs for {', '.join(sorted(absent))}")
    plain, changed = (
        replace(part, runs={(m, seed): part.runs[m, seed] for seed in seeds for m in models})
        for part in (of_queries, of_variants)
    )
    index = {query_id: place for place, query_id in enumerate(of_queries.query_ids)}
    of_changed = {query_id: place for place, query_id in enumerate(of_variants.query_ids)}
    variants = [one for one in part.test_set.variants if one.run_id in of_changed]
    query_ids = sorted({variant.query_id for variant in variants})
    methods = list(dict.fromkeys(variant.method for variant in variants))
    positions = np.array([index[query_id] for query_id in query_ids], np.int64)
    place_of = {
        (variant.method, variant.query_id): of_changed[variant.run_id] for variant in variants
    }
    places = np.array(
        [[place_of.get((method, name), -1) for name in query_ids] for method in methods], np.int64
    )
    counts = places >= 0
    pairs = zip(plain.runs.values(), changed.runs.values(), strict=True)
    for first, second in pairs if settings.missing == "skip" else ():
        counts &= ~(first.missing[positions] | second.missing[places])
    if not counts.any():
        raise DataError(f"{name}: every variant, or the query that it is of, is missing")
    return _VariantScores(of_variants, plain, changed, methods, positions, places, counts)


def _change_claims(pairs: _VariantScores, test: str, settings: Settings) -> Iterator[Claim]:
    """Yield the loss of each model on all variants, by method, and by group."""
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
            by_side = pairs.plain.models_by_side(group) if group in pairs.plain.groups else None
            if by_side is not None:
                inside, out = (pairs.of(measure.name, side, group=group) for side in by_side[:2])
                groups[group] = list(zip(inside, out, strict=True))
        yield from compound_claims(row, measure, groups)
