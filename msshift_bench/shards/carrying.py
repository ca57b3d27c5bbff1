"""What carries a shard out, on whatever machine: a task is found by its name, then made ready.

A task is a class at the top of an importable module. What all shards have in common makes an
instance, which may load a model or an index; the instance turns the inputs of a shard into one
array. A process keeps the instance that it made last, so that it is made ready once for many
shards.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from msshift_bench._version import __version__
from msshift_bench.errors import DataError, MissingError, MsShiftError, UsageError

__all__ = [
    "Array",
    "Inputs",
    "Refusal",
    "ShardTask",
    "ShardWork",
    "carry",
    "digest_of",
    "pack_inputs",
    "raise_refusal",
    "task_name",
    "unpack_inputs",
]

Array = NDArray[Any]

Inputs = Mapping[str, Any]
"""JSON values and arrays, by name."""

_JSON = "json"
"""The name under which `pack_inputs` keeps what is no array."""


class ShardTask(Protocol):
    """An instance of a task, made from what all shards have in common."""

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> Array:
        """Carry a shard out.

        Args:
            inputs: the shard's own inputs.
            advance: may be called with the number of items that are done.
        """


class ShardWork(NamedTuple):
    """What all shards of a job have in common.

    Attributes:
        task: the task's name, ``module:class``.
        common: what an instance is made from.
        digest: the digest of the two, without what only says where things are.
        version: the package's version, which must be the same on every machine.
    """

    task: str
    common: Inputs
    digest: str
    version: str = __version__

    @classmethod
    def of(
        cls, task: Callable[[Inputs], ShardTask], common: Inputs, places: Mapping[str, str]
    ) -> ShardWork:
        """Return the work of a task; see `map_shards`."""
        name = task_name(task)
        return cls(name, {**common, **places}, digest_of({**common, "task": name}))


class Refusal(NamedTuple):
    """An error that was raised on purpose on another machine: errors themselves may not travel."""

    exit_code: int
    message: str


def task_name(task: Callable[[Inputs], ShardTask]) -> str:
    """Return the name by which other processes find a task."""
    return f"{task.__module__}:{task.__qualname__}"


_ready: dict[str, ShardTask] = {}
"""The digest of the work that this process did last -> the instance that does it."""


def carry(work: ShardWork, inputs: Inputs) -> Array | Refusal:
    """Carry a shard out in this process, which other machines have sent it.

    Args:
        work: what all shards have in common.
        inputs: the shard's own inputs.

    Returns:
        The result, or why there is none.
    """
    try:
        if work.version != __version__:
            raise UsageError(
                f"this machine has msshift-bench {__version__}, and the shards were cut by "
                f"{work.version}: install the same version on all machines"
            )
        if work.digest not in _ready:
            _ready.clear()
            module, _, name = work.task.partition(":")
            _ready[work.digest] = getattr(importlib.import_module(module), name)(work.common)
        return _ready[work.digest](inputs, _unheard)
    except MsShiftError as error:
        return Refusal(error.exit_code, str(error))


def _unheard(done: int) -> None:
    del done


def raise_refusal(refusal: Refusal, shard: str) -> None:
    """Raise the error that another process refused a shard with.

    Raises:
        MissingError: if it lacked something.
        UsageError: if the request was wrong.
        DataError: if data failed a check.
    """
    kinds: dict[int, type[MsShiftError]] = {3: MissingError, 2: UsageError}
    kind = kinds.get(refusal.exit_code, DataError)
    raise kind(f"shard {shard}: {refusal.message}")


def digest_of(inputs: Inputs) -> str:
    """Return the SHA-256 of inputs: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        value = inputs[name]
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype.str} {value.shape}\n".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(f"{name} {json.dumps(value, sort_keys=True)}\n".encode())
    return digest.hexdigest()


def pack_inputs(inputs: Inputs) -> bytes:
    """Return inputs as a file."""
    arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in inputs.items() if name not in arrays}
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(rest).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{_JSON: text}, **arrays)
    return buffer.getvalue()


def unpack_inputs(content: bytes) -> dict[str, Any]:
    """Return what `pack_inputs` packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        found: dict[str, Any] = dict(arrays)
    found.update(json.loads(found.pop(_JSON).tobytes()))
    return found
