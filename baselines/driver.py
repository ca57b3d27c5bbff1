"""Running a baseline over shifts: the function behind ``msshift baseline run``."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msshift_bench.baselines.estimates import Estimate, PlannedRun
from msshift_bench.baselines.jobs import NO_TEST_SETS, Job, jobs_of
from msshift_bench.baselines.provenance import hardware, installed_versions
from msshift_bench.baselines.registry import find_baselines
from msshift_bench.baselines.system import MODEL, RunFacts, System, Task
from msshift_bench.data import Collection, Dataset, TestSet, sha256_of
from msshift_bench.errors import MissingError, UnknownNameError, UsageError
from msshift_bench.plumbing import (
    Progress,
    duration,
    hold_unfinished,
    in_line,
    is_first,
    replace_folder,
    silent,
    with_checksum,
    write_json,
)
from msshift_bench.runs import sidecar_path, write_run
from msshift_bench.shifts import DATASET_NAME

__all__ = ["plan_baseline", "run_baseline", "run_system"]

_logger = logging.getLogger(__name__)


def run_baseline(
    system: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seeds: Sequence[int] = (),
    name: str | None = None,
    keep_model: bool = False,
    also_test: Mapping[str, str | Path] = NO_TEST_SETS,
    progress: Progress | None = None,
    **options: object,
) -> list[Path]:
    """Make a system's run files for shifts, and skip those that are complete.

    A system that is trained gives one run file per held-out group, any other one per shift. Each
    ranks passages for the test queries of all groups of the shift. All runs are checked before the
    first is made. After a kill, the same call continues and ends in the same bytes.

    Args:
        system: a name in `find_baselines`.
        shifts: the shifts, e.g. ``["length", "wh-words"]``.
        collection: the collection that the data set was built from, or what `open_collection`
            takes.
        out: the folder of run sets; ``<out>/<system>/<shift>/...`` is written.
        data: the built data set; see `open_dataset`.
        held_out: only the models that hold these groups out; all, if empty.
        seeds: train replicates with these seeds, each into a folder of its own.
        name: the name of the runs' folder and the beginning of their tag, so that two recipes of
            one system stand side by side; by default the system's.
        keep_model: whether each trained model is kept, as a folder of sentence-transformers beside
            its run: ``short.model`` beside ``short.run.gz``.
        also_test: name -> the folder of an extra test set (``queries.tsv``, ``qrels.tsv``), or a
            file of variants of the shifts' test queries, for which every model searches, too; see
            `read_extra_tests`. Their runs go to ``<out>/<system>/also/<name>``, laid out as the
            others. A run that is complete without them is searched for them again, if its model
            was kept, or the system is not trained.
        progress: called with ``(stage, done, total)``; a stage is called ``<model>: <stage>``, so
            that `in_line` puts those of a model into one line.
        **options: the system's own; `None` means its default. BM25: ``k1``, ``b``, ``stemmer``,
            ``stop_words``, ``depth``, ``engine`` (see `bm25.Bm25Parameters`). Neural systems:
            ``recipe`` (a name or a path), and ``encoder``, ``seed``, ``precision``, ``depth`` to
            replace the recipe's values; ``triples``: ``released`` to train on those of the data
            set, ``mine`` to mine them as the recipe says, ``auto`` (the default) for the released
            ones if there are any and the recipe's negatives are BM25's, at least in a warm-up.

    Returns:
        The run files, by shift and held-out group in the requested order.

    Raises:
        UnknownNameError: for a system, shift, group or option that does not exist.
        UsageError: if the collection is not the data set's, a run at `out` was made differently,
            another process is at work there, or `name` cannot be a folder's.
        NotFoundError: if there is no such data set or collection, or the data set lacks the
            requested triples.
        MissingError: if the system's libraries are not installed, or there is no GPU although the
            recipe's precision needs one.
        DataError: if the data, or an extra test set, fails a check.

    Example:
        >>> run_baseline("bm25", ["length"], collection="mini:300", out="made")
        [PosixPath('made/bm25/length.run.gz')]
    """
    jobs = jobs_of(
        _replicates(system, seeds, options, name),
        shifts,
        collection,
        out,
        data,
        held_out=held_out,
        keep_model=keep_model,
        also_test=also_test,
    )
    return _make_all(jobs, progress or silent, system)


def plan_baseline(
    system: str,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seeds: Sequence[int] = (),
    name: str | None = None,
    keep_model: bool = False,
    also_test: Mapping[str, str | Path] = NO_TEST_SETS,
    **options: object,
) -> list[PlannedRun]:
    """Return the runs that `run_baseline` would make, their states and estimates; write nothing.

    It takes the arguments of `run_baseline`, makes the same checks and raises the same errors. What
    this machine lacks is no error here: each run that needs it says so.
    """
    jobs = list(
        jobs_of(
            _replicates(system, seeds, options, name),
            shifts,
            collection,
            out,
            data,
            held_out=held_out,
            keep_model=keep_model,
            also_test=also_test,
        )
    )
    passages = sum(1 for job in jobs[:1] for _ in job.source.collection.passages())
    estimates: dict[tuple[str, int], Estimate | None] = {}
    planned = []
    for job in jobs:
        state, lacks = job.state(), None
        if state != "complete":
            job.training()
            lacks = _lacks(job)
        shift, training = job.source.shift.name, job.source.count(job.held_out, "train")
        if (shift, training) not in estimates:
            searched = [job.source.queries(), *(extra.rows for extra in job.also_test)]
            queries = sum(map(len, searched))
            estimates[shift, training] = job.system.estimate(passages, queries, training)
        # A run that only lacks test sets takes less, and nobody has measured how much.
        estimate = None if job.is_complete() else estimates[shift, training]
        planned.append(PlannedRun(job.run, state, estimate, lacks))
    return planned


def _lacks(job: Job) -> str | None:
    try:
        job.system.check(job.work)
    except MissingError as error:
        return str(error)
    return None


def _replicates(
    system: str, seeds: Sequence[int], options: Mapping[str, object], name: str | None
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
    for seed in dict.fromkeys(seeds) or [None]:
        chosen = baseline.make(options if seed is None else {**options, "seed": seed})
        chosen.name = chosen.name if name is None else name
        yield seed, chosen


def run_system(
    system: System,
    shifts: Sequence[str],
    *,
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    held_out: Sequence[str] = (),
    seed: int | None = None,
    keep_model: bool = False,
    also_test: Mapping[str, str | Path] = NO_TEST_SETS,
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
        keep_model: whether each trained model is kept beside its run.
        also_test: name -> an extra test set to search, too.
        progress: called with ``(stage, done, total)``.
    """
    jobs = jobs_of(
        [(seed, system)],
        shifts,
        collection,
        out,
        data,
        held_out=held_out,
        keep_model=keep_model,
        also_test=also_test,
    )
    return _make_all(jobs, progress or silent)


def _make_all(jobs: Iterable[Job], progress: Progress, baseline: str | None = None) -> list[Path]:
    """Make run files, and tell the log how far they are.

    Args:
        jobs: the run files.
        progress: called with ``(stage, done, total)``.
        baseline: the system's name in the table of baselines; `None` if it is not from there.
    """
    left = deque(jobs)
    runs = [job.run for job in left]
    missing = sum(map(_is_missing, left)) if is_first() else 0
    made, began = 0, time.monotonic()
    while left:
        # Nothing holds on to a job that is over, so that the index of its system is freed.
        job = left.popleft()
        if not is_first():
            job.system.follow(job.work, job.is_complete)
            continue
        number = f" ({len(runs) - len(left)} of {len(runs)})" if len(runs) > 1 else ""
        start = time.monotonic()
        if not _make_run(job, in_line(progress, job.name + number), baseline):
            _logger.info("%s: complete already, skipped", job.name)
            continue
        made, now = made + 1, time.monotonic()
        taken, rest = duration(now - start), duration((now - began) / made * (missing - made))
        what_is_left = f"; {missing - made} left to make, about {rest}" if made < missing else ""
        _logger.info("%s: made in %s%s", job.name, taken, what_is_left)
    return runs


def _is_missing(job: Job) -> bool:
    """Check a job before anything is made, and return whether its run is to be made."""
    state = job.state()
    if state == "running":
        raise UsageError(f"another process is writing {job.work}; wait for it, or stop it")
    if state == "complete":
        return False
    job.system.check(job.work)
    job.training()
    return True


def _make_run(job: Job, progress: Progress, baseline: str | None) -> bool:
    """Make a run file and its sidecar; return whether they were still missing."""
    system, source = job.system, job.source
    with hold_unfinished(job.work, empty_parents=4):
        if job.state() == "complete":
            return False
        searched_before = job.is_complete()
        identity = job.identity()
        write_json(job.plan, identity)
        record = RunFacts()
        train, facts = job.training()
        if facts:
            record.facts["training"] = facts
        task = Task(
            name=job.name,
            shift=source.shift,
            held_out=job.held_out,
            collection=source.collection,
            queries=source.queries(),
            train=train,
            validation=source.split(job.held_out, "validation"),
            triples=job.triples,
            work=job.work,
            record=record,
            progress=progress,
            teacher=job.teacher,
        )
        if not searched_before:
            job.run.parent.mkdir(parents=True, exist_ok=True)
            with record.stage("total"):
                write_run(job.run, system.rankings(task), job.tag)
            if job.keep_model:
                _copy_folder(job.work / MODEL, job.kept_model)
        elif job.kept_model.is_dir():
            _copy_folder(job.kept_model, job.work / MODEL)
        for extra in job.lacking():
            searched = RunFacts({"training": dict(facts)} if facts else {})
            _search_extra(job, extra, replace(task, record=searched), baseline)
        if not searched_before:
            # The last file of all, since a run that has one passes for complete.
            write_json(job.sidecar, _sidecar(job, job.run, identity, task, baseline))
    return True


def _copy_folder(folder: Path, target: Path) -> None:
    with replace_folder(target) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)


def _search_extra(job: Job, extra: TestSet, task: Task, baseline: str | None) -> None:
    """Make the run for an extra test set, with the model and the passages of the task before."""
    run = job.extra_run(extra)
    name = f"{job.name} on {extra.name}"
    task = replace(task, name=name, queries=extra.rows, test_set=extra.name)
    run.parent.mkdir(parents=True, exist_ok=True)
    with task.record.stage("total"):
        write_run(run, job.system.rankings(task), job.tag)
    write_json(sidecar_path(run), _sidecar(job, run, job.extra_identity(extra), task, baseline))


def _sidecar(
    job: Job, run: Path, identity: Mapping[str, object], task: Task, baseline: str | None
) -> dict[str, object]:
    return with_checksum(
        {
            "schema": 1,
            **identity,
            "baseline": baseline,
            "tag": job.tag,
            "collection": job.source.collection.name,
            "queries": len(task.queries),
            **dict(sorted(task.record.facts.items())),
            "versions": installed_versions(),
            "hardware": {**hardware(), **job.system.hardware()},
            "seconds": {name: round(value, 3) for name, value in task.record.seconds.items()},
            "run_sha256": sha256_of(run),
        }
    )
