"""Shards in a job array: this process writes them down, and a script that SLURM carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msshift_bench.shards.carrying import ShardTask, ShardWork
from msshift_bench.shards.job_folder import ShardJob, ShardsAwaitedError
from msshift_bench.shards.shard_part import ShardPart
from msshift_bench.shards.shard_store import ShardStore

__all__ = ["SlurmEngine"]


@dataclass(frozen=True, slots=True)
class SlurmEngine:
    """Shards in a job array.

    Attributes:
        command: the arguments of the command that takes the results up.
        workers: most jobs at once; as many as the cluster lets run, if `None`.
        place: see `Engine`.
    """

    command: tuple[str, ...] = ()
    workers: int | None = None
    place: str | None = None

    def carry_out(
        self,
        work: ShardWork,
        parts: Iterable[ShardPart],
        store: ShardStore,
        ready: Callable[[], ShardTask],
        advance: Callable[[int], None],
    ) -> Iterator[ShardPart]:
        """Yield the shards if all results stand; see `Engine`.

        Raises:
            ShardsAwaitedError: if some do not: they were written down for `run_shards`.
        """
        del ready, advance
        assert store.folder is not None
        job = ShardJob(store.folder)
        standing: list[ShardPart] = []
        missing: list[str] = []
        for part in parts:
            if part.inputs is not None:
                job.keep(part.name, part.inputs)
                missing.append(part.name)
            standing.append(part._replace(inputs=None))
        if missing:
            job.begin(work, missing, self.command, self.workers)
            raise ShardsAwaitedError(job, len(missing), len(standing))
        yield from standing
