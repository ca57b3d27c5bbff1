"""Making a submission: a folder for the gate, from run sets and a description."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msshift_bench.data import Dataset, open_dataset, sha256_of
from msshift_bench.errors import SubmissionError, UsageError
from msshift_bench.evaluation import SystemScores, check_passages, check_sidecars
from msshift_bench.leaderboard.boards import get_board
from msshift_bench.leaderboard.file_list import RUNS, SCORES_NAME, is_expected, write_file_list
from msshift_bench.leaderboard.layout import RUN_PATH, SUBMISSION_NAME
from msshift_bench.leaderboard.meta import Meta, read_meta
from msshift_bench.leaderboard.rescoring import data_digest, score_run_sets
from msshift_bench.leaderboard.strict_files import dump_json, read_strict_json
from msshift_bench.leaderboard.submission import (
    Submission,
    SubmittedRun,
    Training,
    TrainingIds,
    parse_submission,
)
from msshift_bench.leaderboard.trained_on import (
    NONE,
    ONE_MODEL,
    OWN_SPLIT,
    UNDECLARED,
    exposure_of,
    own_split,
    read_ids,
    training_ids,
    write_ids,
)
from msshift_bench.plumbing import Progress, replace_folder, settle, silent, write_parquet
from msshift_bench.runs import RunSet, find_run_sets, sidecar_path, split_run_name
from msshift_bench.schema import Place
from msshift_bench.shifts import DATASET_NAME

__all__ = ["make_submission"]


def make_submission(
    runs: str | Path,
    meta: str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    *,
    keep_runs: bool = True,
    progress: Progress = silent,
) -> Submission:
    """Validate and evaluate a system's run sets, and write its submission.

    Args:
        runs: the folder of one system's run sets, for any number of shifts.
        meta: its description, a ``meta.toml``.
        out: the folder to write; an older submission there is replaced.
        data: the built data set, see `open_dataset`.
        keep_runs: whether to copy the run files into it. Without them, whoever adds the submission
            must get them elsewhere, to score them again.
        progress: called with ``(stage, done, total)``.

    Returns:
        The content of ``submission.json``.

    Raises:
        NotFoundError: if there is no such folder, description or data set.
        UsageError: if the folder holds several systems, or `out` holds something else than a
            submission, or the very runs that are to be left out.
        RunError: if a run file is missing or malformed, or was made on other data.
        SubmissionError: if the description is wrong, or does not fit the run sets or the data.
    """
    described = read_meta(meta)
    run_sets = find_run_sets([runs])
    out = Path(out)
    settle(out)
    _check_out(out)
    if not keep_runs and Path(runs).resolve().is_relative_to(out.resolve()):
        raise UsageError(
            f"{runs} is in {out}, and the runs there would be lost without copies of them; choose "
            "another --out"
        )
    dataset = open_dataset(data)
    _check_fit(described, run_sets, dataset)
    sidecars = _sidecars(run_sets)
    _check_one_seed(described, run_sets, sidecars)
    name = described.system.name
    with replace_folder(out) as folder:
        _check_out(out)
        copied = [_copy(run_set, folder / RUNS, name) for run_set in run_sets]
        report = score_run_sets(copied, name, folder / RUNS, dataset, progress)
        queries = {
            result.shift.name: ids
            for result in report.systems
            if (ids := _declared(described, result.scores, dataset, folder))
        }
        training = Training(
            per_group=run_sets[0].single is None,
            exposure=UNDECLARED,
            queries=queries,
            **_filled_in(described, run_sets, sidecars),
        )
        record = report.record()
        shifts = [system.shift for system in record.systems]
        submission = Submission(
            board=described.board,
            version=1,
            note=described.note,
            submitted=described.submitted,
            badge="rescored",
            system=replace(described.system, candidates=_candidates(described, sidecars)),
            authors=described.authors,
            training=replace(training, exposure=exposure_of(training, shifts)),
            reproduction=described.reproduction,
            report=record,
            reported=None,
            files=tuple(
                SubmittedRun(run.name, (folder / RUNS / run.name).stat().st_size, run.digest)
                for system in record.systems
                for run in system.runs
            ),
        )
        content = submission.to_json()
        parse_submission(content)
        (folder / SUBMISSION_NAME).write_bytes(dump_json(content))
        write_parquet(folder / SCORES_NAME, report.per_query())
        if not keep_runs:
            shutil.rmtree(folder / RUNS)
        write_file_list(folder)
    return submission


def _check_out(out: Path) -> None:
    if out.exists() and not (out / SUBMISSION_NAME).is_file() and any(out.iterdir()):
        raise UsageError(f"{out} holds something else than a submission; choose another --out")
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if not (path.is_dir() or is_expected(name)):
            raise UsageError(
                f"{out} holds {name}, which is no file of a submission and would be lost; choose "
                "another --out, or move it away"
            )


def _check_fit(meta: Meta, run_sets: Sequence[RunSet], dataset: Dataset) -> None:
    """Check that description, run sets and data agree; report all findings at once."""
    systems = sorted({run_set.system for run_set in run_sets})
    if len(systems) > 1:
        raise UsageError(
            f"a submission is of one system, and there are {', '.join(systems)}; give the folder "
            "of one"
        )
    place = Place(meta.name)
    queries = place.at("training").at("queries")
    board = get_board(meta.board)
    per_group = [run_set.single is None for run_set in run_sets]
    if len(set(per_group)) > 1:
        place.wrong(
            "mixed-run-sets", "some run sets are per held-out group and some are not", "use one way"
        )
    for run_set in run_sets:
        shift = run_set.shift.name
        declared = meta.queries.get(shift)
        if declared is None:
            queries.at(shift).wrong(
                "missing-field",
                "is missing, and there are runs for it",
                f"say which queries it was trained on, or {UNDECLARED!r}",
            )
        elif declared == OWN_SPLIT and run_set.single is not None:
            queries.at(shift).wrong(
                "not-per-group",
                f"{OWN_SPLIT!r} is the training split of each held-out group, and there is one "
                "run for all",
                f"give a list of ids, {NONE!r} or {UNDECLARED!r}",
            )
        elif declared == NONE and run_set.single is None:
            queries.at(shift).wrong(
                "not-untrained", f"{NONE!r}, but there is a run for every held-out group"
            )
        if shift not in board.shifts:
            place.at("board").wrong("unknown-shift", f"{board.id} has no results on {shift}")
        elif (digest := data_digest(shift, dataset)) not in board.shifts[shift]:
            place.at("board").wrong(
                "test-set-not-accepted",
                f"{board.id} does not take results on the test queries of {shift} in "
                f"{dataset.folder} ({digest[:12]})",
                "build or install the data set that the board names, or choose another board",
            )
        for held_out, path in _by_model(run_set):
            _check_sidecar(path, shift, held_out, place)
    seeds, given = _seeds(run_sets), meta.training["seeds"]
    if given and seeds and set(given) != seeds:
        place.at("training").at("seeds").wrong(
            "seeds-mismatch", f"{given}, and the run sets have the seeds {sorted(seeds)}"
        )
    if place.findings:
        raise SubmissionError("the submission does not fit together:", place.findings)
    files = [path for run_set in run_sets for path in run_set.files]
    check_sidecars(files, dataset.info)
    check_passages((f"{one.system}/{one.shift.name}", one.files) for one in run_sets)


def _by_model(run_set: RunSet) -> list[tuple[str | None, Path]]:
    if run_set.single is not None:
        return [(None, run_set.single)]
    return [item for runs in run_set.runs.values() for item in runs.items()]


def _check_sidecar(path: Path, shift: str, held_out: str | None, place: Place) -> None:
    """Check that a baseline's sidecar describes this run."""
    sidecar = sidecar_path(path)
    if not sidecar.is_file():
        return
    content = read_strict_json(sidecar)
    if not _is_sidecar(content):
        place.wrong(
            "sidecar-differs",
            f"{sidecar} does not describe a run as 'msshift baseline run' does",
            "remove it, or give it another name",
        )
    elif (content.get("shift"), content.get("held_out")) != (shift, held_out) or (
        content.get("run_sha256") != sha256_of(path)
    ):
        place.wrong(
            "sidecar-differs",
            f"{sidecar} is not about {path.name}: another run, or of another held-out group",
            "put the run back where it was written, or remove the sidecar if the run is right",
        )


def _is_sidecar(content: Any) -> bool:
    """Say whether the fields that a submission takes from a sidecar are of their types."""
    if not isinstance(content, dict):
        return False
    types = {"parameters": dict, "hardware": dict, "candidates": str}
    typed = all(isinstance(content.get(name, kind()), kind) for name, kind in types.items())
    return typed and type(content.get("parameters", {}).get("seed", 0)) is int


def _check_one_seed(
    meta: Meta, run_sets: Sequence[RunSet], sidecars: Sequence[Mapping[str, Any]]
) -> None:
    """Check that runs outside of seed folders are not said to be of several seeds."""
    told = _told_seeds(sidecars).union(meta.training["seeds"])
    if len(told) > 1 and not _seeds(run_sets):
        place = Place(meta.name)
        place.at("training").at("seeds").wrong(
            "seeds-mismatch",
            f"the seeds {sorted(told)}, and one run of each model",
            "put the runs of each seed into a folder seed-<n>, or train all models with one",
        )
        raise SubmissionError("the submission does not fit together:", place.findings)


def _copy(run_set: RunSet, root: Path, name: str) -> RunSet:
    """Copy a run set's files to their places in a submission, and return the copy."""

    def copy(path: Path, *parts: str) -> Path:
        named = split_run_name(path.name)
        assert named is not None
        target = root.joinpath(name, *parts, f"{named.stem}.run{named.compressed}")
        if not RUN_PATH.fullmatch(target.relative_to(root).as_posix()):
            raise UsageError(
                f"{path}: a seed of a submission has at most 9 digits; rename its folder"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        return target

    shift = run_set.shift.name
    if run_set.single is not None:
        return replace(run_set, system=name, single=copy(run_set.single))
    runs = {
        seed: {
            group: copy(path, shift, *([] if seed is None else [f"seed-{seed}"]))
            for group, path in files.items()
        }
        for seed, files in run_set.runs.items()
    }
    return replace(run_set, system=name, runs=runs)


def _declared(
    meta: Meta, scores: SystemScores, dataset: Dataset, folder: Path
) -> dict[str, TrainingIds]:
    """Return held-out group -> the model's training queries; {} if undeclared."""
    shift, queries = scores.shift, meta.queries[scores.shift.name]
    tests = {group: scores.ids_of(group) for group in scores.groups}
    if queries == UNDECLARED:
        return {}
    if queries == NONE:
        return {ONE_MODEL: training_ids((), tests, None)}
    declared = {}
    for held_out in dict.fromkeys(run.held_out or ONE_MODEL for run in scores.runs):
        if queries == OWN_SPLIT:
            declared[held_out] = training_ids(own_split(shift, held_out, dataset), tests, None)
            continue
        name = "all" if held_out == ONE_MODEL else held_out
        path = queries.replace("{shift}", shift.name).replace("{held_out}", name)
        ids = read_ids(meta.folder / path)
        file = f"train/{shift.name}/{name}.txt.gz"
        write_ids(folder / file, ids)
        declared[held_out] = training_ids(ids, tests, file)
    return declared


def _filled_in(
    meta: Meta, run_sets: Sequence[RunSet], sidecars: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the fields of training; seeds and hardware come from the sidecars if left out."""
    training = dict(meta.training)
    seeds = _seeds(run_sets) or _told_seeds(sidecars)
    training["seeds"] = tuple(training["seeds"] or sorted(seeds))
    machines = dict.fromkeys(_machine(sidecar.get("hardware", {})) for sidecar in sidecars)
    training["hardware"] = training["hardware"] or "; ".join(filter(None, machines))
    return training


def _candidates(meta: Meta, sidecars: Sequence[Mapping[str, Any]]) -> str:
    """Return the system's candidates, from the sidecars if left out."""
    candidates = dict.fromkeys(sidecar.get("candidates", "") for sidecar in sidecars)
    return meta.system.candidates or "; ".join(filter(None, candidates))


def _sidecars(run_sets: Sequence[RunSet]) -> list[dict[str, Any]]:
    """Return the sidecars of the runs that baselines made."""
    paths = [sidecar_path(path) for run_set in run_sets for path in run_set.files]
    return [read_strict_json(path) for path in paths if path.is_file()]


def _seeds(run_sets: Sequence[RunSet]) -> set[int]:
    return {seed for run_set in run_sets for seed in run_set.runs if seed is not None}


def _told_seeds(sidecars: Sequence[Mapping[str, Any]]) -> set[int]:
    parameters = [sidecar.get("parameters", {}) for sidecar in sidecars]
    return {one["seed"] for one in parameters if "seed" in one}


def _machine(hardware: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in hardware.items())
