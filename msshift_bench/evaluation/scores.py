"""Scores: what every model of a system scores for every query, before anything is averaged.

A run file becomes a `ScoredRun`. Those of one system on one test set make a cube of model, seed and
query, from which every figure is computed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import TestSet
from msshift_bench.errors import DataError, Finding, RunError, UsageError, first_few
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import plain
from msshift_bench.records import OTHERS
from msshift_bench.runs import (
    FOR_ALL,
    JudgedRun,
    Judgements,
    Model,
    RunReport,
    Sidecar,
    judge_run,
    read_run,
)
from msshift_bench.shifts import Shift

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
"""Name -> the smallest digests of the ids of its 6,980, 43 and 54 judged queries."""


def looks_like(query_ids: Collection[bytes]) -> str:
    """Return the known set that the ids hold, except perhaps for a few; ``""`` for none.

    Args:
        query_ids: in UTF-8.
    """
    id_digests = {hashlib.sha256(query_id).hexdigest()[:12] for query_id in query_ids}
    names = [
        name
        for name, digests in KNOWN.items()
        if len(id_digests.intersection(digests)) >= len(digests) - 1
    ]
    return " and ".join(f"{name}'s queries" for name in names)


FEWEST_ANSWERED = 20
"""Queries of a run about which something can be said: some of so many find a passage."""

_MOST_DIFFERING = 0.01
"""The share of queries that one ranking may score otherwise where its scores were rounded."""

_OTHER_TEST_SET = "score the run on the test set that it was made for"
_TEXT_IDS = (
    "its ids lost or gained zeros, as where a program reads ids as numbers; write them as text"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoredRun:
    """One run's scores for every query of a test set.

    Attributes:
        report: what was read.
        missing: mask of the queries that the run lacks, ``[queries]``, without those for which
            nothing was retrieved, as its sidecar says.
        tied: mask of the queries where a tie touches a relevant document, ``[queries]``.
        scores: measure -> per-query scores under the tie policy, ``[queries]``; NaN where the
            measure has no value.
        best: measure -> scores with every tie broken for the relevant documents.
        worst: measure -> scores with every tie broken against them.
        remarks: why its scores may not be what they seem.
    """

    report: RunReport
    missing: NDArray[np.bool_]
    tied: NDArray[np.bool_]
    scores: Mapping[str, Floats]
    best: Mapping[str, Floats]
    worst: Mapping[str, Floats]
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        measures = ", ".join(self.scores)
        return f"<ScoredRun: {self.report.name}, {measures}, {len(self.missing):,} queries>"


def score_run(source: object, judgements: Judgements, settings: Settings) -> ScoredRun:
    """Read a run and score every query of the test set.

    Args:
        source: what `read_run` takes: a path, ``-``, a mapping of mappings, a data frame, an
            iterable of records.
        judgements: the test set.
        settings: measures, tie policy, policy for missing queries.

    Raises:
        RunError: if the run is malformed, answers no query of the test set, its ids lost their
            leading zeros, or queries are missing and that is an error; under ``strict`` for every
            remark.
        NotFoundError: if the file does not exist.
        UsageError: if a measure reads judgements that the test set does not hold.
    """
    measures = settings.measures
    for measure in measures:
        if judgements.relevant_only and measure.reads_nonrelevant:
            raise UsageError(
                f"{measure.name} reads the passages that were judged not relevant, and a built "
                "data set holds only relevant ones; score the run with --qrels FILE"
            )
    run = judge_run(
        source,
        judgements,
        tie_policy=settings.ties,
        format=settings.run_format,
        strict=settings.strict,
    )
    missing = _missing(run)
    if settings.missing == "error" and missing.any():
        ids = [judgements.query_ids[position] for position in np.flatnonzero(missing)]
        finding = Finding(
            "missing-query",
            f"{len(ids)} of {len(judgements)} test queries are not in it: {first_few(ids)}",
            fix="run the system on all test queries, or choose --missing zero or --missing skip",
        )
        raise RunError(f"the run {run.report.name} is incomplete:", [finding])
    if len(judgements) and missing.all():
        raise _nothing_answered(run)
    remarks = tuple(_remarks_about(run, measures))
    if settings.strict and remarks:
        findings = [Finding("odd-run", remark, run.report.name) for remark in remarks]
        raise RunError("the run is odd, and --strict refuses that:", findings)
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
    return ScoredRun(run.report, missing, tied, scores, best, worst, remarks)


def _missing(run: JudgedRun) -> NDArray[np.bool_]:
    """Return the mask of the queries that were not asked, as far as the sidecar says."""
    missing, index = run.missing, run.judgements.index
    sidecar = Sidecar.of(Path(run.report.name))
    if sidecar.run_sha256 == run.report.digest:
        missing[[index[query] for query in sidecar.without_passages if query in index]] = False
    return missing


def _remarks_about(run: JudgedRun, measures: Sequence[Measure]) -> Iterator[str]:
    """Yield why the scores of a run may not be what they seem: what is shallow, or finds nothing.

    Raises:
        RunError: if no passage is found because ids lost their leading zeros.
    """
    answered = int(np.count_nonzero(~run.missing))
    if answered < FEWEST_ANSWERED:
        return
    if not len(run.hits.query):
        _check_ids(run)
        yield f"no relevant passage is among those of any of its {answered:,} queries"
    depth = int(run.retrieved.max(initial=0))
    highest = int(run.judgements.relevant.gain.max(initial=0))
    for measure in measures:
        level = re.search(r"\brel=(\d+)", measure.name)
        if level and 0 < highest < int(level[1]):
            yield f"{measure.name} finds nothing: no passage is judged above {highest}"
        cutoff = re.search(r"@(\d+)$", measure.name)
        if cutoff and 0 < depth < int(cutoff[1]):
            yield f"{measure.name} counts no passage behind rank {depth:,}: no ranking is longer"


def _check_ids(run: JudgedRun) -> None:
    """Raise if ids of a run that finds nothing would be judged ones but for zeros, or ".0"."""
    if run.reread is None:
        return
    judged = {doc for docs in run.judgements.judged.values() for doc in docs}
    bare = {_bare(doc): doc for doc in judged}
    retrieved = [doc for _, ranking in run.reread() for doc, _, _ in ranking]
    lost = next((doc for doc in retrieved if _bare(doc) in bare), None)
    if lost is not None and judged.isdisjoint(retrieved):
        finding = Finding(
            "ids-changed",
            f"its passages are written like {lost}, the judged ones like {bare[_bare(lost)]}",
            run.report.name,
            fix=_TEXT_IDS,
        )
        raise RunError("run and test set do not belong together:", [finding])


def _bare(name: str) -> str:
    """Return an id as a program that takes it for a number might write it."""
    return name.removesuffix(".0").lstrip("0")


def _nothing_answered(run: JudgedRun) -> RunError:
    """Return the error for a run that answers no query of the test set."""
    query_ids = run.judgements.query_ids
    strangers = [query_id.decode() for query_id in run.unknown_queries]
    of_shift = bool(strangers) and run.judgements.elsewhere.issuperset(strangers)
    known = (
        "the test queries of the shift's other groups"
        if of_shift
        else looks_like(run.unknown_queries)
    )
    bare = set(map(_bare, query_ids))
    finding = Finding(
        "no-query-answered",
        f"it answers none of the {len(query_ids):,} queries of the test set "
        f"({first_few(query_ids)}); it holds {run.report.extra_queries:,} others "
        f"({first_few(strangers)})" + (f", which look like {known}" if known else ""),
        run.report.name,
        fix=_TEXT_IDS if bare & set(map(_bare, strangers)) else _OTHER_TEST_SET,
    )
    return RunError("run and test set do not belong together:", [finding])


def identical_runs(runs: Iterable[ScoredRun]) -> Iterator[tuple[ScoredRun, ScoredRun]]:
    """Yield pairs of runs that hold the same rankings, the earlier first.

    Another tag, another file and other scores change no ranking. Scores that were rounded may tie
    what was apart: where nearly every query scores alike, files are read again.
    """
    different: list[ScoredRun] = []
    for run in runs:
        first = next((earlier for earlier in different if _is_same(run, earlier)), None)
        if first is None:
            different.append(run)
        else:
            yield first, run


def _is_same(run: ScoredRun, earlier: ScoredRun) -> bool:
    """Whether two runs rank the same passages alike, but for ties of one of them."""
    if run.report.ranking == earlier.report.ranking:
        return True
    files = [Path(scored.report.name) for scored in (run, earlier)]
    is_near = all(
        np.mean((values != earlier.scores[measure]) & ~np.isnan(values)) <= _MOST_DIFFERING
        for measure, values in run.scores.items()
    )
    return is_near and all(map(Path.is_file, files)) and _ranks_alike(*map(read_run, files))


def _ranks_alike(
    run: Mapping[str, Mapping[str, float]], earlier: Mapping[str, Mapping[str, float]]
) -> bool:
    """Whether runs of the same passages order no two of a query differently, and few tie."""
    held, held_earlier = ({q: set(docs) for q, docs in part.items()} for part in (run, earlier))
    if held != held_earlier:
        return False
    tied, documents = np.zeros(2), 0
    for query, scores in run.items():
        pairs = sorted((score, earlier[query][doc]) for doc, score in scores.items())
        if any(later < sooner for (_, sooner), (_, later) in pairwise(pairs)):
            return False
        tied += [len(pairs) - len(set(column)) for column in zip(*pairs, strict=True)]
        documents += len(pairs)
    return bool(tied.max() * 2 < documents)


def judgements_of(test_set: TestSet) -> Judgements:
    """Return the judgements of a test set, as runs are judged by them."""
    return Judgements(
        test_set.judged, relevant_only=test_set.relevant_only, elsewhere=test_set.elsewhere
    )


def positions_of(groups: Mapping[str, Sequence[str]], judgements: Judgements) -> dict[str, Ints]:
    """Return group -> the positions of its queries in a test set."""
    index = judgements.index
    return {
        group: np.array([index[query_id] for query_id in ids], np.int64)
        for group, ids in groups.items()
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scores:
    """One system's scores on one test set: a cube of model, seed and query for every measure.

    Attributes:
        system: the system's name, or the run's.
        shift: the shift that its models were trained for; `None` for single runs.
        query_ids: the queries of the test set, each once.
        groups: group -> positions of its queries in `query_ids`; a query may stand in several.
        runs: model -> its scored run; see `runs.Model`.
        test: the name of the test set; "" for the shift's own.
        missing_files: ``(seed, held-out group)`` of the run files that are not there.
    """

    system: str
    shift: Shift | None
    query_ids: tuple[str, ...]
    groups: Mapping[str, Ints]
    runs: Mapping[Model, ScoredRun]
    test: str = ""
    missing_files: tuple[tuple[int | None, str], ...] = field(default=())

    def __repr__(self) -> str:
        place = self.test or self.shift_name
        size = f"{len(self.runs)} runs, {len(self.query_ids):,} queries"
        return f"<Scores: {self.system} on {place}, {size}>"

    @property
    def shift_name(self) -> str:
        """The name of the shift; "" for single runs."""
        return "" if self.shift is None else self.shift.name

    @property
    def place(self) -> str:
        """What it is called in doubts: its system, with its test set and shift if there are any."""
        if self.test:
            return f"{self.system} on {self.test} ({self.shift_name})"
        return f"{self.system}/{self.shift_name}" if self.shift else self.system

    @property
    def files(self) -> list[Path]:
        """The run files, as far as the runs are files."""
        return [Path(run.report.name) for run in self.runs.values()]

    @property
    def models(self) -> list[str]:
        """The models: the groups that they were trained without, or `FOR_ALL`."""
        return list(dict.fromkeys(model for model, _ in self.runs))

    @property
    def seeds(self) -> list[int | None]:
        """The seeds of the replicates; ``[None]`` where there is only one."""
        return list(dict.fromkeys(seed for _, seed in self.runs))

    @property
    def complete_models(self) -> list[str]:
        """The models that every seed has, so that all seeds are means over the same models."""
        return [m for m in self.models if all((m, seed) in self.runs for seed in self.seeds)]

    @property
    def missing_runs(self) -> list[str]:
        """The missing run files in words: the held-out group, with the seed if there is one."""
        return [
            group + ("" if seed is None else f" (seed {seed})")
            for seed, group in self.missing_files
        ]

    @property
    def trained_per_group(self) -> bool:
        """Whether there is a model that was trained without a group."""
        return self.models != [FOR_ALL]

    @property
    def replicates(self) -> int | None:
        """The number of seeds; `None` if it was not trained per group."""
        return len(self.seeds) if self.trained_per_group else None

    def ids_of(self, group: str) -> tuple[str, ...]:
        """Return the ids of a group's queries."""
        return tuple(self.query_ids[position] for position in self.groups[group])

    def counted(self, missing: str, others: Iterable[Scores] = ()) -> dict[str, Ints]:
        """Return group -> positions of those of its queries that count.

        Args:
            missing: the policy for missing queries; with ``skip``, queries that a run lacks do not
                count.
            others: other scores on the same test set, whose runs must hold the queries, too.
        """
        if missing != "skip":
            return dict(self.groups)
        runs = (run for part in (self, *others) for run in part.runs.values())
        answered = np.all([~run.missing for run in runs], axis=0)
        return {group: queries[answered[queries]] for group, queries in self.groups.items()}

    def of(self, measure: str, models: Sequence[str], queries: Ints) -> Floats:
        """Return the mean over models of the scores of some queries, ``[seeds, queries]``.

        Args:
            measure: the name of one of the measures that the runs were scored by.
            models: some of `models`; with several, of `complete_models`.
            queries: positions of the queries.
        """
        seeds = [seed for seed in self.seeds if all((model, seed) in self.runs for model in models)]
        cube = [
            [self.runs[model, seed].scores[measure][queries] for model in models] for seed in seeds
        ]
        return np.asarray(np.array(cube, np.float64).mean(axis=1))

    def sides(self, measure: str, group: str, queries: Ints) -> tuple[Floats, Floats] | None:
        """Return the scores of a group's in-domain models, on average, and of its held-out model.

        Both are ``[seeds, queries]``. Of a system that is one ranking for all groups they are the
        same; `None` without a run of the held-out model, or of any other.

        Args:
            measure: the measure's name.
            group: the group.
            queries: positions of those of its queries that count.
        """
        if not self.trained_per_group:
            scores = self.of(measure, [FOR_ALL], queries)
            return scores, scores
        assert self.shift is not None
        unseen, models = self.shift.unseen_by(group), self.complete_models
        saw = [model for model in models if model != unseen]
        if unseen not in models or not saw:
            return None
        return self.of(measure, saw, queries), self.of(measure, [unseen], queries)

    def restricted_to(self, query_ids: Iterable[str]) -> Scores:
        """Return the same scores for some of the queries; groups left empty are dropped."""
        wanted = frozenset(query_ids)
        keep = np.array([query_id in wanted for query_id in self.query_ids], np.bool_)
        groups = {group: queries[keep[queries]] for group, queries in self.groups.items()}
        return replace(self, groups={g: queries for g, queries in groups.items() if queries.size})

    def run_facts(self) -> list[dict[str, Any]]:
        """Return what was read of each run file, with its system, model and missing queries."""
        names = {"system": self.system, "shift": self.shift_name}
        return [
            {
                **names,
                "test": self.test,
                "model": model,
                "seed": seed,
                "missing_queries": int(run.missing.sum()),
                "tied_queries": int(run.tied.sum()),
                **plain(run.report),
            }
            for (model, seed), run in self.runs.items()
        ]


def counted_by_all(scores: Sequence[Scores], missing: str) -> dict[str, Ints]:
    """Return the queries of each group that count: they are the same for all that is compared.

    Args:
        scores: the scores of one or several systems, or of runs, on the same test set.
        missing: the policy for missing queries.

    Raises:
        DataError: if there is no query of a group that all runs hold.
    """
    counted = scores[0].counted(missing, scores[1:])
    for group, queries in counted.items():
        if not queries.size and len(scores) == 1:
            raise DataError(f"{scores[0].system}: every test query of {group} is missing")
        if not queries.size:
            raise DataError(f"there is no test query of {group} that all runs hold")
    return counted


def check_is_mean(measure: Measure) -> None:
    """Check that a measure has Avg In and Out, which are means of the same queries for all models.

    Raises:
        UsageError: if it is a sum, or leaves out other queries for each model.
    """
    if measure.aggregate == "sum":
        why = "is a sum over queries, not a mean"
    elif measure.partial:
        why = "leaves out the queries that it has no value for, others for each model"
    else:
        return
    raise UsageError(
        f"{measure} {why}, so that run sets have no Avg In and Out in it, and runs cannot be "
        "compared by it; score run files one by one, with 'msshift score'"
    )


def slice_scores(
    scores: Scores, labels: Mapping[str, str], missing: str = "zero"
) -> dict[str, Scores]:
    """Return label -> the scores of the test queries with that label, labels sorted.

    Queries without a label have the label `OTHERS`. Groups without a query that counts are dropped,
    and so are labels without one.

    Args:
        scores: the system's per-query scores.
        labels: query_id -> label.
        missing: the policy for missing queries; with ``skip``, queries that a run lacks do not
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
