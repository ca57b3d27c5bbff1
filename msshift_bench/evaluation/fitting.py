"""Checks that runs and data belong together, before figures are made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msshift_bench.arrays import Ints
from msshift_bench.data import DataInfo
from msshift_bench.errors import Finding, RunError
from msshift_bench.evaluation.query_names import first_ids, looks_like
from msshift_bench.evaluation.scored_runs import ScoredRun
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.runs import Judgements, RunReport, RunSet, read_sidecar, sidecar_path
from msshift_bench.shifts import Shift

__all__ = [
    "FEW_MISSING",
    "check_answers",
    "check_distinct",
    "check_models",
    "check_passages",
    "check_sidecars",
    "identical_remarks",
    "misfits",
    "missing_remarks",
    "run_remarks",
    "shared_files",
    "unreadable_sidecar",
]

FEW_MISSING = 0.05
"""The share of a group's test queries that runs may lack without a remark."""


def check_sidecars(runs: Iterable[Path], data: DataInfo, *, force_data: bool = False) -> list[str]:
    """Check that runs were made on the data at hand, as far as sidecars name their data.

    Args:
        runs: run files.
        data: the data at hand; nothing is checked if it is not from a built data set.
        force_data: accept runs of other data.

    Returns:
        For the report, one remark per run of other data, if `force_data` is set.

    Raises:
        RunError: if a run was made on other data, or its sidecar cannot be read.
    """
    if not data.content_digest:
        return []
    unreadable, others = [], []
    for run in runs:
        sidecar = sidecar_path(run)
        if not sidecar.is_file():
            continue
        said = read_sidecar(sidecar)
        if said is None:
            unreadable.append(unreadable_sidecar(sidecar, run))
        elif (digest := said.get("data_digest")) not in (None, data.content_digest):
            others.append((sidecar, run, str(digest)[:12]))
    findings = unreadable
    if not force_data:
        findings = unreadable + [
            Finding(
                "other-data",
                f"{run.name} was made on the data set {digest}, and this one is "
                f"{data.content_digest[:12]}",
                str(sidecar),
                fix="give the data set that it was made on (--data), make the run again, or go on "
                "with --force-data",
            )
            for sidecar, run, digest in others
        ]
    if findings:
        raise RunError("runs and data do not belong together:", findings)
    return [
        f"{run} was made on other data: {digest}, not {data.content_digest[:12]} (--force-data)"
        for _, run, digest in others
    ]


def check_models(run_set: RunSet) -> None:
    """Check that each run is that of the model that its name says, as far as its sidecar says.

    Two runs that changed places, each with its sidecar, would make a group's loss a gain.

    Raises:
        RunError: naming the runs that are of another shift or held-out group.
    """
    shift = run_set.shift
    named = [item for runs in run_set.runs.values() for item in runs.items()]
    findings = []
    for held_out, run in [*named, *([] if run_set.single is None else [(None, run_set.single)])]:
        said = _said(run)
        of_shift, of_group = said.get("shift", shift.name), said.get("held_out", held_out)
        if (of_shift, of_group) != (shift.name, held_out):
            findings.append(
                Finding(
                    "sidecar-differs",
                    f"{run.name} is where the run of {_named(shift.name, held_out)} was expected, "
                    f"and this says that it is of {_named(of_shift, of_group)}",
                    str(sidecar_path(run)),
                    fix="put the run back where it was written, or remove the sidecar if the run "
                    "is right",
                )
            )
    if findings:
        raise RunError(f"the runs of {run_set.system} are not where they belong:", findings)


def _said(run: Path) -> Mapping[str, object]:
    """Return what the sidecar of a run says; nothing, if there is none that can be read."""
    sidecar = sidecar_path(run)
    return (read_sidecar(sidecar) if sidecar.is_file() else None) or {}


def _named(shift: object, held_out: object) -> str:
    return f"{shift}" if held_out is None else f"{shift} without {held_out}"


def misfits(run: str, report: RunReport, judgements: Judgements, data: DataInfo) -> list[Finding]:
    """Return why a run that is well-formed cannot be evaluated on a test set.

    Args:
        run: the run file; "-" for standard input.
        report: what was read of it.
        judgements: the test set.
        data: the data that the test set comes from.
    """
    findings: list[Finding] = []
    try:
        check_sidecars([Path(run)], data)
    except RunError as error:
        findings += error.findings
    if judgements and report.queries == report.extra_queries:
        findings.append(
            Finding(
                "no-query-answered",
                f"it answers none of the {len(judgements):,} queries of the test set "
                f"({first_ids(judgements.query_ids)})",
                report.name,
                fix="score the run on the test set that it was made for",
            )
        )
    return findings


def check_passages(
    named: Iterable[tuple[str, Iterable[Path]]],
    *,
    force_data: bool = False,
    whose: str = "runs of one system",
) -> list[str]:
    """Check that runs that make one loss searched the same passages, as far as sidecars say which.

    A data set's digest does not cover the passages: a collection that grew between two runs gives
    the one more passages to find, and a loss that is none. So do runs that are compared.

    Args:
        named: name -> the runs of a system, of all its models, or those that are compared.
        force_data: accept runs of different passages.
        whose: which runs these are, for the message.

    Returns:
        For the report, one remark per name with such runs, if `force_data` is set.

    Raises:
        RunError: naming the runs, if there are some.
    """
    remarks, findings = [], []
    for name, runs in named:
        found = _passages_of(runs)
        if len(found) < 2:
            continue
        (digest, run), *others = found.items()
        findings += [
            Finding(
                "other-passages",
                f"{other.name} is of the passages {searched[:12]}, and {run.name} of {digest[:12]}",
                str(sidecar_path(other)),
                fix="make the runs again on one collection, or go on with --force-data",
            )
            for searched, other in others
        ]
        remarks.append(
            f"{name}: its runs are of {len(found)} different collections of passages (--force-data)"
        )
    if findings and not force_data:
        raise RunError(f"{whose} are of different passages:", findings)
    return remarks


def _passages_of(runs: Iterable[Path]) -> dict[str, Path]:
    """Return digest -> the first run that searched these passages."""
    found: dict[str, Path] = {}
    for run in runs:
        passages = _said(run).get("passages")
        digest = passages.get("sha256") if isinstance(passages, Mapping) else None
        if isinstance(digest, str):
            found.setdefault(digest, run)
    return found


def unreadable_sidecar(sidecar: Path, run: Path) -> Finding:
    """Return the finding for a sidecar that `read_sidecar` cannot read."""
    return Finding(
        "sidecar-unreadable",
        f"says what made {run.name}, and is no JSON object, or was changed",
        str(sidecar),
        fix="put the file back as it was written, or remove it",
    )


def check_answers(scores: SystemScores) -> None:
    """Check that every run answers some test query of every group.

    Raises:
        RunError: naming each run and the queries that it should answer.
    """
    findings = []
    for run in scores.runs:
        for group, queries in scores.groups.items():
            if queries.size and run.missing[queries].all():
                ids = [scores.query_ids[query] for query in queries]
                findings.append(
                    Finding(
                        "no-query-answered",
                        f"answers none of the {len(ids):,} test queries of {group} "
                        f"({first_ids(ids)})",
                        run.report.name,
                        fix="every model ranks passages for the test queries of all groups, "
                        "whichever it was trained without; if the runs answer the queries of "
                        "another data set, give that one (--data)",
                    )
                )
    if findings:
        raise RunError(
            f"the runs of {scores.system} and the test sets of {scores.shift.name} do not belong "
            "together:",
            findings,
        )


def check_distinct(system: str, shift: Shift, runs: Sequence[ScoredRun]) -> None:
    """Check that no two models of a system gave the same file.

    Two may if their sidecars say that they were tuned and chose the same parameters.

    Args:
        system: the system's name.
        shift: the shift that its models were trained for.
        runs: their runs on the same queries.

    Raises:
        RunError: naming the files that are identical.
    """
    findings = [
        Finding(
            "identical-runs",
            f"is the same file, byte for byte, as {first.report.name}; "
            f"{_model(first, shift)} and {_model(second, shift)} gave it",
            second.report.name,
            fix="give each model's own run; if one model was trained without any group, give one "
            "file, <system>/<shift>.run; --allow-identical goes on",
        )
        for first, second in _identical(runs)
        if not _chose_alike(first, second)
    ]
    if findings:
        raise RunError(f"not every run of {system} is a model's own:", findings)


def _model(run: ScoredRun, shift: Shift) -> str:
    seed = "" if run.seed is None else f" with seed {run.seed}"
    return f"the model trained {shift.training_of(str(run.held_out))}{seed}"


def _chose_alike(first: ScoredRun, second: ScoredRun) -> bool:
    choices = []
    for run in (first, second):
        sidecar = sidecar_path(Path(run.report.name))
        said = (read_sidecar(sidecar) if sidecar.is_file() else None) or {}
        tuned = said.get("tuned")
        choices.append(tuned.get("parameters") if isinstance(tuned, Mapping) else None)
    return choices[0] is not None and choices[0] == choices[1]


def _identical(runs: Sequence[ScoredRun]) -> list[tuple[ScoredRun, ScoredRun]]:
    """Return pairs of runs with the same bytes, the earlier first."""
    first: dict[str, ScoredRun] = {}
    return [
        (first[run.report.digest], run)
        for run in runs
        if run.report.digest and first.setdefault(run.report.digest, run) is not run
    ]


def run_remarks(results: Sequence[SystemScores]) -> list[str]:
    """Return the doubts about run sets that were scored: missing queries, and shared files."""
    missing = [
        remark
        for one in results
        for remark in missing_remarks(
            f"{one.system}/{one.shift.name}", one.runs, one.groups, one.query_ids
        )
    ]
    return missing + shared_files(results)


def shared_files(results: Sequence[SystemScores]) -> list[str]:
    """Return a remark for each run file that stands under two systems or models."""
    by_shift: dict[str, list[ScoredRun]] = {}
    for scores in results:
        by_shift.setdefault(scores.shift.name, []).extend(scores.runs)
    return [remark for runs in by_shift.values() for remark in identical_remarks(runs)]


def identical_remarks(runs: Sequence[ScoredRun]) -> list[str]:
    """Return a remark for each run that is the same file as an earlier one."""
    return [
        f"{second.report.name} is the same file, byte for byte, as {first.report.name}"
        for first, second in _identical(runs)
    ]


def missing_remarks(
    name: str,
    runs: Sequence[ScoredRun],
    groups: Mapping[str, Ints],
    query_ids: Sequence[str],
) -> list[str]:
    """Return a remark if runs lack more than `FEW_MISSING` of a group's test queries.

    Args:
        name: the name of the system and shift, or of the run.
        runs: the scored runs.
        groups: group -> positions of its test queries.
        query_ids: the ids of the test queries of all groups.
    """
    lacked = {
        group: max((int(run.missing[queries].sum()) for run in runs), default=0)
        for group, queries in groups.items()
    }
    if not any(lacked[group] > FEW_MISSING * len(groups[group]) for group in groups):
        return []
    counts = ", ".join(
        f"{lacked[group]:,} of {len(groups[group]):,} of {group}" for group in groups
    )
    known = looks_like([query_id.encode() for query_id in query_ids])
    holder = "a run" if len(runs) > 1 else "the run"
    remark = f"{name}: test queries that {holder} does not hold: {counts}"
    return [remark + (f"; among the test queries are {known}" if known else "")]
