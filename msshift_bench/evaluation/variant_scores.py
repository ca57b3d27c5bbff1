"""A system's scores on queries and on their variants, paired by query, model and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import ExtraTestSet
from msshift_bench.errors import DataError, Finding, RunError
from msshift_bench.evaluation.extra_runs import check_same_queries, score_models
from msshift_bench.evaluation.fitting import identical_remarks, missing_remarks
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.evaluation.settings import Settings
from msshift_bench.records import Row
from msshift_bench.runs import Judgements, RunSet, read_sidecar, sidecar_path
from msshift_bench.shifts import Shift
from msshift_bench.stats import GroupScores

__all__ = ["VariantScores", "score_variants"]

_Models = Mapping[str, Mapping[int | None, ScoredRun]]


@dataclass(frozen=True, slots=True, eq=False)
class VariantScores:
    """A system's scores on queries and their variants.

    Attributes:
        shift: the shift that the models were trained for.
        models: the models that every seed has; see `extra_runs.score_models` for their names.
        seeds: the seeds that count.
        methods: the methods of the variants, in their order.
        groups: group -> mask of its queries, ``[queries]``; empty if the queries are of no group.
        plain: measure -> scores on the queries as they are, ``[seeds, models, queries]``.
        changed: measure -> scores on their variants, ``[seeds, models, methods, queries]``; NaN
            where a query has no variant by a method that counts.
        remarks: doubts: missing queries, models or seeds.
    """

    shift: Shift
    models: tuple[str, ...]
    seeds: tuple[int | None, ...]
    methods: tuple[str, ...]
    groups: Mapping[str, Ints]
    plain: Mapping[str, Floats]
    changed: Mapping[str, Floats]
    remarks: tuple[str, ...]

    def pairs(self, measure: str, method: str | None) -> tuple[Floats, Floats, Ints]:
        """Return the scores of the queries that have a variant, and which queries these are.

        Args:
            measure: the measure.
            method: the method that made the variants; `None` for each query's mean over its
                variants by all methods.

        Returns:
            Scores as they are and changed, each ``[seeds, models, queries]``, and positions.
        """
        changed = self.changed[measure]
        places = range(len(self.methods)) if method is None else [self.methods.index(method)]
        chosen = changed[:, :, list(places)]
        has = ~np.isnan(chosen).any(axis=(0, 1))
        counts = has.sum(axis=0)
        kept = np.flatnonzero(counts)
        sums = np.where(has, chosen, 0.0).sum(axis=2)
        return self.plain[measure][:, :, kept], sums[:, :, kept] / counts[kept], kept

    def by_group(self, measure: str) -> dict[str, tuple[GroupScores, GroupScores]]:
        """Return group -> its queries' scores as they are and changed, by all methods together.

        Empty if queries are of no group, or there is no model of a group and one of another.
        """
        plain, changed, kept = self.pairs(measure, None)
        found = {}
        for group, members in self.groups.items():
            unseen = self.shift.unseen_by(group)
            if unseen not in self.models or len(self.models) < 2:
                continue
            own = self.models.index(unseen)
            others = [place for place in range(len(self.models)) if place != own]
            queries = np.flatnonzero(np.isin(kept, members))
            if queries.size:
                first, second = (
                    GroupScores(scores[:, others][:, :, queries], scores[:, own][:, queries])
                    for scores in (plain, changed)
                )
                found[group] = (first, second)
        return found


def score_variants(
    name: str,
    own: RunSet,
    changed: RunSet,
    extra: ExtraTestSet,
    tests: Mapping[str, Sequence[Row]],
    settings: Settings,
    *,
    partly: bool,
    allow_identical: bool,
) -> VariantScores:
    """Score a system on queries and their variants.

    Args:
        name: the name of the system and test set, for messages.
        own: the runs on the queries as they are; the same as `changed`, if one file holds both.
        changed: the runs on the variants.
        extra: the test set with the variants.
        tests: group -> the shift's test queries; empty if `extra` holds the queries.
        settings: measures and policies.
        partly: go on where models or seeds are missing.
        allow_identical: accept the same file under two models.

    Raises:
        RunError: if a run is missing (unless `partly`) or malformed, is that of another model
            (unless `allow_identical`), or the two were not made by the same models.
        DataError: if no query is left to count.
    """
    if not partly:
        for run_set in (own, changed):
            run_set.check_complete()
    check_same_queries(changed, extra)
    with_variants = Judgements(extra.judged)
    of_variants = score_models(changed, with_variants, settings, allow_identical=allow_identical)
    if tests:
        rows = {row.query_id: row for members in tests.values() for row in members}
        judgements = Judgements({query_id: row.relevant for query_id, row in rows.items()})
        of_queries: _Models = score_models(
            own, judgements, settings, allow_identical=allow_identical
        )
        _check_same_models(name, own, changed, partly=partly)
    else:
        judgements, of_queries = with_variants, of_variants
    seeds = tuple(seed for seed in _seeds(of_queries) if seed in _seeds(of_variants))
    models = tuple(
        model
        for model, runs in of_variants.items()
        if all(seed in runs and seed in of_queries.get(model, {}) for seed in seeds)
    )
    if not (seeds and models):
        raise DataError(f"{name}: no model of one seed has runs on the queries and on the variants")
    query_ids = sorted({one.query_id for one in extra.variants})
    methods = tuple(dict.fromkeys(one.method for one in extra.variants))
    positions = np.array([judgements.index[query_id] for query_id in query_ids], np.int64)
    places = np.full((len(methods), len(query_ids)), -1, np.int64)
    place_of = {query_id: place for place, query_id in enumerate(query_ids)}
    for one in extra.variants:
        place = methods.index(one.method), place_of[one.query_id]
        places[place] = with_variants.index[one.run_id]
    skipping = settings.missing == "skip"

    def gather(measure: str) -> tuple[Floats, Floats]:
        plain = np.empty((len(seeds), len(models), len(query_ids)))
        after = np.full((len(seeds), len(models), *places.shape), np.nan)
        for s, seed in enumerate(seeds):
            for m, model in enumerate(models):
                first, second = of_queries[model][seed], of_variants[model][seed]
                plain[s, m] = first.scores[measure][positions]
                lacking = places < 0
                if skipping:
                    lacking |= first.missing[positions] | second.missing[places]
                after[s, m] = np.where(lacking, np.nan, second.scores[measure][places])
        return plain, after

    gathered = {measure.name: gather(measure.name) for measure in settings.measures}
    if any(np.isnan(after).any(axis=(0, 1)).all() for _, after in gathered.values()):
        raise DataError(f"{name}: every variant, or the query that it is of, is missing")
    runs = [run for by_seed in of_variants.values() for run in by_seed.values()]
    everything = {extra.name: np.arange(len(with_variants))}
    remarks = missing_remarks(name, runs, everything, with_variants.query_ids)
    remarks += identical_remarks(runs)
    absent = [model for model in {**of_queries, **of_variants} if model not in models]
    if absent:
        remarks.append(f"{name}: no pair of runs for {', '.join(absent)}")
    members = {
        group: np.array(
            sorted(place_of[row.query_id] for row in rows_of if row.query_id in place_of), np.int64
        )
        for group, rows_of in tests.items()
    }
    return VariantScores(
        changed.shift,
        models,
        seeds,
        methods,
        members,
        {name: plain for name, (plain, _) in gathered.items()},
        {name: after for name, (_, after) in gathered.items()},
        tuple(remarks),
    )


def _seeds(models: _Models) -> list[int | None]:
    return list(dict.fromkeys(seed for runs in models.values() for seed in runs))


def _check_same_models(name: str, own: RunSet, changed: RunSet, *, partly: bool) -> None:
    """Check that queries and variants were ranked by the same models, as far as sidecars say."""
    findings = []
    if own.runs.keys() != changed.runs.keys() and not partly:
        has, lacks = (", ".join(map(str, one.runs)) or "none" for one in (own, changed))
        findings.append(
            Finding(
                "other-seeds",
                f"the runs on the queries have the seeds {has}, those on the variants {lacks}",
                name,
                fix="make the missing runs, or go on with --allow-partial",
            )
        )
    pairs = [
        (runs[group], file)
        for seed, runs in own.runs.items()
        for group, file in changed.runs.get(seed, {}).items()
        if group in runs
    ]
    if own.single is not None and changed.single is not None:
        pairs.append((own.single, changed.single))
    for first, second in pairs:
        weights, others = _made_by(first), _made_by(second)
        if None not in (weights, others) and weights != others:
            findings.append(
                Finding(
                    "other-model",
                    f"its sidecar names another model or other parameters than that of {first}",
                    str(second),
                    fix="make both runs with the same model",
                )
            )
    if findings:
        raise RunError("runs on queries and on their variants do not belong together:", findings)


def _made_by(run: Path) -> object:
    sidecar = sidecar_path(run)
    said = read_sidecar(sidecar) if sidecar.is_file() else None
    if not said:
        return None
    training = said.get("training")
    weights = training.get("weights_sha256") if isinstance(training, Mapping) else None
    return weights, said.get("parameters")
