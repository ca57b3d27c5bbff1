"""Submitting a system: from its run sets and its description to the folder of an entry."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from msshift_bench.checked import write_rows
from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import Finding, SubmissionError, UsageError
from msshift_bench.evaluation import (
    OpenedRun,
    OpenedRuns,
    OpenedRunSet,
    apply_checks,
    losses_of,
    open_run_sets,
)
from msshift_bench.leaderboard.description import (
    DESCRIPTION_NAME,
    LISTS,
    TRAINING_NAME,
    WORDS,
    Description,
    TrainedOn,
    count_training,
    list_path,
    read_description,
    read_ids,
    write_description,
    write_ids,
)
from msshift_bench.leaderboard.entries import (
    SCORES_NAME,
    SETTINGS,
    Entry,
    open_entry,
    score_submission,
)
from msshift_bench.leaderboard.gate import check_entry
from msshift_bench.plumbing import check_contents, replace_folder, write_parquet
from msshift_bench.runs import FOR_ALL, RunSource, seed_folder
from msshift_bench.shifts import DATASET_NAME

ENTRIES, RUNS = "entries", "runs"
"""The folders of a submission: the entry, and the run files to attach."""


def submit_system(
    runs: str | Path, system: str | Path, out: str | Path, data: Dataset | str | Path = DATASET_NAME
) -> Entry:
    """Score a system's run sets, and write its entry, with a copy of the run files beside it.

    Args:
        runs: the folder of one system's run sets, for any number of shifts.
        system: its description, a ``system.toml``; paths of lists are relative to it.
        out: the folder to write: ``entries/<board>/<system>/v<n>``, and ``runs``. A submission that
            is there is replaced.
        data: the built data set that the runs answer, see `open_dataset`.

    Returns:
        The entry, which has passed the gate.

    Raises:
        NotFoundError: if there is no such folder, description or data set.
        UsageError: if the folder holds several systems, or `out` something else than a submission,
            or the runs, or the description.
        RunError: if a run file is missing or malformed, or was made on other data.
        SubmissionError: if the description is wrong, does not fit the run sets or the data, or the
            gate refuses the entry.
    """
    path, out = Path(system), Path(out)
    description = read_description(path)
    check_contents(out, ENTRIES, (ENTRIES, RUNS), "a submission")
    for read in (Path(runs), path):
        if read.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{read} is in {out}, which is replaced; choose another --out")
    dataset = open_dataset(data)
    opened = open_run_sets(runs, dataset)
    _check_fits(opened, description, path)
    # Before files are copied, which takes a while; what they hold is checked when they are scored.
    apply_checks("opened", opened, SETTINGS)
    name, queries = description.system.name, description.training.queries
    with replace_folder(out) as folder:
        target = folder / ENTRIES / description.place
        target.mkdir(parents=True)
        copied = [_copied(part, folder / RUNS / name) for part in opened.run_sets]
        scores, _, warnings = score_submission(replace(opened, run_sets=copied), name)
        for part in scores:
            shift = part.shift_name
            for model in part.models if queries[shift] not in WORDS else ():
                ids = read_ids(list_path(path.parent, queries[shift], shift, model))
                write_ids(list_path(target, LISTS, shift, model), ids)
        completed = _completed(description, opened)
        write_description(target / DESCRIPTION_NAME, completed)
        rows = [row for part in scores for row in count_training(completed, target, part, dataset)]
        write_rows(target / TRAINING_NAME, TrainedOn, rows)
        warnings = [warning.removeprefix(f"{name}/") for warning in warnings]
        result = losses_of(scores, dataset.info, SETTINGS, warnings=warnings)
        write_parquet(target / SCORES_NAME, result.per_query())
        # The gate gets no data set: training queries and leaks in it were counted just now.
        verdict = check_entry(target)
        if not verdict.accepted:
            raise SubmissionError(f"{name} is refused:", verdict.findings)
    return open_entry(out / ENTRIES / description.place)


def _check_fits(opened: OpenedRuns, description: Description, path: Path) -> None:
    """Check that a description and run sets are of one system and of the same shifts."""
    systems = sorted({part.system for part in opened.run_sets})
    if len(systems) > 1:
        raise UsageError(f"a submission is of one system, and there are {', '.join(systems)}")
    if any(run.source.path is None for part in opened.run_sets for run in part.runs.values()):
        raise UsageError(
            f"{systems[0]} has predictions of MTEB, and a submission holds run files; write each "
            "run with msshift_bench.write_run to <system>/<shift>/<held-out group>.run.gz"
        )
    shifts = {part.shift_name for part in opened.run_sets}
    if description.training.queries.keys() != shifts:
        finding = Finding(
            "wrong-shifts",
            f"training.queries has {', '.join(description.training.queries)}, and there are runs "
            f"of {', '.join(sorted(shifts))}",
            str(path),
            fix="say of each shift with runs which queries its models were trained on, of no other",
        )
        raise SubmissionError("the submission does not fit together:", [finding])


def _completed(description: Description, opened: OpenedRuns) -> Description:
    """Return a description with its own lists, completed by facts of the runs' sidecars."""
    sidecars = [run.sidecar for part in opened.run_sets for run in part.runs.values()]
    system, training = description.system, description.training
    machines = (
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sidecar.hardware.items())
        for sidecar in sidecars
    )
    settings = (
        ", ".join(f"{name} = {json.dumps(value)}" for name, value in of_model if value is not None)
        for of_model in (sidecar.model_settings.items() for sidecar in sidecars)
    )
    of_system = {
        "candidates": system.candidates or _each_once(s.candidates for s in sidecars),
        "settings": system.settings or _each_once(settings),
    }
    of_training = {
        "hardware": training.hardware or _each_once(machines),
        "queries": {
            shift: words if words in WORDS else LISTS for shift, words in training.queries.items()
        },
    }
    return description.model_copy(
        update={
            "system": system.model_copy(update=of_system),
            "training": training.model_copy(update=of_training),
        }
    )


def _each_once(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(texts)))


def _copied(part: OpenedRunSet, root: Path) -> OpenedRunSet:
    """Copy a system's run files and sidecars to a folder; return the copies, named as below it."""
    runs = {}
    for (group, seed), run in part.runs.items():
        file, sidecar = run.source.path, run.sidecar
        assert file is not None
        above = () if (group, seed) == (FOR_ALL, None) else (part.shift_name, seed_folder(seed))
        target, named = (Path(folder, *above, file.name) for folder in (root, root.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in (file, sidecar.path) if sidecar.exists else (file,):
            shutil.copyfile(path, target.with_name(path.name))
        source = replace(RunSource.of(target), name=str(named))
        known = replace(sidecar, run=named, path=named.with_name(sidecar.path.name))
        runs[group, seed] = OpenedRun(source, [known])
    return replace(part, runs=runs)
