"""Engines that run tasks in this process or on a Ray cluster; no other module imports Ray.

A task is a top-level function of a module, with one argument. `Engine.map` runs it for many
arguments. `Engine.keep` writes each result under its number and a digest of its argument, and skips
existing results. So results are the same bytes for every engine and number of machines, also after
failures.
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
"""Number of times that Ray restarts a task after its node or worker was lost."""

_TIMEOUT = 10
"""Timeout of a connection to a cluster's address, in seconds."""

_MODE = "RAY_AUTH_MODE"
"""Environment variable that makes Ray use tokens (``token``) or no tokens (``disabled``)."""

_ATTEMPTS = 3
"""Attempts to connect with a token, one per second; Ray's default is 20."""


@dataclass(frozen=True, slots=True)
class KeptArray:
    """File of an array, in a folder or at a URL; it is written atomically.

    For a URL, methods raise MissingError if they fail: the URL's library is not installed, the
    bucket does not exist, access is denied, or the server does not answer.

    Attributes:
        folder: a folder, which is made if missing; or a URL of fsspec, such as
            ``s3://bucket/name``, which must exist.
        name: the file's name in the folder.
    """

    folder: str
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_remote(self) -> bool:
        """Whether the folder is a URL, which all machines of a cluster can reach."""
        return "://" in self.folder

    def exists(self) -> bool:
        """Return whether the file exists."""
        if not self.is_remote:
            return Path(self.folder, self.name).exists()
        with self._file_system() as (system, path):
            return bool(system.exists(path))

    def write(self, array: Array) -> None:
        """Write an array to the file, atomically."""
        content = seal_array(array)
        if not self.is_remote:
            write_bytes(Path(self.folder, self.name), content)
            return
        with self._file_system() as (system, path):
            system.pipe_file(f"{path}.partial", content)
            system.mv(f"{path}.partial", path)

    def load(self) -> Array:
        """Return the array, read-only; from a folder, as a memory map.

        Raises:
            IntegrityError: if any byte of the file has changed.
            OSError: if the file cannot be read from a folder.
        """
        try:
            if not self.is_remote:
                return map_sealed_array(Path(self.folder, self.name))
            with self._file_system() as (system, path):
                content = system.cat_file(path)
            return unseal_array(content)
        except ValueError as error:
            raise IntegrityError(
                f"{self} was damaged after it was written: remove this file, and run the same "
                "command again"
            ) from error

    def remove(self) -> None:
        """Remove the file, which must exist."""
        if self.is_remote:
            with self._file_system() as (system, path):
                system.rm_file(path)
        else:
            Path(self.folder, self.name).unlink()

    @contextmanager
    def _file_system(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system of the URL, and the file's path in it.

        Raises:
            MissingError: for any error of the block, since each file system has its own errors.
        """
        fsspec = require("fsspec", "cluster", "a URL as --store")
        try:
            # A cached listing would miss files that other machines have written since.
            system, root = fsspec.core.url_to_fs(self.folder, use_listings_cache=False)
            yield system, f"{root}/{self.name}"
        except Exception as error:
            raise MissingError(
                f"{self.folder} cannot be used: {type(error).__name__}: {error}. Check that the "
                "bucket or folder exists, and that the credentials allow to read, write and delete"
            ) from error


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs tasks in this process or on a Ray cluster.

    Attributes:
        address: the address of a Ray cluster, ``host:port``, or ``auto`` for a cluster on this
            machine; `None` for this process.
        store: the folder or URL for the results of `keep`; `None` for the folder that the caller
            passes. Machines of a cluster write to a URL directly, and otherwise send results back.
        wait: whether a task waits if no present node of the cluster can run it; otherwise `map`
            raises an error.

    Raises:
        MissingExtraError: if an address is given and Ray is not installed.
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
        """Yield the result of a task for each item, in the order of the items.

        On a cluster, a task runs in the folder of this process if that path exists on its machine.
        Progress reports and log records are sent to this process.

        Args:
            task: a top-level function of a module.
            items: the arguments; streamed. Ray must be able to pickle them.
            cpus: number of CPUs and threads of a task on Ray. Results of a training depend on the
                number of threads.
            gpus: number of GPUs of a task on Ray; ignored if the cluster has no GPU.

        Raises:
            MissingError: if no cluster answers, no node can run a task, or the workers of a task
                were lost too often.
            MsShiftError: an error of a task. From a cluster, it is a plain MissingError, UsageError
                or DataError with the same message.
        """
        if self.address is None:
            yield from map(task, items)
        else:
            yield from self._on_cluster(task, items, cpus, gpus)

    def keep(
        self, task: Callable[[A], Array], items: Iterable[A], folder: Path
    ) -> Iterator[KeptArray]:
        """Run a task for the items without a result, and write its results.

        Args:
            task: a top-level function of a module; it returns an array.
            items: dataclasses. Fields with ``compare=True`` determine the result; they are JSON
                values, arrays or dataclasses. Other fields are e.g. paths of files.
            folder: the folder of the results, unless the engine has a store.

        Yields:
            The file of each item's result, in the order of the items, as soon as it exists.

        Raises:
            MissingError, MsShiftError: see `map`.
        """
        store = str(folder) if self.store is None else self.store.rstrip("/")
        unfinished: deque[KeptArray] = deque()

        def missing() -> Iterator[tuple[KeptArray, A]]:
            for number, item in enumerate(items):
                result = KeptArray(store, f"{number:05d}-{_digest(task, item)[:16]}.npy")
                unfinished.append(result)
                if not result.exists():
                    yield result, item

        tasks = missing()
        # If all results exist, no cluster is needed.
        first = list(islice(tasks, 1))
        for result, array in self.map(partial(_keep, task), chain(first, tasks)) if first else ():
            if array is not None:
                result.write(array)
            while unfinished[0] != result:  # Its result existed already.
                yield unfinished.popleft()
            yield unfinished.popleft()
        yield from unfinished

    def _on_cluster(
        self, task: Callable[[A], B], items: Iterable[A], cpus: int, gpus: float
    ) -> Iterator[B]:
        with ExitStack() as own_exits:
            exits = _in_use[-1].exits or own_exits
            if not ray.is_initialized():
                self._connect()
                # A new connection starts new workers, which import modules again. So the block
                # keeps one connection.
                exits.callback(ray.shutdown)
            results = self._on_workers(task, items, cpus, gpus)
            # If the caller stops early, the generator must end before Ray shuts down.
            exits.callback(results.close)
            yield from results

    def _on_workers(
        self, task: Callable[[A], B], items: Iterable[A], cpus: int, gpus: float
    ) -> Generator[B, None, None]:
        resources = ray.cluster_resources()
        gpus = gpus if "GPU" in resources else 0
        self._check_nodes(cpus, gpus)
        options = {"max_retries": _RETRIES, "num_cpus": cpus, "num_gpus": gpus}
        remote = ray.remote(**options)(_run_task)
        connection = ray.get_runtime_context()
        # Job ids alone are not unique: every cluster numbers its jobs from 1.
        spare = _spare_queues[connection.get_node_id(), connection.get_job_id()]
        reports = spare.pop() if spare else _new_queue()
        context = (cpus, __version__, Path.cwd(), reports)
        started = (remote.remote(task, item, *context) for item in items)
        waiting: deque[Any] = deque()
        try:
            with receiving_reports(reports):
                waiting.extend(islice(started, 2 * int(resources.get("CPU", 1))))
                while waiting:
                    result = _result(waiting[0])
                    waiting.popleft()
                    waiting.extend(islice(started, 1))
                    yield result
        finally:
            for reference in waiting:
                ray.cancel(reference)
            if waiting:  # Cancelled tasks may still write into the queue, so it is not reused.
                reports.shutdown(force=True)
            else:
                spare.append(reports)

    def _check_nodes(self, cpus: int, gpus: float) -> None:
        """Raise MissingError if no present node can run a task; with `wait`, only log a warning."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
            return
        present = sorted({(node.get("CPU", 0), node.get("GPU", 0)) for node in nodes})
        problem = (
            f"a task needs {cpus} CPU and {gpus:g} GPU, but the nodes of the Ray cluster have "
            + " or ".join(f"{n_cpus:g} CPU and {n_gpus:g} GPU" for n_cpus, n_gpus in present)
        )
        if not self.wait:
            raise MissingError(
                f"{problem}; start a larger node, lower OMP_NUM_THREADS or --gpus, or wait for a "
                "larger node with --wait"
            )
        _logger.warning("%s; the task waits for a larger node", problem)

    def _connect(self) -> None:
        # These variables hide Ray's advice on its next version, and errors of cancelled tasks.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(_ATTEMPTS))
        host, _, port = str(self.address).rpartition(":")
        mode = os.environ.get(_MODE)
        try:
            if host and "://" not in host:
                # Ray would wait for minutes if no server answers at the address.
                socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT).close()
            with _silent_stderr():
                _choose_mode(str(self.address), mode)
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if "AuthenticationError" in f"{error!r} {error.__cause__}":
                raise MissingError(
                    f"the Ray cluster at {self.address} requires a token: set RAY_AUTH_MODE=token. "
                    "Without a file ~/.ray/auth_token on this machine, also set RAY_AUTH_TOKEN to "
                    "the output of `ray get-auth-token` on the head node"
                ) from error
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise MissingError(
                f"no Ray cluster answers at {self.address} ({reason}): start one with "
                "`ray start --head`, or pass the address that it printed with --ray"
            ) from error
        finally:
            os.environ.pop(_MODE, None)
            os.environ |= {} if mode is None else {_MODE: mode}


class _EngineInUse(NamedTuple):
    """Engine of a `using_engine` block, and the block's exit callbacks; `None` outside a block."""

    engine: Engine
    exits: ExitStack | None


_in_use = [_EngineInUse(Engine(), None)]
"""The default engine, then the engines of the enclosing blocks, the innermost last."""

_spare_queues: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
"""Node and job of a connection -> unused queues, for reuse: a new queue takes seconds to start."""


def engine_in_use() -> Engine:
    """Return the engine of the innermost `using_engine` block; by default, of this process."""
    return _in_use[-1].engine


@contextmanager
def using_engine(engine: Engine) -> Iterator[None]:
    """Context in which all tasks use an engine; its connection is closed at the end.

    Inside a block of an equal engine, the outer block's connection is used and stays open.
    """
    with ExitStack() as exits:
        if engine != engine_in_use():  # An equal engine keeps the outer block's connection.
            _in_use.append(_EngineInUse(engine, exits))
            exits.callback(_in_use.pop)
        yield


def _choose_mode(address: str, mode: str | None) -> None:
    """Set `_MODE` so that this process uses a token only if the cluster requires one.

    A URL as address changes nothing.

    Ray by default uses any token that it finds, and then fails on a cluster without tokens.

    Args:
        address: the cluster's address.
        mode: the user's value of `_MODE`. For other addresses than ``auto``, only "token" allows
            to send a token, as in Ray.

    Raises:
        AuthenticationError: if the cluster requires a token, but `mode` does not allow one.
    """

    def use(mode: str) -> None:
        os.environ[_MODE] = mode
        _raylet.Config.initialize("")

    resolved = None if "://" in address else _services.canonicalize_bootstrap_address(address)
    if resolved is None:
        return
    use("disabled")
    try:
        _raylet.GcsClient(address=resolved)
    except ray.exceptions.AuthenticationError:
        if mode != "token" and (mode is not None or address != "auto"):
            raise
        use("token")


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Hide output of Ray's compiled code to stderr; errors are still raised as exceptions."""
    stderr = os.dup(2)
    with Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _new_queue() -> Any:
    this_node = _scheduling.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return _queue.Queue(actor_options={"num_cpus": 0, "scheduling_strategy": this_node})


def _as_json(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON values: the result of its ``parameters()``, or its fields."""
    return dict(value.parameters()) if hasattr(value, "parameters") else asdict(value)


def _digest(task: Callable[[A], Array], item: Any) -> str:
    """Return the SHA-256 of a task's name and its item's compared fields, in 64 hex digits."""
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


def _keep(
    task: Callable[[A], Array], result_and_item: tuple[KeptArray, A]
) -> tuple[KeptArray, Array | None]:
    """Run a task. Return its file and the array to write; `None` if it was written to a URL."""
    result, item = result_and_item
    array = task(item)
    if not result.is_remote:
        return result, array
    result.write(array)
    return result, None


@contextmanager
def forwarding_reports(queue: Any) -> Iterator[None]:
    """Put progress reports and log records of the block into a queue; see `receiving_reports`.

    Args:
        queue: a queue with ``put_nowait``, of multiprocessing or Ray.
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
    """While the block runs, report progress and log records that other processes put into a queue.

    Args:
        queue: the queue that the other processes pass to `forwarding_reports`.
    """

    def receive() -> None:
        for message in iter(queue.get, None):
            if isinstance(message, logging.LogRecord):
                logger = logging.getLogger(message.name)
                if logger.isEnabledFor(message.levelno):
                    logger.handle(message)
            else:
                report_progress(*message)

    # By default, a new thread has an empty context, without the receiver of progress reports.
    listener = threading.Thread(target=copy_context().run, args=(receive,), daemon=True)
    listener.start()
    try:
        yield
    finally:
        queue.put(None)
        listener.join()


def _run_task(
    task: Callable[[A], B], item: A, threads: int, version: str, folder: Path, reports: Any
) -> B:
    """Return the result of a task on a machine of a cluster; refuse another package version."""
    from threadpoolctl import threadpool_limits

    if version != __version__:
        raise UsageError(
            f"a machine of the cluster has msshift-bench {__version__}, this machine {version}: "
            "install the same version on all machines"
        )
    # The variable sets the threads of libraries loaded later, the function of loaded libraries.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    threadpool_limits(threads)
    with suppress(OSError):  # The folder may be absent: most tasks read no files from it.
        os.chdir(folder)
    try:
        with forwarding_reports(reports):
            return task(item)
    except MsShiftError as error:
        # Errors with several arguments cannot be unpickled; a plain error has the same message.
        kinds: dict[int, type[MsShiftError]] = {3: MissingError, 2: UsageError}
        raise kinds.get(error.exit_code, DataError)(str(error)) from None


def _result(reference: Any) -> Any:
    """Return the result of a task; raise its error, or MissingError if its workers were lost."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, MsShiftError):
            raise error.cause from None
        raise
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.ObjectLostError) as error:
        raise MissingError(
            f"the cluster lost the workers of a task {_RETRIES} times: run the same command "
            "again; finished results are kept"
        ) from error
