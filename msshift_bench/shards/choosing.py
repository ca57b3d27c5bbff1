"""Which engine carries shards out: one at a time for the whole process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.shards.local_engine import LocalEngine
from msshift_bench.shards.ray_engine import RayEngine
from msshift_bench.shards.shard_part import Engine
from msshift_bench.shards.slurm_engine import SlurmEngine

__all__ = ["SHARD_ENGINES", "choose_engine", "engine_in_use", "using_engine", "works_here"]

SHARD_ENGINES = ("local", "ray", "slurm")
"""This machine, a Ray cluster, or a job array that SLURM starts."""

_in_use: list[Engine] = [LocalEngine()]
"""The engines of the enclosing blocks, the innermost last."""


def choose_engine(
    name: str = "local",
    *,
    address: str | None = None,
    workers: int | None = None,
    place: str | Path | None = None,
    command: Sequence[str] = (),
) -> Engine:
    """Return an engine that carries shards out.

    Args:
        name: one of `SHARD_ENGINES`.
        address: ray: the cluster's, ``host:port``; by default the one on this machine.
        workers: local: processes, 1 by default; ray: most shards under way; slurm: most jobs at
            once.
        place: the folder or URL below which the results of shards stand; by default beside the
            rest of the unfinished work.
        command: slurm: the arguments of the command that `merge_shards` takes up again.

    Raises:
        UnknownNameError: for another engine.
        UsageError: if something was given that the engine does not have.
        MissingExtraError: if Ray is not installed.
    """
    if name not in SHARD_ENGINES:
        raise UnknownNameError("engine", name, SHARD_ENGINES)
    if address is not None and name != "ray":
        raise UsageError(f"--address is a Ray cluster's: give --engine ray, not {name}")
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}; it must be 1 or more")
    where = None if place is None else str(place)
    if name == "ray":
        return RayEngine(address or "auto", workers, where)
    if name == "slurm":
        if where is not None and "://" in where:
            raise UsageError(
                f"--shards {where}: a job array needs a folder that all nodes see, not a URL"
            )
        return SlurmEngine(tuple(command), workers, where)
    return LocalEngine(workers or 1, where)


def engine_in_use() -> Engine:
    """Return the engine that carries shards out now."""
    return _in_use[-1]


def works_here() -> bool:
    """Return whether shards are carried out on this machine, in this process or beside it."""
    return isinstance(engine_in_use(), LocalEngine)


@contextmanager
def using_engine(engine: Engine) -> Iterator[None]:
    """Let an engine carry out all shards of the block, whatever function cuts them.

    Args:
        engine: the engine; see `choose_engine`.
    """
    _in_use.append(engine)
    try:
        yield
    finally:
        _in_use.pop()
