"""Submitting a system: from its run sets and its description to the folder of an entry."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from msshift_bench.checked import write_rows
from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import Finding, SubmissionError, UsageError
from msshift_bench.evaluation import Checks, losses_of
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
from msshift_bench.runs import RunSet, Sidecar, find_run_sets, sidecar_path
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
    run_sets, dataset = find_run_sets([runs]), open_dataset(data)
    sidecars = _fitting_sidecars(run_sets, dataset, description, path)
    name, queries = description.system.name, description.training.queries
    with replace_folder(out) as folder:
        target = folder / ENTRIES / description.place
        target.mkdir(parents=True)
        for file in [file for run_set in run_sets for file in run_set.files]:
            _copy(file, run_sets[0].system, folder / RUNS / name)
        scores = score_submission(find_run_sets([folder / RUNS]), name, dataset)
        for part in scores:
            shift = part.shift_name
            for model in part.models if queries[shift] not in WORDS else ():
                ids = read_ids(list_path(path.parent, queries[shift], shift, model))
                write_ids(list_path(target, LISTS, shift, model), ids)
        completed = _completed(description, sidecars)
        write_description(target / DESCRIPTION_NAME, completed)
        rows = [row for part in scores for row in count_training(completed, target, part, dataset)]
        write_rows(target / TRAINING_NAME, TrainedOn, rows)
        # The record of the scores names run files relative to the folder that is handed in.
        checks = Checks(dataset.info)
        doubts = [d for part in scores for d in checks.doubts_about(part, part.shift_name)]
        result = losses_of(scores, dataset.info, SETTINGS, doubts=doubts)
        table, prefix = result.per_query(), json.dumps(f"{folder / RUNS}/", ensure_ascii=False)
        head = {k: v.replace(prefix[1:-1].encode(), b"") for k, v in table.schema.metadata.items()}
        write_parquet(target / SCORES_NAME, table.replace_schema_metadata(head))
        # The gate gets no data set: training queries and leaks in it were counted just now.
        verdict = check_entry(target)
        if not verdict.accepted:
            raise SubmissionError(f"{name} is refused:", verdict.findings)
    return open_entry(out / ENTRIES / description.place)


def _fitting_sidecars(
    run_sets: Sequence[RunSet], dataset: Dataset, description: Description, path: Path
) -> list[Sidecar]:
    """Return the sidecars of runs, if description, runs and data belong together."""
    systems = sorted({run_set.system for run_set in run_sets})
    if len(systems) > 1:
        raise UsageError(f"a submission is of one system, and there are {', '.join(systems)}")
    shifts = {run_set.shift.name for run_set in run_sets}
    if description.training.queries.keys() != shifts:
        finding = Finding(
            "wrong-shifts",
            f"training.queries has {', '.join(description.training.queries)}, and there are runs "
            f"of {', '.join(sorted(shifts))}",
            str(path),
            fix="say of each shift with runs which queries its models were trained on, of no other",
        )
        raise SubmissionError("the submission does not fit together:", [finding])
    files = [file for run_set in run_sets for file in run_set.files]
    checks = Checks(dataset.info)
    checks.check_run_sets(run_sets)
    return [checks.sidecar(file) for file in files]


def _completed(description: Description, sidecars: Sequence[Sidecar]) -> Description:
    """Return a description with its own lists, and what it leaves out from the runs' sidecars."""
    machines = [
        ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sidecar.hardware.items())
        for sidecar in sidecars
    ]
    candidates = description.system.candidates or _each_once(s.candidates for s in sidecars)
    hardware = description.training.hardware or _each_once(machines)
    queries = {
        shift: words if words in WORDS else LISTS
        for shift, words in description.training.queries.items()
    }
    changes = {
        "system": description.system.model_copy(update={"candidates": candidates}),
        "training": description.training.model_copy(
            update={"hardware": hardware, "queries": queries}
        ),
    }
    return description.model_copy(update=changes)


def _each_once(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(texts)))


def _copy(file: Path, system: str, root: Path) -> None:
    """Copy a run file, and its sidecar, to the place below a system's folder that it has now."""
    parts = file.absolute().parts
    target = root.joinpath(*parts[len(parts) - parts[::-1].index(system) :])
    target.parent.mkdir(parents=True, exist_ok=True)
    for source in filter(Path.is_file, (file, sidecar_path(file))):
        shutil.copyfile(source, target.with_name(source.name))
