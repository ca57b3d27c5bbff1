"""Submission of a system: write an entry from its run sets and its description."""

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
    """Score a system's run sets, write its entry and copy its run files.

    Args:
        runs: the folder of one system's run sets, for one or more shifts.
        system: its description, a ``system.toml``; paths of lists are relative to its folder.
        out: the folder to write: ``entries/<board>/<system>/v<n>`` and ``runs``. An earlier
            submission there is replaced.
        data: the built data set of the runs, see `open_dataset`.

    Returns:
        The entry, which has passed the gate.

    Raises:
        NotFoundError: if there is no such folder, description or data set.
        UsageError: if `runs` holds several systems, or `out` holds other files, the runs or the
            description.
        RunError: if a run file is missing or malformed, or was made on other data.
        SubmissionError: if the description is wrong or does not match the run sets or the data, or
            the gate refuses the entry.
    """
    path, out = Path(system), Path(out)
    description = read_description(path)
    check_contents(out, ENTRIES, (ENTRIES, RUNS), "a submission")
    for source in (Path(runs), path):
        if source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source} is in {out}, which is replaced; choose another --out")
    dataset = open_dataset(data)
    opened = open_run_sets(runs, dataset)
    _check_fits(opened, description, path)
    # Before the slow copy of files; the content of runs is checked during scoring.
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
        # The gate gets no data set: training queries and leaks have just been counted.
        verdict = check_entry(target)
        if not verdict.accepted:
            raise SubmissionError(f"the gate refuses {name}:", verdict.findings)
    return open_entry(out / ENTRIES / description.place)


def _check_fits(opened: OpenedRuns, description: Description, path: Path) -> None:
    """Check that run sets are files of one system, for the shifts of the description.

    Otherwise raise a UsageError, or a SubmissionError for other shifts.
    """
    systems = sorted({part.system for part in opened.run_sets})
    if len(systems) > 1:
        raise UsageError(
            f"a submission must hold one system's runs, got {', '.join(systems)}; give one folder"
        )
    if any(run.source.path is None for part in opened.run_sets for run in part.runs.values()):
        raise UsageError(
            f"{systems[0]} has predictions of MTEB, but a submission needs run files; write each "
            "run with msshift_bench.write_run to <system>/<shift>/<held-out group>.run.gz"
        )
    shifts = {part.shift_name for part in opened.run_sets}
    if description.training.queries.keys() != shifts:
        finding = Finding(
            "wrong-shifts",
            f"training.queries has {', '.join(description.training.queries)}, but there are runs "
            f"on {', '.join(sorted(shifts))}",
            str(path),
            fix="declare the training queries of each shift with runs, and of no other shift",
        )
        raise SubmissionError("the description does not match the runs:", [finding])


def _completed(description: Description, opened: OpenedRuns) -> Description:
    """Return a description with the paths of lists in the entry (`LISTS`).

    Empty candidates, settings and hardware are filled from the runs' sidecars.
    """
    sidecars = [run.sidecar for part in opened.run_sets for run in part.runs.values()]
    system, training = description.system, description.training
    machines = (
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sidecar.hardware.items())
        for sidecar in sidecars
    )
    settings = (
        ", ".join(f"{name} = {json.dumps(value)}" for name, value in items if value is not None)
        for items in (sidecar.model_settings.items() for sidecar in sidecars)
    )
    system_update = {
        "candidates": system.candidates or _join_distinct(s.candidates for s in sidecars),
        "settings": system.settings or _join_distinct(settings),
    }
    training_update = {
        "hardware": training.hardware or _join_distinct(machines),
        "queries": {
            shift: words if words in WORDS else LISTS for shift, words in training.queries.items()
        },
    }
    return description.model_copy(
        update={
            "system": system.model_copy(update=system_update),
            "training": training.model_copy(update=training_update),
        }
    )


def _join_distinct(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(texts)))


def _copied(part: OpenedRunSet, root: Path) -> OpenedRunSet:
    """Copy run files and sidecars to a folder, and return the copied run set.

    The names of its files are relative to the parent of `root`.
    """
    runs = {}
    for (group, seed), run in part.runs.items():
        file, sidecar = run.source.path, run.sidecar
        assert file is not None
        parents = () if (group, seed) == (FOR_ALL, None) else (part.shift_name, seed_folder(seed))
        target, name = (Path(folder, *parents, file.name) for folder in (root, root.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in (file, sidecar.path) if sidecar.exists else (file,):
            shutil.copyfile(path, target.with_name(path.name))
        source = replace(RunSource.of(target), name=str(name))
        copy = replace(sidecar, run=name, path=name.with_name(sidecar.path.name))
        runs[group, seed] = OpenedRun(source, [copy])
    return replace(part, runs=runs)
