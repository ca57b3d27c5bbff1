"""Checks that runs and data belong together, before figures are made from them.

A number from runs and data that do not fit together is worse than an error: each check refuses
them, unless the caller allows it by name (`ALLOWANCES`). What is allowed leaves a doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.data import DataInfo, Dataset, TestSet
from msshift_bench.errors import Finding, RunError, UnknownNameError
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scores import (
    FEWEST_ANSWERED,
    ScoredRun,
    Scores,
    first_ids,
    looks_like,
)
from msshift_bench.evaluation.trained_queries import TrainedQueries, count_trained
from msshift_bench.runs import RunReport, RunSet, Sidecar, read_run
from msshift_bench.shifts import Shift

__all__ = ["ALLOWANCES", "COMPARED_RUNS", "Checks", "identical_doubts"]

ALLOWANCES: Mapping[str, str] = MappingProxyType(
    {
        "partial": "compute what can be computed where run files, or queries of them, are missing",
        "identical": "accept the same run under two models of a system",
        "leaked": "score a model on queries that it was trained on",
        "other-data": "score runs whose sidecars name other data, or different passages",
    }
)
"""What a caller may allow: name -> its meaning."""

COMPARED_RUNS = "runs that are compared"

FEW_MISSING = 0.05
"""The share of a group's test queries that runs may lack without a doubt."""


MOST_MISSING = 0.1
"""The share that they may lack, and count 0, of a group of `FEWEST_ANSWERED` or more."""

_MOST_DIFFERING = 0.01
"""The share of queries that one ranking may score otherwise where its scores were rounded."""

_COUNTS_ALL = re.compile(r"^(AP|P|R|RR|Rprec|Success)(@\d+)?$")
"""Measures for which a passage is relevant or not; ir_measures has them with ``rel``, too."""

_Rankings = Mapping[str, Mapping[str, float]]


class Checks:
    """The checks of one call; each sidecar is read once.

    Args:
        data: the data at hand; without a digest, as of qrels, no run can be of other data.
        allow: some of `ALLOWANCES`.

    Attributes:
        doubts: what was allowed, and what is odd and no reason to refuse.
        training_data: the data set that models were trained on; `None` if none is at hand.
        trained: what was counted of test queries among training queries, by test set, shift and
            model; `None` where its training queries are not known.

    Raises:
        UnknownNameError: for another allowance.
    """

    def __init__(self, data: DataInfo | None = None, allow: Collection[str] = ()) -> None:
        for name in allow:
            if name not in ALLOWANCES:
                raise UnknownNameError("allowance", name, ALLOWANCES)
        self.data = data or DataInfo()
        self.allow = frozenset(allow)
        self.doubts: list[str] = []
        self.training_data: Dataset | None = None
        self.trained: dict[tuple[str, str, str], TrainedQueries | None] = {}
        self._sidecars: dict[Path, Sidecar] = {}

    def sidecar(self, run: Path) -> Sidecar:
        """Return what the sidecar of a run says."""
        if run not in self._sidecars:
            self._sidecars[run] = Sidecar.of(run)
        return self._sidecars[run]

    def check_data(self, runs: Iterable[Path]) -> None:
        """Check that runs were made on the data at hand, as far as sidecars name their data.

        Raises:
            RunError: if a run was made on other data, or its sidecar cannot be read.
        """
        if not self.data.content_digest:
            return
        at_hand = self.data.content_digest[:12]
        findings, doubts = [], []
        for run in runs:
            sidecar = self.sidecar(run)
            if not sidecar.is_sound:
                findings.append(sidecar.unsound())
            if sidecar.data in ("", self.data.content_digest):
                continue
            made_on = sidecar.data[:12]
            if "other-data" in self.allow:
                doubts.append(
                    f"{run} was made on other data: {made_on}, not {at_hand} (--allow other-data)"
                )
                continue
            message = f"{run.name} was made on the data set {made_on}, and this one is {at_hand}"
            fix = "give the data set that it was made on (--data), make the run again, or go on "
            fix += "with --allow other-data"
            findings.append(Finding("other-data", message, str(sidecar.path), fix=fix))
        if findings:
            raise RunError("runs and data do not belong together:", findings)
        self.doubts += doubts

    def check_models(self, run_set: RunSet) -> None:
        """Check that each run is that of the model that its name says, as far as sidecars say.

        Two runs that changed places, each with its sidecar, would make a group's loss a gain.

        Raises:
            RunError: naming the runs that are of another shift or held-out group.
        """
        shift = run_set.shift
        expected: list[tuple[str | None, Path]] = [
            item for runs in run_set.runs.values() for item in runs.items()
        ]
        if run_set.single is not None:
            expected.append((None, run_set.single))
        findings = []
        for held_out, run in expected:
            sidecar = self.sidecar(run)
            if not sidecar.is_of(shift.name, held_out):
                of_group = held_out if sidecar.held_out == "" else sidecar.held_out
                names = sidecar.shift or shift.name, of_group
                findings.append(
                    Finding(
                        "sidecar-differs",
                        f"{run.name} is where the run of {_model_name(shift.name, held_out)} was "
                        f"expected, and this says that it is of {_model_name(*names)}",
                        str(sidecar.path),
                        fix="put the run back where it was written, or remove the sidecar if the "
                        "run is right",
                    )
                )
        if findings:
            raise RunError(f"the runs of {run_set.system} are not where they belong:", findings)

    def check_passages(
        self, runs_by_name: Iterable[tuple[str, Iterable[Path]]], whose: str = "runs of one system"
    ) -> None:
        """Check that runs that make one figure searched the same passages, as far as sidecars say.

        A data set's digest does not cover the passages: a collection that grew between two runs
        gives the one more passages to find, and a loss that is none. So do runs that are compared.

        Args:
            runs_by_name: pairs of a name and the runs of a system, of all its models, or those
                that are compared.
            whose: which runs these are, for the message.

        Raises:
            RunError: naming the runs, if there are some.
        """
        findings = []
        for name, runs in runs_by_name:
            searched: dict[str, Path] = {}
            for run in runs:
                if passages := self.sidecar(run).passages:
                    searched.setdefault(passages, run)
            if len(searched) < 2:
                continue
            (digest, first), *rest = searched.items()
            findings += [
                Finding(
                    "other-passages",
                    f"{run.name} is of the passages {passages[:12]}, and {first.name} of "
                    f"{digest[:12]}",
                    str(self.sidecar(run).path),
                    fix="make the runs again on one collection, or go on with --allow other-data",
                )
                for passages, run in rest
            ]
            if "other-data" in self.allow:
                self.doubts.append(
                    f"{name}: its runs are of {len(searched)} different collections of passages "
                    "(--allow other-data)"
                )
        if findings and "other-data" not in self.allow:
            raise RunError(f"{whose} are of different passages:", findings)

    def check_run_sets(self, run_sets: Sequence[RunSet]) -> None:
        """Check the data, the models and the passages of run sets, and that no run is missing.

        Raises:
            RunError: as `check_data`, `check_models`, `check_passages`; or naming missing runs.
        """
        self.check_data(file for run_set in run_sets for file in run_set.files)
        for run_set in run_sets:
            self.check_models(run_set)
        self.check_passages((f"{part.system}/{part.shift.name}", part.files) for part in run_sets)
        for run_set in run_sets if "partial" not in self.allow else ():
            run_set.check_complete()

    def check_queries(self, run_set: RunSet, test_set: TestSet) -> None:
        """Check that runs with sidecars were made for the queries of the test set at hand.

        Raises:
            RunError: naming those that were not, and sidecars that cannot be read.
        """
        at_hand = str(test_set.facts["queries_sha256"])
        findings = []
        for run in run_set.files:
            sidecar = self.sidecar(run)
            if not sidecar.is_sound:
                findings.append(sidecar.unsound())
            elif sidecar.queries not in ("", at_hand):
                findings.append(
                    Finding(
                        "other-queries",
                        f"{run.name} was made for queries {sidecar.queries[:12]}, and those in "
                        f"{test_set.folder} are {at_hand[:12]}",
                        str(sidecar.path),
                        fix="give the folder that it was made for, or make the run again",
                    )
                )
        if findings:
            raise RunError(
                f"runs and the test set {test_set.name} do not belong together:", findings
            )

    def check_untrained(
        self, test_set: TestSet, models: Iterable[tuple[Path, str, str | None]]
    ) -> None:
        """Check that models did not train on the queries that they are tested on.

        Args:
            test_set: the test set.
            models: of each model its run, the shift, and its held-out group or training set.

        Raises:
            RunError: naming the models that did, if that is not allowed.
        """
        findings = []
        for run, shift, model in models:
            key = test_set.name, shift, model or ""
            if not model or self.trained.get(key) is not None:  # another seed, or system
                continue
            dataset = self.training_data
            if dataset and self.sidecar(run).data not in ("", dataset.info.content_digest):
                dataset = None
            counted = count_trained(test_set, shift, model, dataset) if dataset else None
            facts = self.sidecar(run).trained_on
            if counted is None and set(facts) == set(TrainedQueries._fields):
                counted = TrainedQueries(**facts)
            self.trained[key] = counted
            if counted and counted.trained:
                message = f"{counted.counts} of the {counted.queries:,} queries of {test_set.name}:"
                message += f" {counted.ids:,} by their ids, {counted.words:,} by their words"
                fix = "leave these queries out of the test set, or go on with --allow leaked"
                findings.append(Finding("trained-on-test", message, str(run), fix=fix))
        if findings and "leaked" not in self.allow:
            raise RunError(f"models were trained on queries of {test_set.name}:", findings)
        self.doubts += [f"{finding.message} (--allow leaked)" for finding in findings]

    def check_grades(self, test_set: TestSet, measures: Iterable[Measure]) -> None:
        """Doubt measures that count every grade, where judgements have several."""
        highest = max(
            (grade for of in test_set.judged.values() for grade in of.values()), default=0
        )
        names = [measure.name for measure in measures if _COUNTS_ALL.fullmatch(measure.name)]
        if highest > 1 and names:
            stricter = " and ".join(_COUNTS_ALL.sub(r"\1(rel=2)\2", name) for name in names)
            self.doubts.append(
                f"{test_set.name}: judgements go up to {highest}; a passage is relevant from 1 on "
                f"for {' and '.join(names)}, from 2 on for {stricter}"
            )

    def check_same_models(self, name: str, plain: RunSet, changed: RunSet) -> None:
        """Check that queries and variants were ranked by the same models, as far as sidecars say.

        Raises:
            RunError: naming the runs that were not, or seeds that only one of the two has.
        """
        findings = []
        if plain.runs.keys() != changed.runs.keys() and "partial" not in self.allow:
            has, lacks = (", ".join(map(str, part.runs)) or "none" for part in (plain, changed))
            message = f"the runs on the queries have the seeds {has}, those on the variants {lacks}"
            fix = "make the missing runs, or go on with --allow partial"
            findings.append(Finding("other-seeds", message, name, fix=fix))
        pairs = [
            (runs[group], file)
            for seed, runs in plain.runs.items()
            for group, file in changed.runs.get(seed, {}).items()
            if group in runs
        ]
        if plain.single is not None and changed.single is not None:
            pairs.append((plain.single, changed.single))
        for first, second in pairs:
            sidecars = [self.sidecar(run) for run in (first, second)]
            makers = [(part.weights, part.parameters) for part in sidecars]
            if all(part.path.is_file() for part in sidecars) and makers[0] != makers[1]:
                message = "its sidecar names another model or other parameters than that of "
                message += str(first)
                fix = "make both runs with the same model"
                findings.append(Finding("other-model", message, str(second), fix=fix))
        if findings:
            raise RunError(
                "runs on queries and on their variants do not belong together:", findings
            )

    def check_scores(self, scores: Scores, missing: str, *, every_group: bool = True) -> None:
        """Check that runs answer the queries of every group, and that models' runs differ.

        Args:
            scores: the scores of one system.
            missing: what a query counts that a run lacks, a key of `MISSING_POLICIES`.
            every_group: whether each group must be answered.

        Raises:
            RunError: naming the runs that answer nothing of a group, or so little that it is not
                the model which scores 0; or that are another model's.
        """
        unanswered = [
            _unanswered(run, group, [scores.query_ids[query] for query in queries])
            for run in scores.runs.values()
            for group, queries in scores.groups.items()
            if every_group and queries.size and run.missing[queries].all()
        ]
        place = scores.test or scores.shift_name or "the test set"
        if unanswered:
            raise RunError(
                f"the runs of {scores.system} and the test sets of {place} do not belong together:",
                unanswered,
            )
        incomplete = [
            _incomplete(run, group, queries)
            for run in scores.runs.values()
            for group, queries in scores.groups.items()
            if len(queries) >= FEWEST_ANSWERED and run.missing[queries].mean() > MOST_MISSING
        ]
        if incomplete and missing == "zero" and "partial" not in self.allow:
            raise RunError(f"runs of {scores.system} lack queries of {place}:", incomplete)
        if "identical" in self.allow:
            return
        models = {id(run): model for model, run in scores.runs.items()}
        findings = [
            Finding(
                "identical-runs",
                f"holds the same rankings as {first.report.name}; "
                f"{_trained(models[id(first)], scores.shift)} and "
                f"{_trained(models[id(second)], scores.shift)} gave it",
                second.report.name,
                fix="give each model's own run; if one model was trained without any group, give "
                "one file, <system>/<shift>.run; --allow identical goes on",
            )
            for first, second in _identical_runs(scores.runs.values())
            if not self._chose_alike(first, second)
        ]
        if findings:
            raise RunError(f"not every run of {scores.system} is a model's own:", findings)

    def _chose_alike(self, first: ScoredRun, second: ScoredRun) -> bool:
        """Return whether sidecars say that both models were tuned, to the same parameters."""
        choices = [self.sidecar(Path(run.report.name)).tuned for run in (first, second)]
        return choices[0] is not None and choices[0] == choices[1]

    def differ_in_start(self, first: Scores, second: Scores) -> bool:
        """Return whether two systems are one baseline from two starts, of one pre-training each.

        Such a difference counts other seeds of what came after, and no other pre-training.
        """
        sidecars = [[self.sidecar(file) for file in part.files] for part in (first, second)]
        names = {sidecar.baseline for part in sidecars for sidecar in part}
        starts = [{sidecar.start for sidecar in part} for part in sidecars]
        is_one_baseline = len(names) == 1 and "" not in names
        return is_one_baseline and starts[0] != starts[1] and min(map(len, starts)) == 1

    def doubts_about(self, scores: Scores, name: str) -> list[str]:
        """Return doubts about run files: those missing, queries they lack, sidecars of others.

        Args:
            scores: the scores of one system.
            name: how the doubts call it.
        """
        doubts = _missing_doubts(scores, name)
        lacking = {seed for seed, _ in scores.missing_files}
        if scores.missing_files and scores.shift:
            trained = scores.shift.training_of("; ".join(scores.missing_runs))
            complete_seeds = [str(seed) for seed in scores.seeds if seed not in lacking]
            seeds = " and ".join(complete_seeds)
            alone = f"seed {seeds} alone can be evaluated: move the others' folders"
            doubts.append(f"{name}: no run {trained}" + (f"; {alone}" if complete_seeds else ""))
        remarks = Counter(remark for run in scores.runs.values() for remark in run.remarks)
        for remark, count in remarks.items():
            whose = f" ({count} of {len(scores.runs)} run files)" if len(scores.runs) > 1 else ""
            doubts.append(f"{name}: {remark}{whose}")
        for run in scores.runs.values():
            sidecar = self.sidecar(Path(run.report.name))
            if sidecar.absent_passages:
                doubts.append(_absent(name, sidecar.absent_passages))
            if sidecar.run_sha256 not in ("", run.report.digest):
                doubts.append(
                    f"{sidecar.path} was written for another file than {sidecar.run}, by its "
                    "SHA-256: it does not say what made this run"
                )
        return list(dict.fromkeys(doubts))

    def doubt_collection(self, dataset: Dataset) -> None:
        """Doubt figures of a data set whose collection lacks passages that queries need."""
        known = dataset.manifest.collection
        if lacking := known.get("passages", {}).get("relevant_absent", 0):
            self.doubts.append(_absent(known["name"], lacking))

    def misfits(self, run: str, report: RunReport, query_ids: Sequence[str]) -> list[Finding]:
        """Return why a run that is well-formed cannot be scored on a test set.

        Args:
            run: the run file; "-" for standard input.
            report: what was read of it.
            query_ids: the queries of the test set.
        """
        findings: list[Finding] = []
        try:
            self.check_data([Path(run)])
        except RunError as error:
            findings += error.findings
        if query_ids and report.queries == report.extra_queries:
            message = f"it answers none of the {len(query_ids):,} queries of the test set "
            message += f"({first_ids(query_ids)})"
            fix = "score the run on the test set that it was made for"
            findings.append(Finding("no-query-answered", message, report.name, fix=fix))
        return findings


def _absent(name: str, count: int) -> str:
    return (
        f"{name}: {count:,} relevant passages are not in the collection that was searched, so that "
        "no system can find them"
    )


def _model_name(shift: object, held_out: object) -> str:
    return f"{shift}" if held_out is None else f"{shift} without {held_out}"


def _trained(model: tuple[str, int | None], shift: Shift | None) -> str:
    held_out, seed = model
    trained = f"trained {shift.training_of(held_out)}" if shift else held_out
    return f"the model {trained}" + ("" if seed is None else f" with seed {seed}")


def _unanswered(run: ScoredRun, group: str, ids: Sequence[str]) -> Finding:
    return Finding(
        "no-query-answered",
        f"answers none of the {len(ids):,} test queries of {group} ({first_ids(ids)})",
        run.report.name,
        fix="every model ranks passages for the test queries of all groups, whichever it was "
        "trained without; if the runs answer the queries of another data set, give that one "
        "(--data)",
    )


def _incomplete(run: ScoredRun, group: str, queries: Ints) -> Finding:
    lacked = int(run.missing[queries].sum())
    return Finding(
        "incomplete-run",
        f"lacks {lacked:,} of the {len(queries):,} test queries of {group}",
        run.report.name,
        fix="make the run for all of them; or --missing skip leaves them out, and --allow partial "
        "counts them 0",
    )


def _identical_runs(runs: Iterable[ScoredRun]) -> Iterator[tuple[ScoredRun, ScoredRun]]:
    """Yield pairs of runs that hold the same rankings, the earlier first.

    Another tag, another file and other scores change no ranking. Scores that were rounded may tie
    what was apart: where the passages are the same and nearly every query scores alike, files are
    read again.
    """
    seen: dict[str, list[ScoredRun]] = {}
    for run in runs:
        alike = seen.setdefault(run.report.documents, [])
        first = next((earlier for earlier in alike if _is_same(run, earlier)), None)
        if first is None:
            alike.append(run)
        else:
            yield first, run


def _is_same(run: ScoredRun, earlier: ScoredRun) -> bool:
    """Whether two runs of the same passages rank them alike, but for ties of one of them."""
    if not run.report.ranking:  # scores that were read as such
        return False
    if run.report.ranking == earlier.report.ranking:
        return True
    differing = [
        np.mean(~np.isclose(values, earlier.scores[measure], equal_nan=True))
        for measure, values in run.scores.items()
    ]
    files = [Path(scored.report.name) for scored in (run, earlier)]
    is_near = max(differing) <= _MOST_DIFFERING and all(file.is_file() for file in files)
    return is_near and _ranks_alike(*map(read_run, files))


def _ranks_alike(run: _Rankings, earlier: _Rankings) -> bool:
    """Whether no two passages of a query stand in opposite orders, and few of them tie."""
    tied = [0, 0]
    documents = 0
    for query, scores in run.items():
        pairs = sorted((score, earlier[query][doc]) for doc, score in scores.items())
        first, second = zip(*pairs, strict=True)
        if any(later < sooner for sooner, later in pairwise(second)):
            return False
        documents += len(pairs)
        tied = [tied[0] + len(pairs) - len(set(first)), tied[1] + len(pairs) - len(set(second))]
    return max(tied) * 2 < documents


def identical_doubts(runs: Iterable[ScoredRun]) -> list[str]:
    """Return a doubt for each run that holds the same rankings as an earlier one."""
    return [
        f"{second.report.name} holds the same rankings as {first.report.name}"
        for first, second in _identical_runs(runs)
    ]


def _missing_doubts(scores: Scores, name: str) -> list[str]:
    """Return a doubt if runs lack more than `FEW_MISSING` of a group's test queries."""
    runs = list(scores.runs.values())
    lacked = {
        group: max((int(run.missing[queries].sum()) for run in runs), default=0)
        for group, queries in scores.groups.items()
    }
    sizes = {group: len(queries) for group, queries in scores.groups.items()}
    if not any(lacked[group] > FEW_MISSING * size for group, size in sizes.items()):
        return []
    counts = ", ".join(f"{lacked[group]:,} of {size:,} of {group}" for group, size in sizes.items())
    known = looks_like([query_id.encode() for query_id in scores.query_ids])
    holder = "a run" if len(runs) > 1 else "the run"
    doubt = f"{name}: test queries that {holder} does not hold: {counts}"
    return [doubt + (f"; among the test queries are {known}" if known else "")]
