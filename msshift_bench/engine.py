"""Where tasks are carried out: in this process, or on a Ray cluster, which nothing else knows.

A task is a function at the top of a module with one argument. `Engine.map` carries it out for many
arguments, and `Engine.keep` keeps what it returns for each, under the digest of the argument, and
skips what stands. So neither the engine, nor the number of machines, their order or their failures
can change a byte.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import chain, islice
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from msshift_bench._version import __version__
from msshift_bench.errors import (
    DataError,
    IntegrityError,
    MissingError,
    MsShiftError,
    UsageError,
    check_installed,
    require,
)
from msshift_bench.libraries import Library
from msshift_bench.plumbing import (
    map_sealed_array,
    report_progress,
    reporting,
    seal_array,
    unseal_array,
    write_bytes,
)

__all__ = [
    "Engine",
    "KeptArray",
    "engine_in_use",
    "receiving_reports",
    "forwarding_reports",
    "using_engine",
]

ray: Any = Library("ray", "cluster", "--ray")
_queue: Any = Library("ray.util.queue", "cluster", "--ray")
_raylet: Any = Library("ray._raylet", "cluster", "--ray")
_services: Any = Library("ray._private.services", "cluster", "--ray")
_scheduling: Any = Library("ray.util.scheduling_strategies", "cluster", "--ray")

_logger = logging.getLogger(__name__)

A = TypeVar("A")
B = TypeVar("B")
Array = NDArray[Any]

_RETRIES = 20
"""How often Ray begins a task again after its node or worker was lost."""

_PATIENCE = 10
"""Seconds within which a cluster's address must answer."""

_MODE = "RAY_AUTH_MODE"
"""The environment variable by which Ray uses tokens (``token``) or none (``disabled``)."""

_ATTEMPTS = 3
"""Attempts to connect with a token, one a second; Ray's default is 20."""


@dataclass(frozen=True, slots=True)
class KeptArray:
    """The place of an array, which stands there whole or not at all.

    What reads or writes at a URL raises MissingError if that fails: nothing is installed for such
    URLs, or there is no such bucket, no permission, no answer.

    Attributes:
        folder: a folder, which is made, or a URL that fsspec knows, such as ``s3://bucket/name``,
            where there must be such a bucket or folder.
        name: the file's name there.
    """

    folder: str
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_remote(self) -> bool:
        """Whether all machines find it, since it is at a URL."""
        return "://" in self.folder

    def stands(self) -> bool:
        """Return whether it is there."""
        if not self.is_remote:
            return Path(self.folder, self.name).exists()
        with self._reached() as (system, path):
            return bool(system.exists(path))

    def write(self, array: Array) -> None:
        """Write it, whole or not at all."""
        content = seal_array(array)
        if not self.is_remote:
            write_bytes(Path(self.folder, self.name), content)
            return
        with self._reached() as (system, path):
            system.pipe_file(f"{path}.partial", content)
            system.mv(f"{path}.partial", path)

    def load(self) -> Array:
        """Return it: read-only, and mapped from its file, if it is in a folder.

        Raises:
            IntegrityError: if it was damaged, be it by a single bit.
        """
        try:
            if not self.is_remote:
                return map_sealed_array(Path(self.folder, self.name))
            with self._reached() as (system, path):
                content = system.cat_file(path)
            return unseal_array(content)
        except ValueError as error:
            raise IntegrityError(
                f"{self} was damaged after it was written: remove it, and type the same command "
                "again"
            ) from error

    def remove(self) -> None:
        """Remove it."""
        if self.is_remote:
            with self._reached() as (system, path):
                system.rm_file(path)
        else:
            Path(self.folder, self.name).unlink()

    @contextmanager
    def _reached(self) -> Iterator[tuple[Any, str]]:
        """Give the file system of a URL and the path in it; each system has errors of its own."""
        fsspec = require("fsspec", "cluster", "a URL as --store")
        try:
            # A listing that is kept would hide what other machines have written since.
            system, root = fsspec.core.url_to_fs(self.folder, use_listings_cache=False)
            yield system, f"{root}/{self.name}"
        except Exception as error:
            raise MissingError(
                f"{self.folder} cannot be used: {type(error).__name__}: {error}. Is there such a "
                "bucket or folder, does it answer, and do the credentials allow to read, write "
                "and delete?"
            ) from error


@dataclass(frozen=True, slots=True)
class Engine:
    """What carries tasks out.

    Attributes:
        address: a Ray cluster's, ``host:port``, or ``auto`` for the one on this machine; `None` for
            this process.
        store: the folder or URL where `keep` keeps results; `None` to leave it to the caller. To a
            URL the machines of a cluster write themselves; what else they make comes back here.
        wait: whether a task that no present node of the cluster can run waits for one that can.

    Raises:
        MissingExtraError: if Ray is to be used and not installed.
    """

    address: str | None = None
    store: str | None = None
    wait: bool = False

    def __post_init__(self) -> None:
        if self.address is not None:
            check_installed("ray", "cluster", "--ray")

    def map(
        self, task: Callable[[A], B], items: Iterable[A], *, cpus: int = 1, gpus: float = 0
    ) -> Iterator[B]:
        """Yield what a task returns for each item, in their order.

        Args:
            task: a function at the top of a module.
            items: the arguments; streamed. Ray must be able to pickle them.
            cpus: Ray: the processors that a task takes, and the threads that it uses: what rests
                on their number, such as training, needs that of a run here for the same bytes.
            gpus: Ray: the GPUs that a task takes; none, where the cluster has none.

        A task of a cluster works in the folder of this process, where it has that, too; what it
        reports and tells the log comes here.

        Raises:
            MissingError: if no cluster answers, none of its nodes can run a task, or it lost the
                workers of a task too often.
            MsShiftError: what a task raises.
        """
        if self.address is None:
            yield from map(task, items)
        else:
            yield from self._on_cluster(task, items, cpus, gpus)

    def keep(
        self, task: Callable[[A], Array], items: Iterable[A], folder: Path
    ) -> Iterator[KeptArray]:
        """Carry a task out for the items whose results do not stand.

        Args:
            task: a function at the top of a module; it returns an array.
            items: dataclasses. The fields by which they are compared decide the result, and hold
                JSON values, arrays or dataclasses; others only say where things are.
            folder: where results stand, unless the engine has a store.

        Yields:
            Where the result of each item stands, in their order, as soon as it does.

        Raises:
            MissingError, MsShiftError: see `map`.
        """
        place = str(folder) if self.store is None else self.store.rstrip("/")
        unfinished: deque[KeptArray] = deque()

        def missing() -> Iterator[tuple[KeptArray, A]]:
            for number, item in enumerate(items):
                result = KeptArray(place, f"{number:05d}-{_digest(task, item)[:16]}.npy")
                unfinished.append(result)
                if not result.stands():
                    yield result, item

        tasks = missing()
        # To find that all results stand, no cluster is needed.
        first = list(islice(tasks, 1))
        for result, array in self.map(partial(_make, task), chain(first, tasks)) if first else ():
            if array is not None:
                result.write(array)
            while unfinished[0] != result:  # It stood before.
                yield unfinished.popleft()
            yield unfinished.popleft()
        yield from unfinished

    def _on_cluster(
        self, task: Callable[[A], B], items: Iterable[A], cpus: int, gpus: float
    ) -> Iterator[B]:
        with ExitStack() as alone:
            ends = _in_use[-1].ends or alone
            if not ray.is_initialized():
                self._connect()
                # A connection has workers of its own, which import what tasks need: one is enough
                # for a block.
                ends.callback(ray.shutdown)
            results = self._on_workers(task, items, cpus, gpus)
            # Who is not asked for all results would say goodbye to Ray when that is gone.
            ends.callback(results.close)
            yield from results

    def _on_workers(
        self, task: Callable[[A], B], items: Iterable[A], cpus: int, gpus: float
    ) -> Generator[B, None, None]:
        resources = ray.cluster_resources()
        gpus = gpus if "GPU" in resources else 0
        self._check_nodes(cpus, gpus)
        options = {"max_retries": _RETRIES, "num_cpus": cpus, "num_gpus": gpus}
        remote = ray.remote(**options)(_carry_out)
        connection = ray.get_runtime_context()
        # Every cluster numbers its jobs from 1.
        spare = _spare_queues[connection.get_node_id(), connection.get_job_id()]
        told = spare.pop() if spare else _new_queue()
        where = (cpus, __version__, Path.cwd(), told)
        started = (remote.remote(task, item, *where) for item in items)
        waiting: deque[Any] = deque()
        try:
            with receiving_reports(told):
                waiting.extend(islice(started, 2 * int(resources.get("CPU", 1))))
                while waiting:
                    result = _result(waiting[0])
                    waiting.popleft()
                    waiting.extend(islice(started, 1))
                    yield result
        finally:
            for reference in waiting:
                ray.cancel(reference)
            if waiting:  # What they still tell is of no use to another call.
                told.shutdown(force=True)
            else:
                spare.append(told)

    def _check_nodes(self, cpus: int, gpus: float) -> None:
        """Check that a present node can run a task, or log that the task waits for one."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
            return
        present = sorted({(node.get("CPU", 0), node.get("GPU", 0)) for node in nodes})
        problem = (
            f"a task takes {cpus} CPU and {gpus:g} GPU, and no node of the Ray cluster has as many"
            ": " + " or ".join(f"{n_cpus:g} CPU and {n_gpus:g} GPU" for n_cpus, n_gpus in present)
        )
        if not self.wait:
            raise MissingError(
                f"{problem}; start a node that has, lower OMP_NUM_THREADS or --gpus, or wait for "
                "such a node with --wait"
            )
        _logger.warning("%s; it waits for one", problem)

    def _connect(self) -> None:
        # Ray's own advice on a variable of its next version is of no use to the user, nor are
        # errors of tasks that nobody waits for, since another one ended the command.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(_ATTEMPTS))
        host, _, port = str(self.address).rpartition(":")
        mode = os.environ.get(_MODE)
        try:
            if host and "://" not in host:
                # Ray itself would ask an address at which nobody answers for minutes.
                socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
            with _silent_stderr():
                _choose_mode(str(self.address), mode)
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if "AuthenticationError" in f"{error!r} {error.__cause__}":
                raise MissingError(
                    f"the Ray cluster at {self.address} requires its token: set RAY_AUTH_MODE=token"
                    ", and RAY_AUTH_TOKEN to what `ray get-auth-token` prints on the head node's "
                    "machine, unless ~/.ray/auth_token holds it here"
                ) from error
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise MissingError(
                f"no Ray cluster answers at {self.address} ({reason}): start one with "
                "`ray start --head`, or give as --ray what that printed"
            ) from error
        finally:
            os.environ.pop(_MODE, None)
            os.environ |= {} if mode is None else {_MODE: mode}


class _EngineInUse(NamedTuple):
    """A block with an engine, and what is done at its end; `None` for what is in no block."""

    engine: Engine
    ends: ExitStack | None


_in_use = [_EngineInUse(Engine(), None)]
"""The enclosing blocks, the innermost last."""

_spare_queues: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
"""Node and job of a connection -> queues that no call uses; an actor takes seconds to start."""


def engine_in_use() -> Engine:
    """Return the engine that carries tasks out now."""
    return _in_use[-1].engine


@contextmanager
def using_engine(engine: Engine) -> Iterator[None]:
    """Let an engine carry out all tasks of the block, whatever function has them."""
    with ExitStack() as ends:
        if engine != engine_in_use():  # What the block around it has connected goes on.
            _in_use.append(_EngineInUse(engine, ends))
            ends.callback(_in_use.pop)
        yield


def _choose_mode(address: str, mode: str | None) -> None:
    """Let this process use a token if, and only if, a cluster requires one.

    Ray itself uses one wherever it finds one, and then fails on a cluster without tokens.

    Args:
        address: the cluster's address.
        mode: what the user set for `_MODE`. As in Ray, a token goes to another address than
            ``auto`` only if that is "token".

    Raises:
        AuthenticationError: if the cluster requires a token, and that may not be used.
    """

    def use(mode: str) -> None:
        os.environ[_MODE] = mode
        _raylet.Config.initialize("")

    found = None if "://" in address else _services.canonicalize_bootstrap_address(address)
    if found is None:
        return
    use("disabled")
    try:
        _raylet.GcsClient(address=found)
    except ray.exceptions.AuthenticationError:
        if mode != "token" and (mode is not None or address != "auto"):
            raise
        use("token")


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Hide what Ray's compiled parts print while they connect; errors come as exceptions."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _new_queue() -> Any:
    here = _scheduling.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return _queue.Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _as_json(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON values: its ``parameters``, if it has them."""
    return dict(value.parameters()) if hasattr(value, "parameters") else asdict(value)


def _digest(task: Callable[[A], Array], item: Any) -> str:
    """Return the SHA-256 of a task's name and of what decides its result: 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{task.__module__}.{task.__qualname__}\n".encode())
    for field in fields(item):
        value = getattr(item, field.name) if field.compare else None
        if isinstance(value, np.ndarray):
            digest.update(f"{field.name} {value.dtype.str} {value.shape}\n".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            text = json.dumps(value, sort_keys=True, default=_as_json)
            digest.update(f"{field.name} {text}\n".encode())
    return digest.hexdigest()


def _make(
    task: Callable[[A], Array], result_and_item: tuple[KeptArray, A]
) -> tuple[KeptArray, Array | None]:
    """Carry a task out, and write its result if that is at a URL; else return it, too."""
    result, item = result_and_item
    array = task(item)
    if not result.is_remote:
        return result, array
    result.write(array)
    return result, None


@contextmanager
def forwarding_reports(queue: Any) -> Iterator[None]:
    """Put what the block reports and tells the log into a queue; see `receiving_reports`.

    Args:
        queue: has ``put_nowait``, as those of multiprocessing and Ray have.
    """

    def report(*progress: Any) -> None:
        queue.put_nowait(progress)

    logger, handler = logging.getLogger("msshift_bench"), QueueHandler(queue)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with reporting(report):
            yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def receiving_reports(queue: Any) -> Iterator[None]:
    """Report, and tell the log, what other processes put into a queue while the block is at work.

    Args:
        queue: what `forwarding_reports` was given there.
    """

    def hear() -> None:
        for message in iter(queue.get, None):
            if isinstance(message, logging.LogRecord):
                logger = logging.getLogger(message.name)
                if logger.isEnabledFor(message.levelno):
                    logger.handle(message)
            else:
                report_progress(*message)

    # A thread has a context of its own, in which nobody listens to progress.
    listener = threading.Thread(target=copy_context().run, args=(hear,), daemon=True)
    listener.start()
    try:
        yield
    finally:
        queue.put(None)
        listener.join()


def _carry_out(
    task: Callable[[A], B], item: A, threads: int, version: str, folder: Path, told: Any
) -> B:
    """Carry a task out on a machine of a cluster."""
    from threadpoolctl import threadpool_limits

    if version != __version__:
        raise UsageError(
            f"a machine of the cluster has msshift-bench {__version__}, and this one {version}: "
            "install the same version on all machines"
        )
    # Libraries that are loaded later read the variable, those that are loaded already do not.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    threadpool_limits(threads)
    with suppress(OSError):  # Tasks that need no file of the caller's need no such folder.
        os.chdir(folder)
    try:
        with forwarding_reports(told):
            return task(item)
    except MsShiftError as error:
        # Of errors with several arguments, only the message survives the way back.
        kinds: dict[int, type[MsShiftError]] = {3: MissingError, 2: UsageError}
        raise kinds.get(error.exit_code, DataError)(str(error)) from None


def _result(reference: Any) -> Any:
    """Return what a task returned."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, MsShiftError):
            raise error.cause from None
        raise
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.ObjectLostError) as error:
        raise MissingError(
            f"the cluster lost the workers of a task {_RETRIES} times: type the same command "
            "again; finished results are kept"
        ) from error
