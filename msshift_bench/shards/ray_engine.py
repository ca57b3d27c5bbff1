"""Shards on a Ray cluster, one task each; what a lost node was doing, another does again."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msshift_bench.errors import MissingError, check_installed, require
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

__all__ = ["RayEngine"]

_WHAT = "--engine ray"

_RETRIES = 20
"""How often a task is begun again after its node or worker was lost."""

_PATIENCE = 10
"""Seconds within which a cluster's address must answer."""


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Shards on a Ray cluster.

    Attributes:
        address: the cluster's, ``host:port``; ``auto`` for the one that runs on this machine.
        workers: most shards under way at once; by default twice the cluster's processors.
        place: see `Engine`. What is a URL, workers write themselves; for a folder, this process
            writes what they return.

    Raises:
        MissingExtraError: if Ray is not installed.
    """

    address: str = "auto"
    workers: int | None = None
    place: str | None = None

    def __post_init__(self) -> None:
        check_installed("ray", "cluster", _WHAT)

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
            MissingError: if no cluster answers, or it lost a shard's workers too often.
        """
        del ready, advance
        ray: Any = None
        mine = False
        task = common = None
        most = 0
        waiting: deque[tuple[ShardPart, Any]] = deque()
        try:
            for part in parts:
                if part.inputs is not None and ray is None:
                    ray = require("ray", "cluster", _WHAT)
                    mine = self._connect(ray)
                    task = ray.remote(max_retries=_RETRIES)(_carry_there)
                    common = ray.put(work)
                    most = self.workers or 2 * int(ray.cluster_resources().get("CPU", 1))
                given = None
                if part.inputs is not None:
                    assert task is not None
                    url = store.place if store.folder is None else None
                    given = task.remote(common, part.inputs, url, part.name)
                waiting.append((part._replace(inputs=None), given))
                if len(waiting) > max(1, most):
                    yield _finish(ray, *waiting.popleft(), store)
            while waiting:
                yield _finish(ray, *waiting.popleft(), store)
        finally:
            for _, given in waiting:
                if given is not None:
                    ray.cancel(given)
            if mine:
                ray.shutdown()

    def _connect(self, ray: Any) -> bool:
        """Connect with the cluster, and return whether that was not done yet."""
        if ray.is_initialized():
            return False
        # Ray's own advice on a variable of its next version is of no use to the user.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        host, _, port = self.address.rpartition(":")
        try:
            if host and "://" not in host:
                # Ray itself would ask an address at which nobody answers for minutes.
                socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError) as error:
            first = str(error).strip().partition("\n")[0].rstrip(".")
            raise MissingError(
                f"no Ray cluster answers at {self.address} ({first}): start one with "
                "`ray start --head`, or give as --address what that printed"
            ) from error
        return True


def _finish(ray: Any, part: ShardPart, given: Any, store: ShardStore) -> ShardPart:
    if given is None:
        return part
    try:
        result = ray.get(given)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.ObjectLostError) as error:
        raise MissingError(
            f"the cluster lost the workers of shard {part.name} {_RETRIES} times: type the same "
            "command again; finished shards are kept"
        ) from error
    if isinstance(result, Refusal):
        raise_refusal(result, part.name)
    elif result is not None:
        store.write(part.name, result)
    return part


def _carry_there(
    work: ShardWork, inputs: Inputs, url: str | None, name: str
) -> Array | Refusal | None:
    """Carry a shard out on a node of the cluster.

    Args:
        work: what all shards have in common.
        inputs: the shard's own inputs.
        url: where the node writes the result itself; `None` to return it.
        name: the result's name there.
    """
    result = carry(work, inputs)
    if url is None or isinstance(result, Refusal):
        return result
    ShardStore(url).write(name, result)
    return None
