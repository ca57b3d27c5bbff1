"""Checks that runs and data belong together: one table, in one order, for every command.

A check is a function that takes an `OpenedRuns`, or scores, and yields findings and warnings.
`apply_checks` raises the errors, unless the caller allows them by name (`ALLOWANCES`). It returns
the warnings and the allowed errors as sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msshift_bench.data import TestSet
from msshift_bench.errors import Finding, RunError, check_name, first_few
from msshift_bench.evaluation.opening import OpenedRun, OpenedRuns, OpenedRunSet
from msshift_bench.evaluation.scores import FEWEST_ANSWERED, Scores, identical_runs, known_test_set
from msshift_bench.evaluation.settings import Settings
from msshift_bench.runs import FOR_ALL, RunReport, Sidecar, low_recall, seed_folder
from msshift_bench.shifts import Shift, as_list, grouped

ALLOWANCES: Mapping[str, str] = MappingProxyType(
    {
        "partial": "compute what can be computed where run files, or queries of them, are missing",
        "identical": "accept the same run under two models of a system",
        "leaked": "score a model on queries that it was trained on",
        "other-data": "score runs whose sidecars name other data, or different passages",
    }
)
"""Errors that a caller may allow: name -> its meaning."""

FEW_MISSING = 0.05
"""Largest share of a group's test queries that may be missing from runs without a warning."""


MOST_MISSING = 0.1
"""Largest share of missing queries that count 0, in a group of `FEWEST_ANSWERED` or more."""

_MAX_OWN_ID_FIRST = 0.1
"""Largest share of queries with the passage of their own id at rank 1, without a warning."""

_BINARY_MEASURES = re.compile(r"^(AP|P|R|RR|Rprec|Success)(@\d+)?$")
"""Measures for which a passage is relevant or not; ir_measures has them with ``rel``, too."""

_LOWEST_LIKELY_RANK = 10
"""From this grade on, judgements are probably the ranks of a run in three columns."""


def check_allowances(allow: str | Collection[str]) -> frozenset[str]:
    """Return the names of allowances, checked.

    Raises:
        UnknownNameError: if one is not in `ALLOWANCES`.
    """
    for name in as_list(allow):
        check_name("allowance", name, ALLOWANCES)
    return frozenset(as_list(allow))


class Check(NamedTuple):
    """A row of the table of checks.

    Attributes:
        summary: the first line of its error.
        find: takes an `OpenedRuns` or scores, and settings; yields findings, or warnings as text.
        allowance: the name in `ALLOWANCES` that allows its errors; "" if none does.
        warns: whether allowed errors become warnings here; otherwise a later check warns.
    """

    summary: str
    find: Callable[[Any, Settings], Iterable[Finding | str]]
    allowance: str = ""
    warns: bool = False


def apply_checks(
    stage: str, subject: object, settings: Settings, allow: Collection[str] = ()
) -> list[str]:
    """Apply the checks of a stage in order; return warnings and allowed errors as sentences.

    Args:
        stage: a key of `CHECKS`.
        subject: the `OpenedRuns`, or the scores of one or of all systems.
        settings: measures and policies.
        allow: some of `ALLOWANCES`.

    Raises:
        RunError: with the errors of the first check that finds some, if they are not allowed.
    """
    warnings: list[str] = []
    for check in CHECKS[stage]:
        found = list(check.find(subject, settings))
        findings = [finding for finding in found if isinstance(finding, Finding)]
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors and check.allowance not in allow:
            raise RunError(check.summary, errors)
        allowed = errors if check.warns else []
        warnings += [f"{e.source}: {e.message} (--allow {check.allowance})" for e in allowed]
        warnings += [f"{w.sentence}; {w.fix}" for w in findings if w.severity == "warning"]
        warnings += [warning for warning in found if isinstance(warning, str)]
    return list(dict.fromkeys(warnings))


# ---- before runs are read -----------------------------------------------------------------------


def _absent_passages(opened: OpenedRuns, _: Settings) -> Iterator[str]:
    dataset = opened.dataset
    if dataset is not None and dataset.info.content_digest == opened.data.content_digest:
        known = dataset.manifest.collection
        if lacking := known.get("passages", {}).get("relevant_absent", 0):
            yield _absent_warning(known["name"], lacking)


def _absent_warning(name: str, count: int) -> str:
    return (
        f"{name}: {count:,} relevant passages are not in the collection that was searched, so that "
        "no system can find them"
    )


def _sidecars_of(opened: OpenedRuns) -> list[Sidecar]:
    runs = (run for part in opened.parts for run in part.runs.values())
    return [sidecar for run in runs for sidecar in run.sidecars]


def _shift_run_sets(opened: OpenedRuns) -> list[tuple[OpenedRunSet, Shift]]:
    return [(part, part.shift) for part in opened.parts if part.shift is not None]


def unreadable_sidecars(opened: OpenedRuns, _: Settings | None = None) -> Iterator[Finding]:
    """Find sidecars that are not JSON objects or were changed.

    If the opened runs have neither a data set with a digest nor an extra test set, nothing is
    checked.
    """
    if opened.data.content_digest or any(part.test for part in opened.run_sets):
        yield from (part.unsound() for part in _sidecars_of(opened) if not part.is_sound)


def runs_of_other_data(opened: OpenedRuns, _: Settings | None = None) -> Iterator[Finding]:
    """Find runs whose sidecars name another data set; none if the opened data have no digest."""
    at_hand = opened.data.content_digest
    for sidecar in _sidecars_of(opened) if at_hand else ():
        if sidecar.data not in ("", at_hand):
            yield Finding(
                "other-data",
                f"{sidecar.run.name} was made on the data set {sidecar.data[:12]}, and this one is "
                f"{at_hand[:12]}",
                str(sidecar.path),
                fix="give that data set (--data), make the run again, or accept it with --allow "
                "other-data",
            )


def _other_queries(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    """Find runs whose sidecars name other queries than the extra test set's."""
    for part in opened.run_sets:
        at_hand = str(part.test_set.facts["queries_sha256"]) if part.test else ""
        for sidecar in [run.sidecar for run in part.runs.values()] if part.test else ():
            if sidecar.queries not in ("", at_hand):
                yield Finding(
                    "other-queries",
                    f"{sidecar.run.name} was made for queries {sidecar.queries[:12]}, and the "
                    f"queries in {part.test_set.folder} are {at_hand[:12]}",
                    str(sidecar.path),
                    fix="give the folder with these queries, or make the run again",
                )


def _other_places(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    """Find runs whose sidecars name another shift or held-out group than their path.

    If two runs are exchanged, each with its sidecar, a group's loss becomes a gain.
    """
    for part, of_shift in _shift_run_sets(opened):
        shift = of_shift.name
        for (group, _seed), run in part.runs.items():
            held_out, sidecar = None if group == FOR_ALL else group, run.sidecar
            of_group = held_out if sidecar.held_out == "" else sidecar.held_out
            if (sidecar.shift or shift, of_group) != (shift, held_out):
                yield Finding(
                    "sidecar-differs",
                    f"expected the run of {_model_name(shift, held_out)}, but the sidecar of "
                    f"{sidecar.run.name} names {_model_name(sidecar.shift or shift, of_group)}",
                    str(sidecar.path),
                    fix="put the run back where it was written, or remove the sidecar if the run "
                    "is right",
                )


def _model_name(shift: object, held_out: object) -> str:
    return f"{shift}" if held_out is None else f"{shift} without {held_out}"


def _other_passages(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    """Find runs of one figure or comparison that searched different passages.

    A data set's digest does not cover the passages. If the collection grows between two runs, their
    difference looks like a loss.
    """
    together = [
        (part.place, [*part.runs.values(), *(part.plain.runs.values() if part.plain else ())])
        for part in opened.run_sets
        if part.shift is not None
    ]
    for name, runs in (*together, *opened.compared):
        firsts: dict[str, Sidecar] = {}
        for sidecar in (sidecar for run in runs for sidecar in run.sidecars if sidecar.passages):
            first = next(iter(firsts.values()), sidecar)
            if firsts.setdefault(sidecar.passages, sidecar) is sidecar is not first:
                yield Finding(
                    "other-passages",
                    f"{sidecar.run.name} searched passages with digest {sidecar.passages[:12]}, "
                    f"but {first.run.name} with digest {first.passages[:12]}, in {name}",
                    str(sidecar.path),
                    fix="make the runs again on one collection, or use --allow other-data",
                )


def _missing_runs(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    for part, shift in _shift_run_sets(opened):
        lacking = {seed for seed, _ in part.missing}
        complete = [f"seed-{seed}" for seed in part.seeds if seed not in lacking]
        fix = "add the file, or continue without it (--allow partial)"
        fix += f"; {' and '.join(complete)} can be evaluated alone" if complete else ""
        extra = ("extra", part.test) if part.test else ()
        for seed, group in part.missing:
            model = group if group == FOR_ALL else repr(group)
            yield Finding(
                "missing-run",
                f"there is no run of the model trained {shift.training_of(model)}",
                str(Path(part.system, *extra, shift.name, seed_folder(seed), f"{group}.run")),
                fix=fix,
            )


def _trained_on_test(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    for run, counted in opened.trained.values():
        if counted is not None and counted.trained:
            yield Finding(
                "trained-on-test",
                f"{counted.counts} of the {counted.queries:,} queries of {counted.test}: "
                f"{counted.ids:,} by their ids, {counted.words:,} by their words",
                str(run),
                fix="leave these queries out of the test set, or accept them with --allow leaked",
            )


def _other_seeds(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    """Find runs on variants whose seeds differ from the seeds of the runs on unchanged queries."""
    for part in opened.run_sets:
        if part.plain is not None and part.plain.seeds != part.seeds:
            has, lacks = (
                ", ".join(str(seed) for seed in seeds if seed is not None) or "none"
                for seeds in (part.plain.seeds, part.seeds)
            )
            yield Finding(
                "other-seeds",
                f"the runs on the queries have the seeds {has}, the runs on the variants {lacks}",
                part.place,
                fix="make the missing runs, or continue with --allow partial",
            )


def _other_models(opened: OpenedRuns, _: Settings) -> Iterator[Finding]:
    """Find runs on variants and on unchanged queries that are of different models."""
    pairs = [
        (part.plain.runs[model].sidecar, run.sidecar)
        for part in opened.run_sets
        for model, run in part.runs.items()
        if part.plain is not None and model in part.plain.runs
    ]
    for first, second in pairs:
        differ = (first.weights, first.parameters) != (second.weights, second.parameters)
        if first.exists and second.exists and differ:
            yield Finding(
                "other-model",
                f"the model or parameters in its sidecar differ from the sidecar of {first.run}",
                str(second.run),
                fix="make both runs with the same model",
            )


def _unusual_grades(opened: OpenedRuns, settings: Settings) -> Iterator[str]:
    """Warn of judgements that are all 0, like ranks, or graded although a measure is binary."""
    counting = [part.name for part in settings.measures if _BINARY_MEASURES.fullmatch(part.name)]
    stricter = " and ".join(_BINARY_MEASURES.sub(r"\1(rel=2)\2", part) for part in counting)
    for test_set in {id(part.test_set): part.test_set for part in opened.run_sets}.values():
        grades = (grade for of in test_set.judged.values() for grade in of.values())
        name, highest = test_set.name, max(grades, default=0)
        if highest >= _LOWEST_LIKELY_RANK:
            yield f"{name}: judgements go up to {highest}, as the ranks of a run do"
        if highest < 1:
            yield f"{name}: no passage has a relevance of 1 or more"
        if highest > 1 and counting:
            yield (
                f"{name}: judgements go up to {highest}; a passage is relevant from 1 on "
                f"for {' and '.join(counting)}, from 2 on for {stricter}"
            )


def _exclusions(opened: OpenedRuns, settings: Settings) -> Iterator[Finding | str]:
    """Find exclusions that match no test query, and warn of queries that no longer count."""
    asked = settings.exclude
    recorded = any(part.test_set.exclusions for part in opened.parts)
    test_sets = {id(part.test_set): part.test_set.excluding(asked) for part in opened.parts}
    excluded = any(test_set.excluded for test_set in test_sets.values())
    if asked.pairs and not (excluded or recorded):
        yield Finding(
            "no-query-excluded",
            f"it names {first_few(asked.pairs)}, and none of the test queries",
            asked.source,
            fix="give the file of these test queries: lines of query_id doc_id",
        )
    for test_set in test_sets.values():
        if emptied := len(test_set.emptied):
            yield (
                f"{test_set.name}: {emptied:,} of {emptied + len(test_set.judged):,} queries have "
                "no relevant passage but the excluded ones, and do not count"
            )


# ---- after a system was scored ------------------------------------------------------------------


def _missing_counts(scores: Scores) -> Iterator[tuple[str, str, int, int]]:
    """Yield each run's name and group, with the number of missing queries and of all queries."""
    for run in scores.runs.values():
        for group, queries in scores.groups.items():
            yield run.report.name, group, int(run.missing[queries].sum()), len(queries)


def _groups_without_queries(scores: Scores, _: Settings) -> Iterator[Finding]:
    for run, group, lacked, size in _missing_counts(scores):
        if 0 < size == lacked:
            yield Finding(
                "no-query-answered",
                f"holds none of the {size:,} test queries of {group} "
                f"({first_few(scores.ids_of(group))})",
                run,
                fix="every model ranks passages for the test queries of all groups, whichever it "
                "was trained without; if the runs are for the queries of another data set, give "
                "that one (--data)",
            )


def _incomplete_runs(scores: Scores, settings: Settings) -> Iterator[Finding]:
    """Find runs with so many missing queries that scores of 0 do not come from the model."""
    for run, group, lacked, size in _missing_counts(scores) if settings.missing == "zero" else ():
        if size >= FEWEST_ANSWERED and lacked / size > MOST_MISSING:
            yield Finding(
                "incomplete-run",
                f"lacks {lacked:,} of the {size:,} test queries of {group}",
                run,
                fix="make the run for all of them; or --missing skip leaves them out, and --allow "
                "partial counts them 0",
            )


def _shared_rankings(scores: Scores, _: Settings) -> Iterator[Finding]:
    """Find equal rankings of two models of a system, unless both were tuned equally."""
    models = {id(run): model for model, run in scores.runs.items()}
    for first, second in identical_runs(scores.runs.values()):
        if first.sidecar.tuned is None or first.sidecar.tuned != second.sidecar.tuned:
            yield Finding(
                "identical-runs",
                f"contains the same rankings as {first.report.name}; "
                f"{_describe_model(models[id(first)], scores.shift)} and "
                f"{_describe_model(models[id(second)], scores.shift)} gave it",
                second.report.name,
                fix="give each model's run; for one model for all groups, give one file, "
                "<system>/<shift>.run, or no factory; or accept the runs with --allow identical",
            )


def _describe_model(model: tuple[str, int | None], shift: Shift | None) -> str:
    held_out, seed = model
    trained = f"trained {shift.training_of(held_out)}" if shift else held_out
    return f"the model {trained}" + ("" if seed is None else f" with seed {seed}")


# ---- after all systems were scored --------------------------------------------------------------


def _run_warnings(parts: Sequence[Scores], _: Settings) -> Iterator[str]:
    return chain.from_iterable(map(run_warnings, parts))


def run_warnings(scores: Scores) -> Iterator[str]:
    """Yield warnings about a system's runs: missing files and queries, scores, and sidecars."""
    name, runs = scores.place, list(scores.runs.values())
    lacked = {
        group: (max((int(run.missing[queries].sum()) for run in runs), default=0), len(queries))
        for group, queries in scores.groups.items()
    }
    if any(count > FEW_MISSING * size for count, size in lacked.values()):
        counts = ", ".join(
            f"{count:,} of {size:,} of {group}" for group, (count, size) in lacked.items()
        )
        known = known_test_set([query_id.encode() for query_id in scores.query_ids])
        holder = "a run" if len(runs) > 1 else "the run"
        yield (
            f"{name}: test queries missing from {holder}: {counts}"
            + (f"; among the test queries are {known}" if known else "")
        )
    if scores.missing_files and scores.shift:
        lacking = {seed for seed, _ in scores.missing_files}
        seeds = " and ".join(str(seed) for seed in scores.seeds if seed not in lacking)
        alone = f"; seed {seeds} alone can be evaluated: move the others' folders"
        trained = scores.shift.training_of(
            "; ".join(scores.missing_runs) if scores.trained_per_group else FOR_ALL
        )
        partly = [m for m in scores.models if m not in scores.complete_models]
        gone = f"; the model {scores.shift.training_of(', '.join(partly))} counts in no loss"
        yield f"{name}: no run {trained}" + alone * bool(seeds) + gone * bool(partly)
    for remark, count in Counter(remark for run in runs for remark in run.remarks).items():
        whose = f" ({count} of {len(runs)} run files)" if len(runs) > 1 else ""
        yield f"{name}: {remark}{whose}"
    if warning := low_recall(min((run.sidecar.recall for run in runs), default=1.0)):
        yield f"{name}: {warning}"
    for run in runs:
        sidecar = run.sidecar
        if sidecar.absent_passages:
            yield _absent_warning(name, sidecar.absent_passages)
        if sidecar.run_sha256 not in ("", run.report.digest):
            yield (
                f"{sidecar.path} is the sidecar of another file than {sidecar.run} (SHA-256): "
                "this run may have another model and other settings"
            )


def _own_ids_first(parts: Sequence[Scores], settings: Settings) -> Iterator[Finding]:
    """Warn of runs that rank the query itself first, as a document with the query's id."""
    for part in () if settings.exclude else parts:
        counts = [(run.own_first, int((~run.missing).sum())) for run in part.runs.values()]
        first, held = max(counts, default=(0, 0))
        if first >= max(FEWEST_ANSWERED, _MAX_OWN_ID_FIRST * held):
            yield Finding(
                "own-id-first",
                f"the passage with the query's own id is first for {first:,} of {held:,} queries, "
                "and is not relevant",
                part.place,
                fix="if queries are documents of the collection, leave them out: --exclude own-id",
                severity="warning",
            )


def _equal_systems(parts: Sequence[Scores], _: Settings) -> Iterator[str]:
    runs = (((part.test, part.shift_name), run) for part in parts for run in part.runs.values())
    for together in grouped(runs).values():
        for first, second in identical_runs(together):
            yield f"{second.report.name} contains the same rankings as {first.report.name}"


_MODEL_CHECKS = (
    Check("sidecars cannot be read:", unreadable_sidecars),
    Check("runs and data do not belong together:", runs_of_other_data, "other-data", warns=True),
    Check("runs are in the wrong place:", _other_places),
    Check("run sets are incomplete:", _missing_runs, "partial"),
)
CHECKS: Mapping[str, tuple[Check, ...]] = {
    "models": _MODEL_CHECKS,
    "opened": (
        Check("", _absent_passages),
        *_MODEL_CHECKS,
        Check("runs and the extra test set do not belong together:", _other_queries),
        Check("runs are of different passages:", _other_passages, "other-data", warns=True),
        Check("models were trained on test queries:", _trained_on_test, "leaked", warns=True),
        Check("runs on queries and on variants differ in seeds:", _other_seeds, "partial"),
        Check("runs on queries and on variants are of other models:", _other_models),
        Check("", _unusual_grades),
        Check("excluded passages and test queries do not belong together:", _exclusions),
    ),
    "scores": (
        Check("runs and test sets do not belong together:", _groups_without_queries),
        Check("runs lack test queries:", _incomplete_runs, "partial"),
        Check("not every run is a model's own:", _shared_rankings, "identical"),
    ),
    "systems": (Check("", _run_warnings), Check("", _equal_systems), Check("", _own_ids_first)),
}
"""Stage -> its checks: runs of kept models, `OpenedRuns`, one system's `Scores`, all systems'
scores."""


def differ_in_start(first: Scores, second: Scores) -> bool:
    """Return whether two systems are one known baseline with two different pre-trainings.

    Seeds then vary the training only: each pre-training was run once.
    """
    sidecars = [[run.sidecar for run in part.runs.values()] for part in (first, second)]
    names = {sidecar.baseline for part in sidecars for sidecar in part}
    starts = [{sidecar.start for sidecar in part} for part in sidecars]
    is_one_baseline = len(names) == 1 and "" not in names
    return is_one_baseline and starts[0] != starts[1] and min(map(len, starts)) == 1


def mismatches(run: str, test_set: TestSet, report: RunReport) -> Iterator[Finding]:
    """Yield a finding for each reason why a well-formed run cannot be scored on a test set.

    Args:
        run: the run file; "-" for standard input.
        test_set: the test set.
        report: the run's report.
    """
    part = OpenedRunSet(run, test_set, {(FOR_ALL, None): OpenedRun.of(run)})
    opened, query_ids = OpenedRuns([part], test_set.data), list(test_set.judged)
    yield from (*unreadable_sidecars(opened), *runs_of_other_data(opened))
    if query_ids and report.queries == report.extra_queries:
        yield Finding(
            "no-query-answered",
            f"it holds none of the {len(query_ids):,} queries of the test set "
            f"({first_few(query_ids)})",
            report.name,
            fix="score the run on the test set that it was made for",
        )
