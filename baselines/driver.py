"""Running a baseline over shifts: the function behind ``msshift baseline run``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from msshift_bench.baselines.estimates import PlannedRun
from msshift_bench.baselines.processes import is_first
from msshift_bench.baselines.provenance import (
    check_same,
    hardware,
    installed_versions,
    is_complete,
    read_json,
)
from msshift_bench.baselines.registry import find_baselines
from msshift_bench.baselines.shift_data import ShiftData
from msshift_bench.baselines.system import RunFacts, System, Task
from msshift_bench.data import Collection, Dataset, open_collection, open_dataset, sha256_of
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.plumbing import Progress, hold_unfinished, silent, write_json
from msshift_bench.runs import run_path, sidecar_path, write_run
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift

__all__ = ["plan_baseline", "run_baseline", "run_system"]

WORK = ".work"
"""The folder of unfinished work, e.g. ``.work/<system>/<shift>/<held-out>``."""

LOGS = ".logs"
"""The folder of TensorBoard's files, e.g. ``.logs/<system>/<shift>/<held-out>``."""

_PLAN = "plan.json"


class _Folders(NamedTuple):
    """The folders of a run's unfinished work and of its logs."""

    work: Path
    logs: Path


def run_baseline(
    system: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seeds: Sequence[int] = (),
    progress: Progress | None = None,
    **options: object,
) -> list[Path]:
    """Make a system's run files for shifts, and skip those that are complete.

    A system that is trained gives one run file per held-out group, any other one per shift. Each
    ranks passages for the test queries of all groups of the shift. After a kill, the same call
    continues and ends in the same bytes.

    Args:
        system: a name in `find_baselines`.
        shifts: the shifts, e.g. ``["length", "wh-words"]``.
        collection: the collection that the data set was built from, or what `open_collection`
            takes.
        out: the folder of run sets; ``<out>/<system>/<shift>/...`` is written.
        data: the built data set; see `open_dataset`.
        held_out: only the models that hold these groups out; all, if empty.
        seeds: train replicates with these seeds, each into a folder of its own.
        progress: called with ``(stage, done, total)``.
        **options: the system's own; `None` means its default. BM25: ``k1``, ``b``, ``stemmer``,
            ``stop_words``, ``depth``, ``engine`` (see `bm25.Bm25Parameters`). Neural systems:
            ``recipe`` (a name or a path), and ``encoder``, ``seed``, ``precision``, ``depth`` to
            replace the recipe's values; ``triples``: ``released`` to train on those of the data
            set, ``mine`` to mine them as the recipe says, ``auto`` (the default) for the released
            ones if there are any and the recipe's negatives are BM25's.

    Returns:
        The run files, by shift and held-out group in the requested order.

    Raises:
        UnknownNameError: for a system, shift, group or option that does not exist.
        UsageError: if the collection is not the data set's, a run at `out` was made differently, or
            another process is at work there.
        NotFoundError: if there is no such data set or collection, or the data set lacks the
            requested triples.
        MissingError: if the system's libraries are not installed, or there is no GPU although the
            recipe's precision needs one.
        DataError: if the data fails a check.
    """
    dataset, collection = open_dataset(data), open_collection(collection)
    runs = []
    for seed, chosen in _replicates(system, seeds, options):
        runs += run_system(
            chosen,
            shifts,
            collection=collection,
            out=out,
            data=dataset,
            held_out=held_out,
            seed=seed,
            progress=progress,
        )
    return runs


def plan_baseline(
    system: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seeds: Sequence[int] = (),
    **options: object,
) -> list[PlannedRun]:
    """Return the runs that `run_baseline` would make, their states and estimates; write nothing.

    It takes the arguments of `run_baseline` and raises the same errors.
    """
    dataset, collection = open_dataset(data), open_collection(collection)
    out = Path(out).expanduser()
    passages = sum(1 for _ in collection.passages())
    planned = []
    for seed, chosen in _replicates(system, seeds, options):
        for shift in map(get_shift, dict.fromkeys(shifts)):
            source = ShiftData.read(shift, dataset, collection)
            queries = len(source.queries())
            estimate = cache(partial(chosen.estimate, passages, queries))
            for group in _held_out(chosen, shift, held_out):
                chosen.choose_triples(source, group)
                run, folders = _places(out, chosen, shift, group, seed)
                begun = (folders.work / _PLAN).exists()
                done = run.exists() and sidecar_path(run).exists()
                state = "begun" if begun else "complete" if done else "new"
                planned.append(PlannedRun(run, state, estimate(source.count(group, "train"))))
    return planned


def _replicates(
    system: str, seeds: Sequence[int], options: Mapping[str, object]
) -> Iterator[tuple[int | None, System]]:
    """Yield the system with its options for each seed; once, with no seed, if there are none."""
    baselines = find_baselines()
    if system not in baselines:
        raise UnknownNameError("system", system, baselines)
    baseline = baselines[system]
    if seeds and "seed" not in baseline.options:
        raise UsageError(f"{system} takes no seed, so there are no replicates of it")
    if seeds and options.get("seed") is not None:
        raise UsageError("give either a seed or the seeds of replicates")
    for seed in dict.fromkeys(seeds):
        yield seed, baseline.make({**options, "seed": seed})
    if not seeds:
        yield None, baseline.make(options)


def run_system(
    system: System,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seed: int | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Make the run files of a system whose parameters are chosen; see `run_baseline`.

    Args:
        system: the system.
        shifts: the shifts.
        collection: the collection.
        out: the folder of run sets.
        data: the built data set.
        held_out: only the models that hold these groups out; all, if empty.
        seed: the seed of a replicate, for the name of its folder; `None` where there is only one.
        progress: called with ``(stage, done, total)``.
    """
    chosen = [get_shift(name) for name in dict.fromkeys(shifts)]
    groups = {shift.name: _held_out(system, shift, held_out) for shift in chosen}
    dataset, collection = open_dataset(data), open_collection(collection)
    out = Path(out).expanduser()
    runs = []
    for shift in chosen:
        source = ShiftData.read(shift, dataset, collection)
        for group in groups[shift.name]:
            run, folders = _places(out, system, shift, group, seed)
            if is_first():
                _make_run(system, source, group, run, folders, progress or silent)
            else:
                identity = _identity(system, source, group)
                is_over = partial(is_complete, run, sidecar_path(run), identity)
                system.follow(folders.work, folders.logs, is_over)
            runs.append(run)
    return runs


def _places(
    out: Path, system: System, shift: Shift, group: str | None, seed: int | None
) -> tuple[Path, _Folders]:
    """Return the paths of a run, its unfinished work and its logs."""
    run = run_path(out, system.name, shift, group, seed)
    folder = run.parent.relative_to(out) if group else Path(system.name, shift.name)
    place = folder / (group or "all")
    return run, _Folders(out / WORK / place, out / LOGS / place)


def _held_out(system: System, shift: Shift, groups: Sequence[str]) -> list[str | None]:
    if not system.per_group:
        if groups:
            raise UsageError(f"{system.name} is not trained, so no group can be held out of it")
        return [None]
    return [shift.check_group(group) for group in dict.fromkeys(groups)] or list(shift.groups)


def _identity(system: System, source: ShiftData, held_out: str | None) -> dict[str, object]:
    """Return the facts that decide a run: two runs that agree in them are the same.

    They do not hold the collection's name, and need no reading of its passages.
    """
    triples = system.choose_triples(source, held_out)
    return {
        "system": system.name,
        "shift": source.shift.name,
        "held_out": held_out,
        "edition": source.dataset.manifest.edition,
        "data_version": source.dataset.manifest.data_version,
        "data_digest": source.dataset.manifest.content_digest,
        "text_variant": source.collection.text_variant,
        "parameters": dict(system.parameters),
        "released_triples": triples and {"config": triples.config, "sha256": triples.sha256},
    }


def _make_run(
    system: System,
    source: ShiftData,
    held_out: str | None,
    run: Path,
    folders: _Folders,
    progress: Progress,
) -> None:
    identity = _identity(system, source, held_out)
    sidecar = sidecar_path(run)
    work = folders.work
    plan = work / _PLAN
    with hold_unfinished(work, empty_parents=4):
        begun = plan.exists()
        if is_complete(run, sidecar, identity):
            return
        if run.exists() and not begun:
            raise UsageError(
                f"{run} exists, and nothing says what made it; choose another --out, or remove it"
            )
        system.check(work)
        if begun:
            check_same(read_json(plan), identity, plan, f"remove the folder {work}")
        write_json(plan, identity)
        record = RunFacts()
        train = source.split(held_out, "train")
        if held_out is not None:
            shared = source.check_disjoint(train, held_out)
            record.facts["training"] = {"queries": len(train), **shared}
        queries = source.queries()
        task = Task(
            shift=source.shift,
            held_out=held_out,
            collection=source.collection,
            queries=queries,
            train=train,
            validation=source.split(held_out, "validation"),
            triples=system.choose_triples(source, held_out),
            work=work,
            logs=folders.logs,
            record=record,
            progress=progress,
        )
        run.parent.mkdir(parents=True, exist_ok=True)
        with record.stage("total"):
            write_run(run, system.rankings(task), system.tag)
        write_json(
            sidecar,
            {
                "schema": 1,
                **identity,
                "tag": system.tag,
                "collection": source.collection.name,
                "queries": len(queries),
                **dict(sorted(record.facts.items())),
                "versions": installed_versions(),
                "hardware": {**hardware(), **system.hardware()},
                "seconds": {name: round(value, 3) for name, value in record.seconds.items()},
                "run_sha256": sha256_of(run),
            },
        )
