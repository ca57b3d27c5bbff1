"""The one function that maps over shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from msshift_bench.plumbing import Progress, silent
from msshift_bench.shards.carrying import Inputs, ShardTask, ShardWork, digest_of
from msshift_bench.shards.choosing import engine_in_use
from msshift_bench.shards.shard_part import ShardPart
from msshift_bench.shards.shard_store import ShardStore

__all__ = ["Shard", "map_shards"]

NOWHERE: Mapping[str, str] = MappingProxyType({})
"""No places."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of some work.

    Attributes:
        inputs: what decides its result, beside what all shards have in common.
        size: how many items it holds, for progress.
    """

    inputs: Inputs
    size: int


def map_shards(
    task: Callable[[Inputs], ShardTask],
    common: Inputs,
    shards: Iterable[Shard],
    folder: Path,
    *,
    places: Mapping[str, str] = NOWHERE,
    ready: Callable[[], ShardTask] | None = None,
    stage: str = "shards",
    total: int = 0,
    progress: Progress = silent,
) -> Iterator[tuple[ShardStore, str]]:
    """Carry shards out by the engine in use, each unless its result stands.

    The result of a shard is one array. Its name holds the shard's place and the digest of the
    task, of what is common and of its inputs.

    Args:
        task: a class at the top of an importable module; see `carrying`.
        common: what an instance of it is made from: JSON values and arrays.
        shards: the shards, in their order; streamed.
        folder: where results stand, unless the engine has a place of its own for them.
        places: what an instance is made from, too, and does not decide any result: where the
            machines find a model or a collection.
        ready: returns an instance, for shards that this process carries out itself; by default
            one is made of `common`.
        stage: what progress calls the work.
        total: the items of all shards; 0 if that is not known.
        progress: called with ``(stage, done, total)``.

    Yields:
        Where the result of each shard stands, and its name there, in the order of the shards.

    Raises:
        ShardsAwaitedError: if other machines are to carry them out, and have not yet.
        MissingError: if the engine, or something that the task needs, is missing.
        UsageError: if the work cannot be done as requested.
        DataError: if data fails a check of the task.
    """
    engine, work = engine_in_use(), ShardWork.of(task, common, places)
    store = ShardStore(folder) if engine.place is None else ShardStore(engine.place)
    if engine.place is not None:
        store = store.within(work.digest[:16])
    done = 0

    def parts() -> Iterator[ShardPart]:
        for place, shard in enumerate(shards):
            digest = digest_of({"work": work.digest, "inputs": digest_of(shard.inputs)})
            name = f"{place:05d}-{digest[:16]}.npy"
            yield ShardPart(name, shard.size, None if store.stands(name) else shard.inputs)

    def advance(items: int) -> None:
        progress(stage, done + items, total)

    for part in engine.carry_out(
        work, parts(), store, ready or (lambda: task(work.common)), advance
    ):
        done += part.size
        progress(stage, done, total)
        yield store, part.name
