"""Checks that runs and data belong together, before figures are made from them.

A number from runs and data that do not fit together is worse than an error: each check refuses
them, unless the caller allows it by name (`ALLOWANCES`). What is allowed leaves a doubt.

What a model learned by heart is no measure of what it can: `count_trained` counts the test queries
that it trained on, by their ids, their words, and their relevant passages.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from msshift_bench.data import DataInfo, Dataset, TestSet
from msshift_bench.errors import Finding, RunError, UnknownNameError, first_few
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scores import (
    FEWEST_ANSWERED,
    ScoredRun,
    Scores,
    identical_runs,
    looks_like,
)
from msshift_bench.runs import FOR_ALL, RunReport, RunSet, Sidecar, low_recall
from msshift_bench.search import sorted_words
from msshift_bench.shifts import Shift, get_shift, several

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

_COUNTS_ALL = re.compile(r"^(AP|P|R|RR|Rprec|Success)(@\d+)?$")
"""Measures for which a passage is relevant or not; ir_measures has them with ``rel``, too."""

_RANK_LIKE = 10
"""Least relevance that is more likely the rank of a run in three columns."""


class TrainedQueries(NamedTuple):
    """How many queries of a test set are, or are like, training queries of a model.

    Attributes:
        test: the test set's name.
        shift: the name of the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        queries: how many queries the test set has.
        ids: how many have the id of a training query, and its words where both texts are known.
        words: how many have the words of a training query, in any order and spelling.
        trained: how many have either.
        passages: how many share a relevant passage with a training query.
    """

    test: str
    shift: str
    model: str
    queries: int
    ids: int
    words: int
    trained: int
    passages: int

    @property
    def counts(self) -> str:
        """What was counted, in words."""
        trained = get_shift(self.shift).training_of(self.model)
        return f"the model {trained} trained on {self.trained:,}"


def count_trained(
    test_set: TestSet, shift: str, model: str, dataset: Dataset
) -> TrainedQueries | None:
    """Count the queries of a test set that a model trained on.

    The data set knows the training queries of each experiment: config ``length-short`` holds, as
    split ``train``, what the model without short was trained on.

    Args:
        test_set: the test set; its variants do not count. Without texts only ids are compared.
        shift: the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        dataset: the data set that it was trained on.

    Returns:
        The counts; `None` if the data set holds no training queries of the model.
    """
    config = f"{shift}-{model}"
    if "train" not in dataset.manifest.configs.get(config, {}):
        return None
    rows = list(dataset.rows(config, "train"))
    known = {row.query_id: sorted_words(row.text) if row.text else "" for row in rows}
    passages = {doc_id for row in rows for doc_id in row.relevant_doc_ids}
    variants = {variant.run_id for variant in test_set.variants}
    texts = {row.query_id: row.text for row in test_set.rows}
    words_of = {
        query_id: sorted_words(texts.get(query_id, ""))
        for query_id in test_set.judged
        if query_id not in variants
    }
    met = set(known.values()) - {""}
    by_words = {query_id for query_id, words in words_of.items() if words in met}
    by_id = {
        query_id
        for query_id, words in words_of.items()
        if query_id in known and (not words or known[query_id] in ("", words))
    }
    sharing = [
        query_id
        for query_id in words_of
        if any(doc in passages for doc, grade in test_set.judged[query_id].items() if grade >= 1)
    ]
    trained = len(by_id | by_words)
    counts = len(words_of), len(by_id), len(by_words), trained, len(sharing)
    return TrainedQueries(test_set.name, shift, model, *counts)


class Checks:
    """The checks of one call; each sidecar is read once.

    Args:
        data: the data at hand; without a digest, as of qrels, no run can be of other data.
        allow: some of `ALLOWANCES`.

    Attributes:
        doubts: what was allowed, and what is odd and no reason to refuse.
        training_data: the data set that models were trained on; `None` if none is at hand.
        sidecar: returns what the sidecar of a run says.
        trained: what was counted of test queries among training queries, by test set, shift,
            model and data set; `None` where its training queries are not known.

    Raises:
        UnknownNameError: for another allowance.
    """

    def __init__(self, data: DataInfo | None = None, allow: str | Collection[str] = ()) -> None:
        allowed = several(allow)
        for name in allowed:
            if name not in ALLOWANCES:
                raise UnknownNameError("allowance", name, ALLOWANCES)
        self.data = data or DataInfo()
        self.allow = frozenset(allowed)
        self.doubts: list[str] = []
        self.training_data: Dataset | None = None
        self.trained: dict[tuple[str, str, str, str], TrainedQueries | None] = {}
        self.sidecar = functools.cache(Sidecar.of)

    def _refuse(
        self,
        summary: str,
        findings: Sequence[Finding],
        allowance: str = "",
        doubts: Iterable[str] = (),
    ) -> None:
        """Raise findings, if there are any; those that are allowed leave doubts instead."""
        if findings and allowance not in self.allow:
            raise RunError(summary, findings)
        self.doubts += doubts

    def check_data(self, runs: Iterable[Path]) -> None:
        """Check that runs were made on the data at hand, as far as sidecars name their data.

        Raises:
            RunError: if a run was made on other data, or its sidecar cannot be read.
        """
        at_hand = self.data.content_digest
        sidecars = [self.sidecar(run) for run in runs] if at_hand else []
        others = [sidecar for sidecar in sidecars if sidecar.data not in ("", at_hand)]
        findings = [
            Finding(
                "other-data",
                f"{sidecar.run.name} was made on the data set {sidecar.data[:12]}, and this one is "
                f"{at_hand[:12]}",
                str(sidecar.path),
                fix="give the data set that it was made on (--data), make the run again, or go on "
                "with --allow other-data",
            )
            for sidecar in others
        ]
        doubts = [
            f"{sidecar.run} was made on other data: {sidecar.data[:12]}, not {at_hand[:12]} "
            "(--allow other-data)"
            for sidecar in others
        ]
        unsound = [sidecar.unsound() for sidecar in sidecars if not sidecar.is_sound]
        allowance = "" if unsound else "other-data"
        summary = "runs and data do not belong together:"
        self._refuse(summary, [*unsound, *findings], allowance, doubts)

    def check_models(self, run_set: RunSet) -> None:
        """Check that each run is that of the model that its name says, as far as sidecars say.

        Two runs that changed places, each with its sidecar, would make a group's loss a gain.

        Raises:
            RunError: naming the runs that are of another shift or held-out group.
        """
        shift = run_set.shift.name
        findings = []
        for (group, _), run in run_set.runs.items():
            held_out = None if group == FOR_ALL else group
            sidecar = self.sidecar(run)
            of_group = held_out if sidecar.held_out == "" else sidecar.held_out
            if (sidecar.shift or shift, of_group) != (shift, held_out):
                findings.append(
                    Finding(
                        "sidecar-differs",
                        f"{run.name} is where the run of {_model_name(shift, held_out)} was "
                        "expected, and this says that it is of "
                        f"{_model_name(sidecar.shift or shift, of_group)}",
                        str(sidecar.path),
                        fix="put the run back where it was written, or remove the sidecar if the "
                        "run is right",
                    )
                )
        self._refuse(f"the runs of {run_set.system} are not where they belong:", findings)

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
        findings: list[Finding] = []
        doubts = []
        for name, runs in runs_by_name:
            sidecars = [sidecar for sidecar in map(self.sidecar, runs) if sidecar.passages]
            first_of_each = {sidecar.passages: sidecar for sidecar in reversed(sidecars)}
            if len(first_of_each) < 2:
                continue
            first = sidecars[0]
            findings += [
                Finding(
                    "other-passages",
                    f"{other.run.name} is of the passages {other.passages[:12]}, and "
                    f"{first.run.name} of {first.passages[:12]}",
                    str(other.path),
                    fix="make the runs again on one collection, or go on with --allow other-data",
                )
                for other in sidecars
                if other is not first and other is first_of_each[other.passages]
            ]
            doubts.append(
                f"{name}: its runs are of {len(first_of_each)} different collections of passages "
                "(--allow other-data)"
            )
        self._refuse(f"{whose} are of different passages:", findings, "other-data", doubts)

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
        sidecars = [self.sidecar(run) for run in run_set.files]
        findings = [
            Finding(
                "other-queries",
                f"{sidecar.run.name} was made for queries {sidecar.queries[:12]}, and those in "
                f"{test_set.folder} are {at_hand[:12]}",
                str(sidecar.path),
                fix="give the folder that it was made for, or make the run again",
            )
            for sidecar in sidecars
            if sidecar.queries not in ("", at_hand)
        ]
        findings += [sidecar.unsound() for sidecar in sidecars if not sidecar.is_sound]
        self._refuse(f"runs and the test set {test_set.name} do not belong together:", findings)

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
        dataset = self.training_data
        findings = []
        for run, shift, model in models:
            sidecar = self.sidecar(run)
            made_on = sidecar.data or (dataset.info.content_digest if dataset else "")
            key = test_set.name, shift, model or "", made_on
            if not model or self.trained.get(key) is not None:  # another seed, or system
                continue
            counted = None
            if dataset and made_on == dataset.info.content_digest:
                counted = count_trained(test_set, shift, model, dataset)
            if counted is None and set(sidecar.trained_on) == set(TrainedQueries._fields):
                counted = TrainedQueries(**sidecar.trained_on)
            self.trained[key] = counted
            if counted and counted.trained:
                findings.append(
                    Finding(
                        "trained-on-test",
                        f"{counted.counts} of the {counted.queries:,} queries of {test_set.name}: "
                        f"{counted.ids:,} by their ids, {counted.words:,} by their words",
                        str(run),
                        fix="leave these queries out of the test set, or go on with --allow leaked",
                    )
                )
        summary = f"models were trained on queries of {test_set.name}:"
        doubts = [f"{finding.message} (--allow leaked)" for finding in findings]
        self._refuse(summary, findings, "leaked", doubts)

    def check_grades(self, test_set: TestSet, measures: Iterable[Measure]) -> None:
        """Doubt measures that count every grade, where judgements have several or none."""
        highest = max(
            (grade for of in test_set.judged.values() for grade in of.values()), default=0
        )
        if highest >= _RANK_LIKE:
            self.doubts.append(
                f"{test_set.name}: judgements go up to {highest}, as the ranks of a run do"
            )
        if highest < 1:
            self.doubts.append(f"{test_set.name}: no passage has a relevance of 1 or more")
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
        if plain.seeds != changed.seeds and "partial" not in self.allow:
            has, lacks = (
                ", ".join(str(seed) for seed in part.seeds if seed is not None) or "none"
                for part in (plain, changed)
            )
            findings.append(
                Finding(
                    "other-seeds",
                    f"the runs on the queries have the seeds {has}, those on the variants {lacks}",
                    name,
                    fix="make the missing runs, or go on with --allow partial",
                )
            )
        pairs = [
            (self.sidecar(plain.runs[model]), self.sidecar(run))
            for model, run in changed.runs.items()
            if model in plain.runs
        ]
        findings += [
            Finding(
                "other-model",
                f"its sidecar names another model or other parameters than that of {first.run}",
                str(second.run),
                fix="make both runs with the same model",
            )
            for first, second in pairs
            if first.path.is_file()
            and second.path.is_file()
            and (first.weights, first.parameters) != (second.weights, second.parameters)
        ]
        self._refuse("runs on queries and on their variants do not belong together:", findings)

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
        lacking = [
            (run.report.name, group, int(run.missing[queries].sum()), len(queries))
            for run in scores.runs.values()
            for group, queries in scores.groups.items()
        ]
        unanswered = [
            Finding(
                "no-query-answered",
                f"answers none of the {size:,} test queries of {group} "
                f"({first_few(scores.ids_of(group))})",
                run,
                fix="every model ranks passages for the test queries of all groups, whichever it "
                "was trained without; if the runs answer the queries of another data set, give "
                "that one (--data)",
            )
            for run, group, lacked, size in lacking
            if every_group and 0 < size == lacked
        ]
        incomplete = [
            Finding(
                "incomplete-run",
                f"lacks {lacked:,} of the {size:,} test queries of {group}",
                run,
                fix="make the run for all of them; or --missing skip leaves them out, and --allow "
                "partial counts them 0",
            )
            for run, group, lacked, size in lacking
            if missing == "zero" and size >= FEWEST_ANSWERED and lacked / size > MOST_MISSING
        ]
        place = scores.test or scores.shift_name or "the test set"
        summary = f"the runs of {scores.system} and the test sets of {place} do not belong together"
        self._refuse(f"{summary}:", unanswered)
        self._refuse(f"runs of {scores.system} lack queries of {place}:", incomplete, "partial")
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
            for first, second in identical_runs(scores.runs.values())
            if not self._chose_alike(first, second)
        ]
        self._refuse(f"not every run of {scores.system} is a model's own:", findings, "identical")

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

    def doubt_runs(self, scores: Sequence[Scores]) -> None:
        """Doubt what is odd about run files of systems, and rankings that two of a shift share."""
        for part in scores:
            self.doubts += dict.fromkeys(self.doubts_about(part, part.place))
        for shift in dict.fromkeys(part.shift_name for part in scores):
            of_shift = (part.runs.values() for part in scores if part.shift_name == shift)
            self.doubts += [
                f"{second.report.name} holds the same rankings as {first.report.name}"
                for first, second in identical_runs(chain.from_iterable(of_shift))
            ]

    def doubts_about(self, scores: Scores, name: str) -> Iterator[str]:
        """Yield doubts about run files: those missing, queries they lack, sidecars of others.

        Args:
            scores: the scores of one system.
            name: how the doubts call it.
        """
        runs = list(scores.runs.values())
        lacked = {
            group: (max((int(run.missing[queries].sum()) for run in runs), default=0), len(queries))
            for group, queries in scores.groups.items()
        }
        if any(count > FEW_MISSING * size for count, size in lacked.values()):
            counts = ", ".join(
                f"{count:,} of {size:,} of {group}" for group, (count, size) in lacked.items()
            )
            known = looks_like([query_id.encode() for query_id in scores.query_ids])
            holder = "a run" if len(runs) > 1 else "the run"
            yield (
                f"{name}: test queries that {holder} does not hold: {counts}"
                + (f"; among the test queries are {known}" if known else "")
            )
        if scores.missing_files and scores.shift:
            lacking = {seed for seed, _ in scores.missing_files}
            seeds = " and ".join(str(seed) for seed in scores.seeds if seed not in lacking)
            alone = f"; seed {seeds} alone can be evaluated: move the others' folders"
            trained = scores.shift.training_of("; ".join(scores.missing_runs))
            partly = [m for m in scores.models if m not in scores.complete_models]
            gone = f"; the model {scores.shift.training_of(', '.join(partly))} counts in no loss"
            yield f"{name}: no run {trained}" + alone * bool(seeds) + gone * bool(partly)
        remarks = Counter(remark for run in runs for remark in run.remarks)
        for remark, count in remarks.items():
            whose = f" ({count} of {len(runs)} run files)" if len(runs) > 1 else ""
            yield f"{name}: {remark}{whose}"
        recall = min((self.sidecar(Path(run.report.name)).recall for run in runs), default=1.0)
        if warning := low_recall(recall):
            yield f"{name}: {warning}"
        for run in runs:
            sidecar = self.sidecar(Path(run.report.name))
            if sidecar.absent_passages:
                yield _absent(name, sidecar.absent_passages)
            if sidecar.run_sha256 not in ("", run.report.digest):
                yield (
                    f"{sidecar.path} was written for another file than {sidecar.run}, by its "
                    "SHA-256: it does not say what made this run"
                )

    def doubt_collection(self, dataset: Dataset) -> None:
        """Doubt figures of a data set whose collection lacks passages that queries need."""
        known = dataset.manifest.collection
        if lacking := known.get("passages", {}).get("relevant_absent", 0):
            self.doubts.append(_absent(known["name"], lacking))

    def misfits(self, run: str, report: RunReport, query_ids: Sequence[str]) -> Iterator[Finding]:
        """Yield why a run that is well-formed cannot be scored on a test set.

        Args:
            run: the run file; "-" for standard input.
            report: what was read of it.
            query_ids: the queries of the test set.
        """
        try:
            self.check_data([Path(run)])
        except RunError as error:
            yield from error.findings
        if query_ids and report.queries == report.extra_queries:
            yield Finding(
                "no-query-answered",
                f"it answers none of the {len(query_ids):,} queries of the test set "
                f"({first_few(query_ids)})",
                report.name,
                fix="score the run on the test set that it was made for",
            )


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
