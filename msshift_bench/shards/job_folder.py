"""The folder of a job array: shards written down, the script, and carrying them out one by one.

::

    job.json          the task, the names of the shards, and the command that takes them up
    common.npz        what all shards have in common
    inputs/<shard>    the inputs of each shard
    <shard>.npy       the results
    job.sbatch        the script; its output goes to logs/
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msshift_bench.errors import DataError, MsShiftError, NotFoundError, UsageError
from msshift_bench.plumbing import write_atomically, write_json
from msshift_bench.shards.carrying import (
    Inputs,
    Refusal,
    ShardWork,
    carry,
    pack_inputs,
    raise_refusal,
    unpack_inputs,
)
from msshift_bench.shards.shard_store import ShardStore

__all__ = ["ShardJob", "ShardsAwaitedError", "merge_shards", "run_shards"]

_MOST = 1000
"""Jobs in an array; SLURM's own limit (MaxArraySize) is 1,001 unless a cluster sets another."""

_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=msshift
#SBATCH --array=0-{last}{limit}
#SBATCH --output={logs}
exec {python} -m msshift_bench shards run {folder} "$SLURM_ARRAY_TASK_ID"
"""


class ShardJob:
    """The folder of a job array.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def script(self) -> Path:
        """The script for ``sbatch``."""
        return self.folder / "job.sbatch"

    @property
    def plan(self) -> Path:
        """The file that says what the job is."""
        return self.folder / "job.json"

    @property
    def common(self) -> Path:
        """The file of what all shards have in common."""
        return self.folder / "common.npz"

    def inputs_of(self, name: str) -> Path:
        """Return the file of a shard's inputs."""
        return self.folder / "inputs" / f"{name}.npz"

    def keep(self, name: str, inputs: Inputs) -> None:
        """Write down the inputs of a shard, unless they are there."""
        if not self.inputs_of(name).exists():
            with write_atomically(self.inputs_of(name)) as file:
                file.write(pack_inputs(inputs))

    def begin(
        self, work: ShardWork, names: Sequence[str], command: Sequence[str], workers: int | None
    ) -> None:
        """Write down what the shards have in common, and the script.

        Args:
            work: what they have in common.
            names: the names of the shards.
            command: the arguments of the command that takes the results up.
            workers: most jobs at once; no limit, if `None`.
        """
        with write_atomically(self.common) as file:
            file.write(pack_inputs(work.common))
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        jobs = min(len(names), _MOST)
        write_json(
            self.plan,
            {
                "schema": 1,
                "task": work.task,
                "digest": work.digest,
                "version": work.version,
                "jobs": jobs,
                "shards": list(names),
                "command": list(command),
                "working_folder": str(Path.cwd()),
            },
        )
        script = _SCRIPT.format(
            last=jobs - 1,
            limit="" if workers is None else f"%{workers}",
            logs=shlex.quote(f"{logs}/%a.log"),
            python=shlex.quote(sys.executable),
            folder=shlex.quote(str(self.folder)),
        )
        with write_atomically(self.script) as file:
            file.write(script.encode())

    def read(self) -> dict[str, Any]:
        """Return the plan.

        Raises:
            NotFoundError: if the folder holds no job.
        """
        try:
            plan: dict[str, Any] = json.loads(self.plan.read_bytes())
        except FileNotFoundError:
            raise NotFoundError(
                f"{self.folder} holds no {self.plan.name}: give the folder of the script that a "
                "command with --engine slurm has written"
            ) from None
        return plan


class ShardsAwaitedError(MsShiftError):
    """Shards were written down for a job array, and the command goes on when they are done.

    Args:
        job: the job.
        missing: shards to carry out.
        total: all shards.

    Attributes:
        job: the job.
    """

    exit_code = 0

    def __init__(self, job: ShardJob, missing: int, total: int) -> None:
        self.job = job
        super().__init__(
            f"{missing} of {total} shards wait in {job.folder}: start them with "
            f"`sbatch {shlex.quote(str(job.script))}`, and then go on with "
            f"`msshift shards merge {shlex.quote(str(job.folder))}`"
        )


def run_shards(folder: Path, number: int) -> list[str]:
    """Carry out the shards of one job of an array, each unless its result stands.

    Args:
        folder: the folder of the job array.
        number: the job's number, from 0; where there are more shards than jobs, each job has every
            so many-th shard.

    Returns:
        The names of the shards that were carried out now.

    Raises:
        NotFoundError: if the folder holds no job array.
        UsageError: if there is no such job, or this machine has another version of the package.
        MissingError: if this machine lacks something.
        DataError: if data fails a check.
    """
    job = ShardJob(folder)
    plan = job.read()
    jobs: int = plan["jobs"]
    if not 0 <= number < jobs:
        raise UsageError(f"{folder} has the jobs 0 to {jobs - 1}, not {number}")
    store = ShardStore(folder)
    common = unpack_inputs(job.common.read_bytes())
    work = ShardWork(plan["task"], common, plan["digest"], plan["version"])
    made = []
    for name in plan["shards"][number::jobs]:
        if not store.stands(name):
            result = carry(work, unpack_inputs(job.inputs_of(name).read_bytes()))
            if isinstance(result, Refusal):
                raise_refusal(result, name)
            else:
                store.write(name, result)
                made.append(name)
    return made


def merge_shards(folder: Path) -> tuple[list[str], Path]:
    """Check that all shards of a job array are done.

    Args:
        folder: the folder of the job array.

    Returns:
        The arguments of the command that takes the results up, and the folder to call it in.

    Raises:
        NotFoundError: if the folder holds no job array.
        DataError: if results are missing; it names the jobs to start again.
    """
    job = ShardJob(folder)
    plan = job.read()
    names, jobs, store = plan["shards"], plan["jobs"], ShardStore(folder)
    missing = [place for place, name in enumerate(names) if not store.stands(name)]
    if missing:
        again = ",".join(str(number) for number in sorted({place % jobs for place in missing}))
        raise DataError(
            f"{len(missing)} of {len(names)} shards in {folder} are not done: look into "
            f"{folder / 'logs'}, and start these jobs again with `sbatch --array={again} "
            f"{shlex.quote(str(job.script))}`"
        )
    return plan["command"], Path(plan["working_folder"])
