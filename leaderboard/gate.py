"""The gate: the checks that a submission passes before it is an entry.

The gate trusts no figure that it can compute: it makes cells, losses, tests and intervals again
from the per-query scores, and, where it has data and runs, these from the run files. `history`
checks all entries, and compares them with earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from msshift_bench.data import DATA_VERSION, Dataset, open_dataset, sha256_of
from msshift_bench.errors import Finding
from msshift_bench.evaluation import ReportRecord, SettingsRecord, SystemRecord
from msshift_bench.leaderboard.boards import BOARDS, digest_of_test_sets
from msshift_bench.leaderboard.file_list import RUNS, SCORES_NAME, file_problems
from msshift_bench.leaderboard.leaked_tests import check_leaked
from msshift_bench.leaderboard.plausibility import fingerprint, implausible, repeated_runs
from msshift_bench.leaderboard.rescoring import (
    SETTINGS,
    check_differences,
    check_report,
    data_digest,
    score_run_sets,
    scores_by_shift,
)
from msshift_bench.leaderboard.strict_files import read_scores_table
from msshift_bench.leaderboard.submission import Submission, read_submission
from msshift_bench.leaderboard.trained_on import check_training, exposure_of, uses_own_split
from msshift_bench.leaderboard.verdict import Verdict
from msshift_bench.output import plain
from msshift_bench.runs import find_run_sets
from msshift_bench.schema import Place
from msshift_bench.shifts import EDITIONS, SHIFTS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_results", "check_submission", "read_claims", "runs_missed"]


def check_submission(
    folder: Path, *, data: Dataset | str | Path | None = None, runs: Path | None = None
) -> Verdict:
    """Check one submission, or one version of an entry.

    Args:
        folder: the folder of ``submission.json`` and the files that it names.
        data: a built data set; with it, the gate checks training queries that are the data set's
            own, and scores run files again.
        runs: the folder of the system's run sets, ``<system>/<shift>/...``, which may hold other
            systems', too; by default ``runs`` in the folder, if any.

    Returns:
        The verdict; it raises nothing for errors that a submitter can make.

    Raises:
        NotFoundError: if there is no such data set.
    """
    dataset = None if data is None else open_dataset(data)
    verdict = read_claims(folder)
    check_results(verdict, dataset, runs)
    return verdict


def read_claims(folder: Path) -> Verdict:
    """Check a submission's files against their list, and read ``submission.json``."""
    verdict = Verdict(folder)
    with verdict.collecting():
        verdict.findings += file_problems(folder)
        if not verdict.findings:
            verdict.submission = read_submission(folder)
            verdict.checked += ["files against their digests", "every field of submission.json"]
    return verdict


def check_results(verdict: Verdict, dataset: Dataset | None, runs: Path | None) -> None:
    """Check the claims of a submission that was read; see `check_submission`."""
    submission = verdict.submission
    if submission is None:
        return
    place = Place(str(verdict.folder), findings=verdict.findings)
    with verdict.collecting():
        if submission.report is None:
            _check_reported(submission, verdict.folder, place)
            verdict.unchecked["the figures"] = "they are a paper's; nothing was computed"
            verdict.exposure = _reported_exposure(submission)
        else:
            _check_measured(verdict, submission, submission.report, dataset, runs, place)
        if submission.training.exposure != verdict.exposure and not verdict.findings:
            place.at("training").at("class").wrong(
                "wrong-class",
                f"{submission.training.exposure!r}, and what is declared makes it "
                f"{verdict.exposure!r}",
                "write the submission again with 'msshift submit'",
            )


def _check_reported(submission: Submission, folder: Path, place: Place) -> None:
    if (folder / SCORES_NAME).exists():
        place.at("reported").wrong(
            "unexpected-file", "a paper's results have no per-query scores", f"remove {SCORES_NAME}"
        )
    board = BOARDS[submission.board]
    for shift in submission.shifts:
        if shift not in board.shifts:
            place.at("reported").wrong("unknown-shift", f"{board.id} has no results on {shift}")
    if submission.training.queries:
        place.at("training").at("queries").wrong(
            "unexpected-ids", "training queries of a paper's results cannot be checked"
        )


def _reported_exposure(submission: Submission) -> str:
    """Return the class of a paper's training queries, a key of `CLASSES`."""
    if submission.system.family == "lexical":
        return "none"
    stated = submission.training.per_group and submission.training.data.strip()
    return "held-out-reported" if stated else "undeclared"


def _check_measured(
    verdict: Verdict,
    submission: Submission,
    report: ReportRecord,
    dataset: Dataset | None,
    elsewhere: Path | None,
    place: Place,
) -> None:
    _check_settings(report, place.at("report"))
    _check_systems(submission, report, place.at("report").at("systems"))
    if verdict.findings:
        return
    table = read_scores_table(verdict.folder / SCORES_NAME)
    _check_table(submission, table, place.at(SCORES_NAME))
    if verdict.findings:
        return
    scores = scores_by_shift(report, table)
    check_report(report, scores, place.at("report"))
    if not verdict.accepted:
        return
    verdict.checked += ["the test queries", "every figure against the per-query scores"]
    verdict.fingerprint = fingerprint(scores.values())
    verdict.findings += implausible(submission, scores.values(), str(verdict.folder))
    verdict.findings += repeated_runs(submission, str(verdict.folder))
    verdict.exposure = exposure_of(submission.training, submission.shifts)
    at_hand = [shift for shift in submission.shifts if _has_test_sets(dataset, submission, shift)]
    same_data = {shift: dataset for shift in at_hand if dataset is not None}
    check_training(submission, verdict.folder, scores, same_data, place.at("training"))
    if verdict.accepted:
        check_leaked(verdict, submission, same_data, _wanted(dataset))
    _note_training(verdict, submission, dataset, at_hand)
    runs = elsewhere or verdict.folder / RUNS
    present = (runs / submission.system.name).is_dir()
    if present:
        _check_runs(submission, runs, elsewhere is not None, place.at(RUNS))
        verdict.checked.append("the run files against their digests")
        if verdict.accepted and at_hand and dataset is not None:
            verdict.rescored = _rescore(submission, report, runs, dataset, at_hand, place)
    _note_runs(verdict, submission, dataset, elsewhere, present)


def _note_training(
    verdict: Verdict, submission: Submission, dataset: Dataset | None, at_hand: Sequence[str]
) -> None:
    """Note which declared training queries were compared with the test queries."""
    declared = {
        shift: submission.training.queries[shift]
        for shift in submission.shifts
        if shift in submission.training.queries
    }
    own = [shift for shift, models in declared.items() if uses_own_split(models)]
    if listed := [shift for shift in declared if shift not in own or shift in at_hand]:
        verdict.checked.append(f"the training queries of {', '.join(listed)}")
    if missing := [shift for shift in own if shift not in at_hand]:
        what = f"the training queries of {', '.join(missing)}"
        verdict.unchecked[what] = f"they are the data set's own; {_wanted(dataset)}"


def _note_runs(
    verdict: Verdict,
    submission: Submission,
    dataset: Dataset | None,
    elsewhere: Path | None,
    present: bool,
) -> None:
    """Note on which shifts the runs were scored again, and why not on the others."""
    if verdict.rescored:
        shifts = ", ".join(verdict.rescored)
        verdict.checked.append(f"the per-query scores of {shifts} against the run files")
    if missing := [shift for shift in submission.shifts if shift not in verdict.rescored]:
        what = f"the per-query scores of {', '.join(missing)} against the run files"
        if present:
            verdict.unchecked[what] = _wanted(dataset)
        else:
            why, fix = runs_missed(submission, elsewhere)
            data = "" if dataset is not None else ", and --data"
            verdict.unchecked[what] = f"{why}; {fix}{data}"


def runs_missed(submission: Submission, elsewhere: Path | None) -> tuple[str, str]:
    """Say why a submission's run files are not at hand, and how to put it right.

    Args:
        submission: the submission.
        elsewhere: the folder of run sets that was given beside it; `None` if none was.
    """
    name = submission.system.name
    if elsewhere is None:
        return "the submission holds no run files", "give --runs"
    return (
        f"{elsewhere} has no folder {name}",
        f"give --runs the folder that holds {name}/<shift>/...",
    )


def _wanted(dataset: Dataset | None) -> str:
    if dataset is None:
        return "give --data, the data set that the runs answer"
    return f"{dataset.folder} has other test queries; give --data the board's data set"


def _check_settings(report: ReportRecord, place: Place) -> None:
    """Check the settings and the data of the scores."""
    settings = plain(report.settings)
    for name, expected in plain(SettingsRecord.of(SETTINGS)).items():
        if settings[name] != expected:
            place.at("settings").at(name).wrong(
                "wrong-settings",
                f"{settings[name]!r} where entries are scored with {expected!r}",
                "write the submission with 'msshift submit'",
            )
    data = place.at("data")
    if report.data.data_version != DATA_VERSION:
        data.at("data_version").wrong(
            "unknown-data-version",
            f"{report.data.data_version!r}; this version of the package knows {DATA_VERSION}",
        )
    if report.data.edition not in EDITIONS:
        data.at("edition").wrong(
            "unknown-edition", f"{report.data.edition!r}", f"one of: {', '.join(EDITIONS)}"
        )


def _check_systems(submission: Submission, report: ReportRecord, place: Place) -> None:
    """Check that the report is of one system, with all runs that it needs."""
    seen = set()
    for position, system in enumerate(report.systems):
        here = place.at(position)
        shift, groups = system.shift, set(SHIFTS[system.shift].tested)
        if system.system != submission.system.name:
            here.at("system").wrong(
                "wrong-name",
                f"{system.system!r} where the submission is of {submission.system.name!r}",
            )
        if shift in seen:
            here.at("shift").wrong("repeated-shift", f"{shift} is there twice")
        seen.add(shift)
        if shift not in BOARDS[submission.board].shifts:
            here.at("shift").wrong("unknown-shift", f"{submission.board} has no results on {shift}")
        if set(system.test_queries) != groups:
            here.at("test_queries").wrong(
                "wrong-groups", f"{', '.join(sorted(system.test_queries))}, not the groups"
            )
        if system.partial:
            here.at("partial").wrong("partial", "run files are missing")
        _check_models(submission, system, here.at("runs"))
    # Shifts may differ in their replicates; runs outside of seed folders may have any seed.
    seeds = {run.seed for system in report.systems for run in system.runs}
    used = {seed for seed in seeds if seed is not None}
    declared = set(submission.training.seeds)
    if used != declared if used else len(declared) > 1:
        place.wrong(
            "seeds-mismatch",
            f"runs of the seeds {sorted(used)}, and training.seeds says {sorted(declared)}",
        )


def _check_models(submission: Submission, system: SystemRecord, place: Place) -> None:
    """Check that there is a run for every seed and held-out group, and a file for every run."""
    runs = [(run.seed, run.held_out) for run in system.runs]
    seeds = list(dict.fromkeys(seed for seed, _ in runs))
    shift = SHIFTS[system.shift]
    groups = list(shift.groups) if submission.training.per_group else [None]
    if sorted(map(str, runs)) != sorted(str((seed, group)) for seed in seeds for group in groups):
        place.wrong("wrong-runs", "there must be one run for every seed and every held-out group")
    files = {file.path: file.sha256 for file in submission.files}
    for position, run in enumerate(system.runs):
        if files.get(run.name) != run.digest:
            place.at(position).wrong(
                "run-not-listed", f"'files' has no {run.name!r} with its digest"
            )
        seed = "" if run.seed is None else f"seed-{run.seed}/"
        stem = f"{shift.name}/{seed}{run.held_out}" if run.held_out else shift.name
        if run.name.partition(".run")[0] != f"{submission.system.name}/{stem}":
            place.at(position).at("name").wrong(
                "wrong-name", f"{run.name!r} is not where that run belongs"
            )


def _check_table(submission: Submission, table: pa.Table, place: Place) -> None:
    """Check that the scores are finite and of the board's test queries."""
    for shift in submission.shifts:
        digest = _table_digest(table, shift)
        if digest not in BOARDS[submission.board].shifts[shift]:
            place.wrong(
                "test-set-not-accepted",
                f"the queries of {shift}, or their groups, are not test sets that "
                f"{submission.board} takes ({digest[:12]})",
                "score the runs on the data set that the board names",
            )
    values = table["score"].to_numpy()
    if not np.isfinite(values).all():
        place.wrong("score-not-finite", "a score is no finite number")
    elif ((values < 0) | (values > 1)).any():
        place.wrong("score-out-of-range", "a score is not from 0 to 1")


def _table_digest(table: pa.Table, shift: str) -> str:
    import pyarrow.compute as pc

    rows = table.filter(pc.field("shift") == shift).group_by(["group", "query_id"]).aggregate([])
    members: dict[str, list[str]] = {}
    for row in rows.to_pylist():
        members.setdefault(row["group"], []).append(row["query_id"])
    return digest_of_test_sets(members)


def _has_test_sets(dataset: Dataset | None, submission: Submission, shift: str) -> bool:
    """Say whether a data set has the board's test sets for a shift."""
    if dataset is None or shift not in dataset.manifest.shifts:
        return False
    return data_digest(shift, dataset) in BOARDS[submission.board].shifts[shift]


def _check_runs(submission: Submission, runs: Path, elsewhere: bool, place: Place) -> None:
    """Compare run files with the list ``files``; a folder elsewhere may hold other files, too."""
    listed = {file.path: file for file in submission.files}
    present = {
        path.relative_to(runs).as_posix(): path
        for path in sorted(runs.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    for name in sorted({*listed, *present}):
        here = place.at(name)
        if name not in present:
            here.wrong("missing-file", "is listed, and not there")
        elif present[name].is_symlink() or not present[name].is_file():
            here.wrong("not-a-file", "a link, or no plain file")
        elif name not in listed and elsewhere:
            continue
        elif name not in listed:
            here.wrong("unlisted-file", "is not listed in 'files'")
        elif sha256_of(present[name]) != listed[name].sha256:
            here.wrong("wrong-digest", "its SHA-256 is not the one in 'files'")
        elif present[name].stat().st_size != listed[name].bytes:
            here.wrong("wrong-digest", "its size is not the one in 'files'")


def _rescore(
    submission: Submission,
    report: ReportRecord,
    runs: Path,
    dataset: Dataset,
    shifts: Sequence[str],
    place: Place,
) -> tuple[str, ...]:
    """Score the run files again and compare everything; return the shifts that it scored."""
    name = submission.system.name
    run_sets = [run_set for run_set in find_run_sets([runs / name]) if run_set.shift.name in shifts]
    rescored = score_run_sets(run_sets, name, runs, dataset).record()
    claims = {system.shift: system for system in report.systems}
    here = place.at("report")
    for system in rescored.systems:
        claimed, where = claims[system.shift], here.at(system.shift)
        check_differences(claimed, system, where, "rescored-differs", "the run gives {!r}")
    here = here.at("data")
    if rescored.data.content_digest == report.data.content_digest:
        if rescored.data.training != report.data.training:
            message = f"the report says {plain(report.data.training)}, the data set has another"
            here.at("training").wrong(
                "rescored-differs", f"{message}: {plain(rescored.data.training)}"
            )
    else:
        here.at("content_digest").findings.append(
            Finding(
                "other-build",
                "the test queries are the same, but the data set was built from other queries",
                place.file,
                severity="warning",
            )
        )
    return tuple(system.shift for system in rescored.systems)
