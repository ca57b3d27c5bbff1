"""Making the runs of a plan: train, encode, rank and write; what stands whole is skipped."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from dataclasses import replace
from functools import cache
from pathlib import Path

from msshift_bench.baselines.systems.plan import Plan
from msshift_bench.baselines.systems.sidecars import hardware, installed_versions
from msshift_bench.baselines.systems.system import MODEL, Run
from msshift_bench.data import sha256_of
from msshift_bench.engine import Engine, engine_in_use, using_engine
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import (
    duration,
    hold_unfinished,
    in_line,
    is_first,
    replace_folder,
    with_checksum,
    write_json,
)
from msshift_bench.runs import write_run

__all__ = ["make"]

_logger = logging.getLogger(__name__)


def make(plan: Plan, engine: Engine | None = None) -> list[Path]:
    """Make the runs of a plan, and skip those that are complete.

    All are checked before the first is made. After a kill, the same call continues and ends in the
    same bytes.

    Args:
        plan: what shall be made.
        engine: what carries tasks out; by default the one in use, which is this process unless
            `using_engine` says otherwise.

    Returns:
        The run files, by seed, shift and held-out group.

    Raises:
        UsageError, NotFoundError, DataError: see `Plan.runs`; or if another process is at work on
            one of the runs.
        MissingError: if the system's libraries are not installed, or there is no GPU although the
            recipe's precision needs one.

    Examples:
        >>> bm25 = open_system("bm25", changes={"depth": 10})
        >>> make(Plan(system=bm25, shifts=["length"], collection="mini:300", out="made"))
        [PosixPath('made/bm25/length.run.gz')]
    """
    with using_engine(engine or engine_in_use()):
        left = deque(plan.runs())
        paths = [run.path for run in left]
        missing = sum(map(_is_missing, left)) if is_first() else 0
        made, began = 0, time.monotonic()
        while left:
            # Nothing holds on to a run that is over, so that what it has read is freed.
            run = left.popleft()
            if not is_first():
                run.system.follow(run)
                continue
            number = f" ({len(paths) - len(left)} of {len(paths)})" if len(paths) > 1 else ""
            start = time.monotonic()
            with in_line(run.name + number):
                is_new = _make_run(run)
            if not is_new:
                _logger.info("%s: complete already, skipped", run.name)
                continue
            made, now = made + 1, time.monotonic()
            taken, rest = duration(now - start), duration((now - began) / made * (missing - made))
            to_come = f"; {missing - made} left to make, about {rest}" if made < missing else ""
            _logger.info("%s: made in %s%s", run.name, taken, to_come)
        plan.system.forget()
        return paths


def _is_missing(run: Run) -> bool:
    """Return whether a run is to be made, and check that this machine can."""
    state = run.state()
    if state == "running":
        raise UsageError(f"another process is writing {run.work}; wait for it, or stop it")
    if state == "complete":
        return False
    run.system.check_installed()
    run.system.check(run)
    return True


def _make_run(run: Run) -> bool:
    """Make a run file and its sidecar; return whether they were still missing."""
    with hold_unfinished(run.work, empty_parents=4):
        if run.state() == "complete":
            return False
        searched_before = run.is_complete()
        write_json(run.plan, run.identity)
        run = replace(run, rows=cache(run.rows))
        if not searched_before:
            _rank(run)
            if run.keep_model:
                _copy_folder(run.work / MODEL, run.kept_model)
        elif run.kept_model.is_dir():
            _copy_folder(run.kept_model, run.work / MODEL)
        for extra in run.lacking():
            _search_extra(replace(extra, rows=run.rows))
        if not searched_before:
            # The last file of all, since a run that has one passes for complete.
            _write_sidecar(run)
    return True


def _copy_folder(folder: Path, target: Path) -> None:
    with replace_folder(target) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)


def _search_extra(run: Run) -> None:
    """Make the run for an extra test set, with the model and the passages of the run before."""
    _rank(run)
    _write_sidecar(run)


def _rank(run: Run) -> None:
    run.path.parent.mkdir(parents=True, exist_ok=True)
    with run.stage("total"):
        rankings = run.system.rank(run)
        write_run(run.path, rankings, run.tag)


def _write_sidecar(run: Run) -> None:
    facts = {
        "schema": 1,
        **run.identity,
        "baseline": run.system.name or None,
        "tag": run.tag,
        "collection": run.collection.name,
        "queries": len(run.queries),
        **dict(sorted(run.facts.items())),
        "versions": installed_versions(),
        "hardware": {**hardware(), **run.system.hardware()},
        "seconds": {name: round(value, 3) for name, value in run.seconds.items()},
        "run_sha256": sha256_of(run.path),
    }
    write_json(run.sidecar, with_checksum(facts))
