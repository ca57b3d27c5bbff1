"""Shards on this machine: in this process, or in several."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from msshift_bench.errors import MissingError
from msshift_bench.plumbing import thread_count
from msshift_bench.shards.carrying import (
    Array,
    Inputs,
    Refusal,
    ShardTask,
    ShardWork,
    carry,
    raise_refusal,
)
from msshift_bench.shards.shard_part import ShardPart
from msshift_bench.shards.shard_store import ShardStore

__all__ = ["LocalEngine"]

_THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Shards on this machine.

    Attributes:
        workers: processes; with one, this process itself works, with all its threads.
        place: see `Engine`.
    """

    workers: int = 1
    place: str | None = None

    def carry_out(
        self,
        work: ShardWork,
        parts: Iterable[ShardPart],
        store: ShardStore,
        ready: Callable[[], ShardTask],
        advance: Callable[[int], None],
    ) -> Iterator[ShardPart]:
        """Carry out the shards whose results do not stand; see `Engine`.

        Raises:
            MissingError: if the system ended a worker, for want of memory for one.
        """
        if self.workers > 1:
            yield from self._in_processes(work, parts, store, ready)
            return
        instance: ShardTask | None = None
        for part in parts:
            if part.inputs is not None:
                instance = instance or ready()
                store.write(part.name, instance(part.inputs, advance))
            yield part

    def _in_processes(
        self,
        work: ShardWork,
        parts: Iterable[ShardPart],
        store: ShardStore,
        ready: Callable[[], ShardTask],
    ) -> Iterator[ShardPart]:
        # A process that has started threads must not fork.
        context = multiprocessing.get_context("spawn")
        threads = max(1, thread_count() // self.workers)
        waiting: deque[tuple[ShardPart, Future[Array | Refusal] | None]] = deque()
        pool = ProcessPoolExecutor(self.workers, context, _begin, (work, threads))
        begun = False
        try:
            for part in parts:
                if part.inputs is not None and not begun:
                    # Or every worker would make what they find in the cache.
                    ready()
                    begun = True
                given = None if part.inputs is None else pool.submit(_carry_here, part.inputs)
                waiting.append((part._replace(inputs=None), given))
                if len(waiting) > 2 * self.workers:
                    yield _finish(*waiting.popleft(), store)
            while waiting:
                yield _finish(*waiting.popleft(), store)
        except BrokenProcessPool as error:
            raise MissingError(
                "a worker of --engine local was ended from outside, perhaps for want of memory: "
                "type the same command again, with fewer --workers; finished shards are kept"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _finish(part: ShardPart, given: Future[Array | Refusal] | None, store: ShardStore) -> ShardPart:
    if given is not None:
        result = given.result()
        if isinstance(result, Refusal):
            raise_refusal(result, part.name)
        else:
            store.write(part.name, result)
    return part


_work: list[ShardWork] = []
"""In a worker: the work that it was started for."""


def _begin(work: ShardWork, threads: int) -> None:
    """Make a process a worker that uses so many threads."""
    from threadpoolctl import threadpool_limits

    # Libraries that are loaded later read the variable, those that are loaded already do not.
    os.environ[_THREADS] = str(threads)
    threadpool_limits(threads)
    _work[:] = [work]


def _carry_here(inputs: Inputs) -> Array | Refusal:
    return carry(_work[0], inputs)
