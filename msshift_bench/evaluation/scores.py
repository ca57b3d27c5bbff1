"""Scores of every model of a system for every query, before averaging.

A scored run file is a `ScoredRun`. The scored runs of one system on one test set are a cube of
model, seed and query, from which every figure is computed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import TestSet, digest_of_test_sets
from msshift_bench.errors import DataError, Finding, RunError, UsageError, first_few
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.opening import OpenedRun, SystemNames
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.trained import OWN_SPLIT, GroupState, group_states
from msshift_bench.output import plain
from msshift_bench.records import OTHERS
from msshift_bench.runs import (
    FOR_ALL,
    JudgedRun,
    Judgements,
    Model,
    RankingDigests,
    RunReport,
    Sidecar,
    judge_run,
)
from msshift_bench.shifts import Shift
from msshift_bench.stats import FIXED, Sides

KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "MS MARCO dev-small": (
            "0000f727854b", "000a297e4a3d", "0015f2d847bb", "001a79c12c51",
            "002efe92464b", "0038df586e51", "0039cf64d319", "003a78c23aa9",
        ),
        "TREC DL 2019": (
            "04702059768e", "05217ca452c2", "0e07d6a53ae8", "1870ced3b4f9",
            "1ef4f859c8c4", "262333c24ae5", "27f7f0ae18ea", "2c636a8669bf",
        ),
        "TREC DL 2020": (
            "043f6082cdb9", "0aabcde6a605", "0b3522bcf3bd", "13c51afaa901",
            "15f3724b9417", "18c583ddc6be", "1a5aaef11752", "1adc0b785320",
        ),
    }
)  # fmt: skip
"""Test set -> the 8 smallest digests of the ids of its 6,980, 43 and 54 judged queries."""


def known_test_set(query_ids: Collection[bytes]) -> str:
    """Return e.g. ``TREC DL 2019's queries`` if nearly all their ids are given; ``""`` for none.

    Args:
        query_ids: ids of queries in UTF-8.
    """
    id_digests = {hashlib.sha256(query_id).hexdigest()[:12] for query_id in query_ids}
    names = [
        name
        for name, digests in KNOWN.items()
        if len(id_digests.intersection(digests)) >= len(digests) - 1
    ]
    return " and ".join(f"{name}'s queries" for name in names)


FEWEST_ANSWERED = 20
"""Smallest number of queries for warnings: of so many, some should find a relevant passage."""

_MOST_DIFFERING = 0.01
"""Largest share of queries with different values in two runs that count as equal."""


_TEXT_IDS = (
    "its ids lost or gained zeros, as where a program reads ids as numbers; write them as text"
)


NO_SIDECAR = Sidecar(Path(), Path())
"""The sidecar of scores without a run."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoredRun:
    """One run's scores for every query of a test set.

    Attributes:
        report: the report of the run file.
        missing: mask of the queries missing from the run, ``[queries]``, without queries for which
            its sidecar reports that nothing was retrieved.
        tied: mask of the queries with a tie at a relevant document, ``[queries]``.
        scores: measure -> per-query scores under the tie policy, ``[queries]``; NaN if undefined.
        best: measure -> scores with every tie broken for the relevant documents.
        worst: measure -> scores with every tie broken against them.
        remarks: warnings about its scores.
        sidecar: its sidecar.
        digests: digests of its rankings; `None` for scores that were read from a table.
        own_first: number of queries with the passage of their own id at rank 1, not relevant.
    """

    report: RunReport
    missing: NDArray[np.bool_]
    tied: NDArray[np.bool_]
    scores: Mapping[str, Floats]
    best: Mapping[str, Floats]
    worst: Mapping[str, Floats]
    remarks: tuple[str, ...] = ()
    sidecar: Sidecar = NO_SIDECAR
    digests: RankingDigests | None = None
    own_first: int = 0

    def __repr__(self) -> str:
        measures = ", ".join(self.scores)
        return f"<ScoredRun: {self.report.name}, {measures}, {len(self.missing):,} queries>"


def score_run(opened: OpenedRun, judgements: Judgements, settings: Settings) -> ScoredRun:
    """Read a run, and return its scores for every query of the test set.

    Args:
        opened: the run.
        judgements: the test set.
        settings: measures, tie policy, policy for missing queries.

    Raises:
        RunError: if the run is malformed, contains no query of the test set, its ids lost their
            leading zeros, or queries are missing and `settings` treats that as an error; with
            ``strict``, for every warning.
        NotFoundError: if the file does not exist.
        UsageError: if a measure needs judgements that the test set lacks; and as in
            `Measure.per_query` and `judge_run`.
    """
    measures = settings.measures
    for measure in measures:
        if judgements.relevant_only and measure.reads_nonrelevant:
            raise UsageError(
                f"{measure.name} needs passages that were judged not relevant, but a built data "
                "set has only relevant ones; score the run with --qrels FILE"
            )
    source = opened.source
    run = judge_run(
        source,
        judgements,
        tie_policy=settings.ties,
        strict=settings.strict,
        depth=max(measure.depth for measure in measures),
    )
    run = replace(run, report=replace(run.report, name=source.name))
    # The facts of a run in memory may be complete only now.
    sidecar = opened.sidecar
    missing, index = run.missing, judgements.index
    if sidecar.run_sha256 == run.report.digest:  # It explains queries without passages.
        missing[[index[query] for query in sidecar.without_passages if query in index]] = False
    if settings.missing == "error" and missing.any():
        ids = [judgements.query_ids[position] for position in np.flatnonzero(missing)]
        finding = Finding(
            "missing-query",
            f"{len(ids)} of {len(judgements)} test queries are not in it: {first_few(ids)}",
            fix="run the system on all test queries, or choose --missing zero or --missing skip",
        )
        raise RunError(f"the run {run.report.name} is incomplete:", [finding])
    if len(judgements) and missing.all():
        raise _no_query_error(run)
    remarks = tuple(_warnings_about(run, measures))
    if settings.strict and remarks:
        raise RunError(
            "the run has warnings, and --strict treats them as errors:",
            [Finding("odd-run", remark, run.report.name) for remark in remarks],
        )
    if empty := int(np.count_nonzero(run.missing & ~missing)):
        counted = f"{empty:,} of {len(judgements):,} queries"
        remarks += (f"nothing was retrieved for {counted}, by the sidecar; they count 0",)
    tied = np.zeros(len(judgements), np.bool_)
    tied[run.hits.query[run.hits.tied > 1]] = True
    versions = [run, run.with_ties("best"), run.with_ties("worst")]
    values = {measure.name: measure.compute(versions) for measure in measures}
    scores, best, worst = (
        {name: of_versions[place] for name, of_versions in values.items()} for place in range(3)
    )
    values_by_order = scores, best, worst
    return ScoredRun(
        run.report, missing, tied, *values_by_order, remarks, sidecar, run.digests, run.own_first
    )


def _warnings_about(run: JudgedRun, measures: Sequence[Measure]) -> Iterator[str]:
    """Yield warnings about a run: too few passages per query, or no relevant passage.

    None if it has fewer than `FEWEST_ANSWERED` queries.

    Raises:
        RunError: if no relevant passage is found because ids lost their leading zeros.
    """
    answered = int(np.count_nonzero(~run.missing))
    if answered < FEWEST_ANSWERED:
        return
    if not len(run.hits.query):
        _check_ids(run)
        yield f"no relevant passage is retrieved for any of its {answered:,} queries"
    depth = int(run.retrieved.max(initial=0))
    highest = int(run.judgements.relevant.gain.max(initial=0))
    for measure in measures:
        level = re.search(r"\brel=(\d+)", measure.name)
        if level and 0 < highest < int(level[1]):
            yield f"{measure.name} is 0: no passage has a judgement above {highest}"
        cutoff = re.search(r"@(\d+)$", measure.name)
        if cutoff and 0 < depth < int(cutoff[1]):
            yield f"{measure.name} needs more passages: no ranking has more than {depth:,}"


def _check_ids(run: JudgedRun) -> None:
    """Raise `RunError` if the run's ids differ from judged ids only by leading zeros or ".0"."""
    judged = {doc for docs in run.judgements.judged.values() for doc in docs}
    bare = {_without_zeros(doc): doc for doc in judged}
    retrieved = [doc for docs in run.sample for doc in docs.cast("string").to_pylist()]
    lost = next((doc for doc in retrieved if _without_zeros(doc) in bare), None)
    if lost is not None and judged.isdisjoint(retrieved):
        finding = Finding(
            "ids-changed",
            f"passage ids in the run are like {lost}, in the judgements like "
            f"{bare[_without_zeros(lost)]}",
            run.report.name,
            fix=_TEXT_IDS,
        )
        raise RunError("run and test set do not belong together:", [finding])


def _without_zeros(name: str) -> str:
    """Return an id without leading zeros and without ".0", as spreadsheets change ids."""
    return name.removesuffix(".0").lstrip("0")


def _no_query_error(run: JudgedRun) -> RunError:
    query_ids = run.judgements.query_ids
    strangers = [query_id.decode() for query_id in run.unknown_queries]
    known = (
        "the test queries of the shift's other groups"
        if strangers and run.judgements.ignored_ids.issuperset(strangers)
        else known_test_set(run.unknown_queries)
    )
    bare = set(map(_without_zeros, query_ids))
    finding = Finding(
        "no-query-answered",
        f"it contains none of the {len(query_ids):,} queries of the test set "
        f"({first_few(query_ids)}); it contains {run.report.extra_queries:,} others "
        f"({first_few(strangers)})" + (f", which look like {known}" if known else ""),
        run.report.name,
        fix=_TEXT_IDS
        if bare & set(map(_without_zeros, strangers))
        else "score the run on the test set that it was made for",
    )
    return RunError("run and test set do not belong together:", [finding])


def identical_runs(runs: Iterable[ScoredRun]) -> Iterator[tuple[ScoredRun, ScoredRun]]:
    """Yield pairs of runs with the same rankings: the first such run, and a later one.

    Tags, file names and score values do not change a ranking. Rounding of scores may add ties. So
    runs that differ only in ties also count, if at least 99% of queries have equal measures.
    """
    different: list[ScoredRun] = []
    for run in runs:
        first = next((earlier for earlier in different if _is_same(run, earlier)), None)
        if first is None:
            different.append(run)
        else:
            yield first, run


def _is_same(run: ScoredRun, earlier: ScoredRun) -> bool:
    """Return whether two runs have the same rankings, apart from ties in one of them."""
    if run.report.ranking == earlier.report.ranking or not (run.digests and earlier.digests):
        return run.report.ranking == earlier.report.ranking
    return run.digests.equal_but_for_ties(earlier.digests) and all(
        np.mean((values != earlier.scores[measure]) & ~np.isnan(values)) <= _MOST_DIFFERING
        for measure, values in run.scores.items()
    )


def judgements_of(test_set: TestSet) -> Judgements:
    """Return the compiled judgements of a test set."""
    return Judgements(
        test_set.judged,
        relevant_only=test_set.relevant_only,
        ignored_ids=test_set.ignored_ids,
        excluded=test_set.excluded,
    )


def positions_of(groups: Mapping[str, Sequence[str]], judgements: Judgements) -> dict[str, Ints]:
    """Return group -> the positions of its queries in `Judgements.query_ids`."""
    index = judgements.index
    return {
        group: np.array([index[query_id] for query_id in ids], np.int64)
        for group, ids in groups.items()
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scores(SystemNames):
    """One system's scores on one test set: a cube of model, seed and query for every measure.

    Attributes:
        system: as in `SystemNames`, like `shift`, `runs` and `test`.
        query_ids: the queries of the test set, each once.
        groups: group -> positions of its queries in `query_ids`; a query may be in several.
        missing_files: ``(seed, held-out group)`` of the missing run files.
        states: model -> group -> whether it trained on the group's queries; for other models, see
            `states_of`.
        source: the source of stored scores, as text; "" for scores of opened runs.
    """

    system: str
    shift: Shift | None
    query_ids: tuple[str, ...]
    groups: Mapping[str, Ints]
    runs: Mapping[Model, ScoredRun]
    test: str = ""
    missing_files: tuple[tuple[int | None, str], ...] = field(default=())
    states: Mapping[str, Mapping[str, GroupState]] = field(default_factory=dict)
    source: str = ""

    def __repr__(self) -> str:
        place = self.test or self.shift_name
        size = f"{len(self.runs)} runs, {len(self.query_ids):,} queries"
        return f"<Scores: {self.system} on {place}, {size}>"

    @property
    def models(self) -> list[str]:
        """The models: each is its held-out group, or `FOR_ALL`."""
        return list(dict.fromkeys(model for model, _ in self.runs))

    @property
    def seeds(self) -> list[int | None]:
        """The seeds of the replicates; ``[None]`` for runs without seed."""
        return list(dict.fromkeys(seed for _, seed in self.runs))

    @property
    def complete_models(self) -> list[str]:
        """The models with a run for every seed, so that all seeds average the same models."""
        return [m for m in self.models if all((m, seed) in self.runs for seed in self.seeds)]

    @property
    def missing_runs(self) -> list[str]:
        """The missing run files as text: the held-out group and, if known, the seed."""
        return [
            group + ("" if seed is None else f" (seed {seed})")
            for seed, group in self.missing_files
        ]

    @property
    def replicates(self) -> int | None:
        """The number of seeds, 1 without seed; `None` for one model for all groups without seed."""
        return len(self.seeds) if self.trained_per_group or self.seeds != [None] else None

    @property
    def training(self) -> str:
        """Key of the training, see `Estimate.mean`; `FIXED` if `replicates` is `None`."""
        return FIXED if self.replicates is None else self.system

    def ids_of(self, group: str) -> tuple[str, ...]:
        """Return the ids of a group's queries."""
        return tuple(self.query_ids[position] for position in self.groups[group])

    def counted(self, missing: str, others: Iterable[Scores] = ()) -> dict[str, Ints]:
        """Return group -> positions of its queries that count, perhaps none.

        Args:
            missing: the policy for missing queries; with ``skip``, a query missing from a run does
                not count.
            others: other scores on the same test set, whose missing queries do not count either.
        """
        if missing != "skip":
            return dict(self.groups)
        runs = (run for part in (self, *others) for run in part.runs.values())
        answered = np.all([~run.missing for run in runs], axis=0)
        return {group: queries[answered[queries]] for group, queries in self.groups.items()}

    def of(self, measure: str, models: Sequence[str], queries: Ints) -> Floats:
        """Return the mean over models of the scores of some queries, ``[seeds, queries]``.

        Only seeds with a run of each model are included.

        Args:
            measure: the name of a measure of the scores.
            models: one of `models`, or several of `complete_models`.
            queries: positions of the queries.
        """
        seeds = [seed for seed in self.seeds if all((model, seed) in self.runs for model in models)]
        cube = [
            [self.runs[model, seed].scores[measure][queries] for model in models] for seed in seeds
        ]
        return np.asarray(np.array(cube, np.float64).mean(axis=1))

    def models_by_side(self, group: str) -> Sides[list[str]] | None:
        """Return the complete models trained with a group, and the model trained without it.

        `None` if either side has no complete model, as for one model for all groups.
        """
        if self.shift is None:
            return None
        unseen, models = self.shift.out_model(group), self.complete_models
        saw = [model for model in models if model != unseen]
        return Sides(saw, [unseen]) if saw and unseen in models else None

    def sides(self, measure: str, group: str, queries: Ints) -> Sides[Floats] | None:
        """Return the average scores of a group's in-domain models, and of its held-out model.

        Both are ``[seeds, queries]``. For one model for all groups they are the same object. `None`
        if `models_by_side` is `None`.

        Args:
            measure: the measure's name.
            group: the group.
            queries: positions of its queries that count.
        """
        if not self.trained_per_group:
            scores = self.of(measure, [FOR_ALL], queries)
            return Sides(scores, scores)
        models = self.models_by_side(group)
        return models and Sides(
            self.of(measure, models.inside, queries), self.of(measure, models.out, queries)
        )

    def restricted_to(self, query_ids: Iterable[str]) -> Scores:
        """Return the scores with only some queries in `groups`, without groups that get empty."""
        wanted = frozenset(query_ids)
        keep = np.array([query_id in wanted for query_id in self.query_ids], np.bool_)
        groups = {group: queries[keep[queries]] for group, queries in self.groups.items()}
        return replace(self, groups={g: queries for g, queries in groups.items() if queries.size})

    def matched_to(self, other: Scores) -> Scores:
        """Return these stored scores with the queries in the order of `other`.

        In the result, `ScoredRun.best` and `ScoredRun.worst` equal `ScoredRun.scores`.

        Args:
            other: scores on the same test sets.

        Raises:
            DataError: if the queries differ; with a finding for each group.
        """
        findings = []
        for group in dict.fromkeys((*other.groups, *self.groups)):
            stored, at_hand = (
                set(part.ids_of(group)) if group in part.groups else set[str]()
                for part in (self, other)
            )
            if stored != at_hand:
                first, second = (
                    f"{len(ids):,} queries of {group} (digest {digest_of_test_sets({group: ids})})"
                    for ids in (stored, at_hand)
                )
                findings.append(
                    Finding(
                        "other-queries",
                        f"{self.system} was scored on {first}, but the data set has {second}; "
                        f"{len(stored & at_hand):,} queries are in both",
                        self.place,
                        fix="give the data set of its test queries (--data), or other shifts "
                        "(--shift)",
                    )
                )
        if findings:
            raise DataError("scores are of other test queries:", findings)
        index = {query_id: position for position, query_id in enumerate(self.query_ids)}
        take = np.array([index[query_id] for query_id in other.query_ids], np.int64)
        runs = {}
        for model, run in self.runs.items():
            scores = {measure: values[take] for measure, values in run.scores.items()}
            runs[model] = replace(
                run,
                missing=run.missing[take],
                tied=run.tied[take],
                scores=scores,
                best=scores,
                worst=scores,
            )
        return replace(self, query_ids=other.query_ids, groups=other.groups, runs=runs)

    def states_of(self, model: str) -> dict[str, GroupState]:
        """Return group -> whether a model trained on its queries; see `group_states`.

        The sidecars of a model for all groups name its training queries; if they differ between
        seeds, the states are ``unknown``. Without a shift there are no groups.
        """
        if model in self.states:
            return dict(self.states[model])
        sidecars = [run.sidecar for (name, _), run in self.runs.items() if name == model]
        known = {sidecar.training_queries for sidecar in sidecars}
        training = OWN_SPLIT if model != FOR_ALL else known.pop() if len(known) == 1 else ""
        return {} if self.shift is None else group_states(self.shift, model, training)

    def run_facts(self) -> list[dict[str, Any]]:
        """Return the report of each run file, with its system, model and missing queries.

        ``groups`` contains whether the model trained on queries of each group.
        """
        names = {"system": self.system, "shift": self.shift_name}
        return [
            {
                **names,
                "test": self.test,
                "model": model,
                "seed": seed,
                "groups": self.states_of(model),
                "missing_queries": int(run.missing.sum()),
                "tied_queries": int(run.tied.sum()),
                **plain(run.report),
            }
            for (model, seed), run in self.runs.items()
        ]


def counted_by_all(scores: Sequence[Scores], missing: str) -> dict[str, Ints]:
    """Return group -> positions of its queries that count for all compared scores.

    Args:
        scores: the scores of one or several systems, or of runs, on the same test set.
        missing: the policy for missing queries.

    Raises:
        DataError: if no query of a group is in all runs.
    """
    counted = scores[0].counted(missing, scores[1:])
    for group, queries in counted.items():
        if not queries.size and len(scores) == 1:
            raise DataError(f"{scores[0].system}: every test query of {group} is missing")
        if not queries.size:
            raise DataError(f"no test query of {group} is in all runs")
    return counted


def check_means(measures: Iterable[Measure]) -> None:
    """Check that measures are means over the same queries for all models, as Avg In and Out are.

    Raises:
        UsageError: if a measure is a sum, or leaves out different queries for each model.
    """
    for measure in measures:
        why = "is a sum over queries, not a mean" if measure.aggregate == "sum" else ""
        if measure.partial and not why:
            why = "leaves out queries without a value, different ones for each model"
        if why:
            raise UsageError(
                f"{measure} {why}, so that it gives no Avg In, no Out and no comparison; score run "
                "files one by one, with 'msshift score'"
            )


def check_stored(stored: Scores, settings: Settings) -> None:
    """Check that stored scores can be compared with scores of runs.

    Raises:
        UsageError: if a measure is not stored, or the tie policy or exclusions differ.
    """
    if settings.ties != Settings().ties or settings.exclude:
        raise UsageError(
            f"stored scores break ties by {Settings().ties!r} and exclude no passage; leave --ties "
            "and --exclude out, or give the system's runs"
        )
    measures = [*next(iter(stored.runs.values())).scores]
    if lacking := [part.name for part in settings.measures if part.name not in measures]:
        raise UsageError(
            f"{stored.system} stores no scores by {', '.join(lacking)}; choose among its measures: "
            f"--measures {' '.join(measures)!r}"
        )


def check_labels(tested: Collection[str], labels: Mapping[str, object]) -> None:
    """Check that `labels`, query_id -> label, are of test queries.

    Raises:
        DataError: if no test query has a label.
    """
    if labels.keys().isdisjoint(tested):
        labelled = first_few(map(str, labels)) or "no query"
        raise DataError(
            f"none of the {len(tested):,} test queries has a label ({first_few(tested)}); the "
            f"labels are for {labelled}"
        )


def slice_scores(
    scores: Scores, labels: Mapping[str, str], missing: str = "zero"
) -> dict[str, Scores]:
    """Return label -> the scores of the test queries with that label, labels sorted.

    Queries without a label have the label `OTHERS`. Groups and labels without a query that counts
    are dropped.

    Args:
        scores: the system's per-query scores.
        labels: query_id -> label.
        missing: the policy for missing queries; with ``skip``, a query missing from a run does not
            count.
    """
    label_of = {query_id: labels.get(query_id, OTHERS) for query_id in scores.query_ids}
    slices = {}
    for label in sorted(set(label_of.values())):
        part = scores.restricted_to(name for name, of in label_of.items() if of == label)
        groups = {g: part.groups[g] for g, counted in part.counted(missing).items() if counted.size}
        if groups:
            slices[label] = replace(part, groups=groups)
    return slices
