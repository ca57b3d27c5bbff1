"""A shard on its way to an engine, and what an engine is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from msshift_bench.shards.carrying import Inputs, ShardTask, ShardWork
from msshift_bench.shards.shard_store import ShardStore

__all__ = ["Engine", "ShardPart"]


class ShardPart(NamedTuple):
    """A shard.

    Attributes:
        name: the name of its result.
        size: how many items it holds.
        inputs: its inputs; `None` if its result stands.
    """

    name: str
    size: int
    inputs: Inputs | None


class Engine(Protocol):
    """What carries shards out."""

    @property
    def place(self) -> str | None:
        """The folder or URL below which results stand; `None` to leave it to the work."""

    def carry_out(
        self,
        work: ShardWork,
        parts: Iterable[ShardPart],
        store: ShardStore,
        ready: Callable[[], ShardTask],
        advance: Callable[[int], None],
    ) -> Iterator[ShardPart]:
        """Carry out the shards whose results do not stand.

        Args:
            work: what they have in common.
            parts: the shards, in their order.
            store: where results are written.
            ready: returns an instance of the task.
            advance: may be called with the items that are done of the shard under way.

        Yields:
            Every shard, in their order, once its result stands.
        """
