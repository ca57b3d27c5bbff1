"""A cluster whose one machine is this process: its tasks arrive pickled, as at a machine of Ray."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from msshift_bench.engine import Engine

__all__ = ["OneMachine"]


def _nothing(_item: Any) -> None:
    """Do nothing before a task."""


@dataclass(frozen=True, slots=True)
class OneMachine(Engine):
    """An engine with a cluster's address, which starts no cluster.

    Attributes:
        before: called with each item before its task: what differs on another machine.
    """

    address: str | None = "one-machine"
    before: Callable[[Any], object] = field(default=_nothing)

    def __post_init__(self) -> None:
        """Need no Ray."""

    def map(
        self, task: Callable[[Any], Any], items: Iterable[Any], *, cpus: int = 1, gpus: float = 0
    ) -> Iterator[Any]:
        """Run a copy of the task on a copy of each item."""
        for item in items:
            there, arrived = pickle.loads(cloudpickle.dumps((task, item)))
            self.before(item)
            yield there(arrived)
