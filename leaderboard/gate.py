"""The gate: what a submission must be before it is an entry.

No number is trusted that can be computed: cells, losses, tests and intervals are made again from
the per-query scores, and these from the run files where data and runs are at hand.
`check_entries` looks at all entries and at what they were before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.data import DATA_VERSION, load_dataset, sha256_of
from msshift_bench.errors import DataError, Finding, NotFoundError, UnknownNameError, UsageError
from msshift_bench.evaluation import MISSING_POLICIES
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.file_list import RUNS, SCORES_NAME, file_problems
from msshift_bench.leaderboard.making import own_split
from msshift_bench.leaderboard.plausibility import fingerprint, implausible, repeated_runs
from msshift_bench.leaderboard.recomputing import differences, recompute
from msshift_bench.leaderboard.rescoring import SETTINGS, data_digest, score_run_sets
from msshift_bench.leaderboard.schema import Place
from msshift_bench.leaderboard.scores import read_scores, table_digest
from msshift_bench.leaderboard.submission import Submission, read_submission
from msshift_bench.leaderboard.trained_on import (
    ONE_MODEL,
    exposure_of,
    ids_digest,
    read_ids,
    training_ids,
)
from msshift_bench.output import plain
from msshift_bench.runs import TIE_POLICIES, find_run_sets
from msshift_bench.shifts import EDITIONS, SHIFTS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Verdict", "check_submission"]


_EXPECTED_SETTINGS: Mapping[str, Any] = {
    **plain(SETTINGS),
    "ties_mean": TIE_POLICIES[SETTINGS.ties],
    "missing_means": MISSING_POLICIES[SETTINGS.missing],
}


@dataclass(slots=True)
class Verdict:
    """What the gate says of one submission.

    Attributes:
        folder: where it is.
        submission: what it says; `None` if it cannot be read.
        findings: what is wrong, or odd.
        exposure: what is known of its training queries, a key of `CLASSES`.
        rescored: the shifts whose run files were scored again.
        scores: its per-query scores' fingerprint.
    """

    folder: Path
    submission: Submission | None = None
    findings: list[Finding] = field(default_factory=list)
    exposure: str = "undeclared"
    rescored: tuple[str, ...] = ()
    scores: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether nothing stops it; warnings do not."""
        return all(one.severity == "warning" for one in self.findings)


def check_submission(
    folder: Path, *, data: str | Path | None = None, runs: Path | None = None
) -> Verdict:
    """Check one submission, or one version of an entry.

    Args:
        folder: with ``submission.json`` and the files that it speaks of.
        data: a built data set; with it, training queries that are the data set's own are checked,
            and run files scored again.
        runs: the folder of the system's run sets, ``<system>/<shift>/...``, which may be there
            beside others'; by default ``runs`` in the folder, if any.

    Returns:
        What was found; nothing is raised for what a submitter can get wrong.
    """
    checked = Verdict(folder)
    place = Place(str(folder), found=checked.findings)
    try:
        checked.findings += file_problems(folder)
        if checked.findings:
            return checked
        checked.submission = submission = read_submission(folder)
        if submission.report is None:
            _check_reported(submission, folder, place)
            checked.exposure = _reported_exposure(submission)
        else:
            _check_measured(checked, submission, data, runs, place)
        if submission.training.exposure != checked.exposure and not checked.findings:
            place.at("training").at("class").wrong(
                "wrong-class",
                f"{submission.training.exposure!r}, and what is declared makes it "
                f"{checked.exposure!r}",
                "write the submission again with 'msshift submit'",
            )
    except DataError as error:
        checked.findings += error.findings or [Finding("unreadable", str(error), str(folder))]
    except NotFoundError as error:
        checked.findings.append(Finding("missing-file", str(error), str(folder)))
    except UsageError as error:
        checked.findings.append(Finding("cannot-check", str(error), str(folder)))
    return checked


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
    """Return what a paper says of its training queries: a key of `CLASSES`."""
    if submission.system.family == "lexical":
        return "none"
    stated = submission.training.per_group and submission.training.data.strip()
    return "held-out-reported" if stated else "undeclared"


def _check_measured(
    checked: Verdict,
    submission: Submission,
    data: str | Path | None,
    elsewhere: Path | None,
    place: Place,
) -> None:
    _check_report_head(submission, place.at("report"))
    if checked.findings:
        return
    table = read_scores(checked.folder / SCORES_NAME)
    _check_test_sets(submission, table, place)
    if checked.findings:
        return
    recompute(submission.report or {}, table, place.at("report"))
    if not checked.accepted:
        return
    checked.scores = fingerprint(table)
    checked.findings += implausible(submission, table, str(checked.folder))
    checked.findings += repeated_runs(submission, str(checked.folder))
    checked.exposure = exposure_of(submission.training, submission.shifts)
    at_hand = [shift for shift in submission.shifts if _same_data(submission, shift, data)]
    _check_training(submission, checked.folder, table, data, at_hand, place)
    runs = elsewhere or checked.folder / RUNS
    if (runs / submission.system.name).is_dir():
        _check_runs(submission, runs, elsewhere is not None, place)
        if checked.accepted and at_hand and data is not None:
            checked.rescored = _rescore(submission, runs, data, at_hand, place)


def _check_report_head(submission: Submission, place: Place) -> None:
    """Check what was scored, and how, before anything is computed."""
    report = submission.report or {}
    settings = place.at("settings")
    for name, expected in _EXPECTED_SETTINGS.items():
        said = report["settings"][name]
        if said != expected:
            settings.at(name).wrong(
                "wrong-settings",
                f"{said!r} where entries are scored with {expected!r}",
                "write the submission with 'msshift submit'",
            )
    data = place.at("data")
    if report["data"]["data_version"] != DATA_VERSION:
        data.at("data_version").wrong(
            "unknown-data-version",
            f"{report['data']['data_version']!r}; this version of the package knows {DATA_VERSION}",
        )
    if report["data"]["edition"] not in EDITIONS:
        data.at("edition").wrong(
            "unknown-edition", f"{report['data']['edition']!r}", f"one of: {', '.join(EDITIONS)}"
        )
    seen = set()
    for position, system in enumerate(report["systems"]):
        here = place.at("systems").at(position)
        shift, groups = system["shift"], set(SHIFTS[system["shift"]].groups)
        if system["system"] != submission.system.name:
            here.at("system").wrong(
                "wrong-name",
                f"{system['system']!r} where the submission is of {submission.system.name!r}",
            )
        if shift in seen:
            here.at("shift").wrong("repeated-shift", f"{shift} is there twice")
        seen.add(shift)
        if shift not in BOARDS[submission.board].shifts:
            here.at("shift").wrong("unknown-shift", f"{submission.board} has no results on {shift}")
        if set(system["test_queries"]) != groups:
            here.at("test_queries").wrong(
                "wrong-groups", f"{', '.join(sorted(system['test_queries']))}, not the groups"
            )
        if system["partial"]:
            here.at("partial").wrong("partial", "run files are missing")
        _check_models(submission, system, here)
    # Shifts may differ in their replicates; runs outside of seed folders are of any one seed.
    used = {run["seed"] for system in report["systems"] for run in system["runs"]} - {None}
    said = set(submission.training.seeds)
    if used != said if used else len(said) > 1:
        place.at("systems").wrong(
            "seeds-mismatch",
            f"runs of the seeds {sorted(used)}, and training.seeds says {sorted(said)}",
        )


def _check_models(submission: Submission, system: dict[str, Any], place: Place) -> None:
    """Check that there is a run for every seed and held-out group, and a file for every run."""
    runs = [(run["seed"], run["held_out"]) for run in system["runs"]]
    seeds = list(dict.fromkeys(seed for seed, _ in runs))
    shift = SHIFTS[system["shift"]]
    groups = list(shift.groups) if submission.training.per_group else [None]
    if sorted(map(str, runs)) != sorted(str((seed, one)) for seed in seeds for one in groups):
        place.at("runs").wrong(
            "wrong-runs", "there must be one run for every seed and every held-out group"
        )
    files = {file.path: file.sha256 for file in submission.files}
    for position, run in enumerate(system["runs"]):
        if files.get(run["name"]) != run["digest"]:
            place.at("runs").at(position).wrong(
                "run-not-listed", f"'files' has no {run['name']!r} with its digest"
            )
        seed = "" if run["seed"] is None else f"seed-{run['seed']}/"
        stem = f"{shift.name}/{seed}{run['held_out']}" if run["held_out"] else shift.name
        if run["name"].partition(".run")[0] != f"{submission.system.name}/{stem}":
            place.at("runs").at(position).at("name").wrong(
                "wrong-name", f"{run['name']!r} is not where that run belongs"
            )


def _check_test_sets(submission: Submission, table: pa.Table, place: Place) -> None:
    for shift in submission.shifts:
        found = table_digest(table, shift)
        if found not in BOARDS[submission.board].shifts[shift]:
            place.at(SCORES_NAME).wrong(
                "test-set-not-accepted",
                f"the queries of {shift}, or their groups, are not test sets that "
                f"{submission.board} takes ({found[:12]})",
                "score the runs on the data set that the board names",
            )


def _same_data(submission: Submission, shift: str, data: str | Path | None) -> bool:
    """Say whether the data at hand has the test sets that the board takes for a shift."""
    if data is None:
        return False
    try:
        return data_digest(shift, data) in BOARDS[submission.board].shifts[shift]
    except UnknownNameError:
        return False


def _check_training(
    submission: Submission,
    folder: Path,
    table: pa.Table,
    data: str | Path | None,
    at_hand: Sequence[str],
    place: Place,
) -> None:
    """Check the declared training queries against every test set of their shift."""
    for shift, declared in submission.training.queries.items():
        here = place.at("training").at("queries").at(shift)
        if shift not in submission.shifts:
            here.wrong("unexpected-ids", f"there are no results on {shift}")
            continue
        models = set(SHIFTS[shift].groups) if submission.training.per_group else {ONE_MODEL}
        if set(declared) - models:
            here.wrong("wrong-groups", f"{', '.join(sorted(declared))} are not its models")
            continue
        tests = _members(table, shift)
        for held_out, said in declared.items():
            where = here.at(held_out)
            if said.test_queries.keys() != tests.keys():
                where.at("test_queries").wrong("wrong-groups", f"expected {', '.join(tests)}")
                continue
            if not said.count and held_out != ONE_MODEL:
                where.wrong(
                    "not-untrained", "trained on no query, but there is a run for every group"
                )
                continue
            if said.file is not None:
                name = "all" if held_out == ONE_MODEL else held_out
                if said.file != f"train/{shift}/{name}.txt.gz":
                    where.at("file").wrong("wrong-name", f"{said.file!r} is another model's list")
                    continue
                ids: Sequence[str] = read_ids(folder / said.file)
            elif not said.count and said.sha256 == ids_digest(()):
                ids = ()
            elif data is not None and shift in at_hand and held_out != ONE_MODEL:
                ids = own_split(SHIFTS[shift], held_out, data)
            elif held_out == ONE_MODEL:
                where.at("file").wrong("missing-ids", "training queries are declared, not listed")
                continue
            else:
                continue
            if training_ids(ids, tests, said.file) != said:
                where.wrong(
                    "wrong-ids",
                    "count, digest or the test queries among them are not those of the list",
                    "write the submission again with 'msshift submit'",
                )
            elif said.file is not None and data is not None and shift in at_hand:
                _check_held_out(ids, shift, held_out, data, where)


def _check_held_out(
    ids: Sequence[str], shift: str, held_out: str, data: str | Path, place: Place
) -> None:
    """Warn if a model was trained on queries of the group that it is said to hold out."""
    rows = load_dataset(data, shift, split="queries")
    of_group = {row.query_id for row in rows if row.group == held_out}
    if seen := len(of_group.intersection(ids)):
        message = f"{place.path}: {seen} of its training queries are of the group it holds out"
        place.found.append(Finding("saw-held-out-group", message, place.file, severity="warning"))


def _members(table: pa.Table, shift: str) -> dict[str, list[str]]:
    import pyarrow.compute as pc

    part = table.filter(pc.equal(table["shift"], shift))
    return {
        group: part.filter(pc.equal(part["group"], group))["query_id"].unique().to_pylist()
        for group in SHIFTS[shift].groups
    }


def _check_runs(submission: Submission, runs: Path, elsewhere: bool, place: Place) -> None:
    """Compare run files with what ``files`` lists; elsewhere there may be others beside them."""
    here = place.at(RUNS)
    listed = {file.path: file for file in submission.files}
    found = {
        path.relative_to(runs).as_posix(): path
        for path in sorted(runs.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    for name in sorted({*listed, *found}):
        where = here.at(name)
        if name not in found:
            where.wrong("missing-file", "is listed, and not there")
        elif found[name].is_symlink() or not found[name].is_file():
            where.wrong("not-a-file", "a link, or no plain file")
        elif name not in listed and elsewhere:
            continue
        elif name not in listed:
            where.wrong("unlisted-file", "is not listed in 'files'")
        elif sha256_of(found[name]) != listed[name].sha256:
            where.wrong("wrong-digest", "its SHA-256 is not the one in 'files'")
        elif found[name].stat().st_size != listed[name].bytes:
            where.wrong("wrong-digest", "its size is not the one in 'files'")


def _rescore(
    submission: Submission, runs: Path, data: str | Path, shifts: Sequence[str], place: Place
) -> tuple[str, ...]:
    """Score the run files again and compare everything; return the shifts that were."""
    name = submission.system.name
    run_sets = [one for one in find_run_sets([runs / name]) if one.shift.name in shifts]
    report = score_run_sets(run_sets, name, runs, data).to_json()
    claimed = {one["shift"]: one for one in (submission.report or {})["systems"]}
    for system in report["systems"]:
        shift = system["shift"]
        for path, said, found in differences(claimed[shift], system):
            here = place.at("report").at(shift)
            for key in path:
                here = here.at(key)
            here.wrong("rescored-differs", f"the report says {said!r}, the run gives {found!r}")
    said_of, of_data = (submission.report or {})["data"], report["data"]
    here = place.at("report").at("data")
    if of_data["content_digest"] == said_of["content_digest"]:
        if of_data["training"] != said_of["training"]:
            message = f"the report says {said_of['training']}, the data set has another"
            here.at("training").wrong("rescored-differs", f"{message}: {of_data['training']}")
    else:
        here.at("content_digest").found.append(
            Finding(
                "other-build",
                "the test queries are the same, but the data set was built from other queries",
                place.file,
                severity="warning",
            )
        )
    return tuple(run_set.shift.name for run_set in run_sets)
