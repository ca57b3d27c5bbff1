"""Programs in processes that start with the libraries imported.

What a command imports takes longer than most of what the tests ask of it: torch and its kin alone
take seconds. A server imports them once for all test processes, and every program runs in a process
forked from it, with a folder and an environment of its own. It ends when the tests do.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.support.killing import PRELOADED

__all__ = ["NEURAL", "Forked", "run_forked", "run_msshift", "servers", "work_forked"]

Done = subprocess.CompletedProcess[str]

NEURAL = (*PRELOADED, "tests.support.warm_libraries")
"""What training and searching with neural models imports, and has done once."""

_SECONDS = 300

_PLACE = "MSSHIFT_TEST_SERVERS"
"""The environment variable that names the folder of the servers' sockets."""

_LOOK_EVERY = 0.5
"""Seconds between two looks of a server whether the tests go on."""


@contextlib.contextmanager
def servers() -> Iterator[None]:
    """Let servers run, those of the processes below this one too, until the context ends."""
    with tempfile.TemporaryDirectory(prefix=f"msshift-{os.getpid()}-") as place:
        os.environ[_PLACE] = place
        yield
        del os.environ[_PLACE]


class Forked:
    """A program at work in a process of its own."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        libraries: Sequence[str],
        outputs: Path | None,
    ) -> None:
        request = {
            "program": program,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "outputs": str(outputs) if outputs else None,
        }
        with _connect(libraries) as connection:
            self._stream = connection.makefile("rw")
        self._stream.write(json.dumps(request) + "\n")
        self._stream.flush()
        self._process = int(self._stream.readline())

    def kill(self) -> int:
        """Kill it, unless it has ended, and return its exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end and return its exit code, negative for a signal."""
        with self._stream:
            return int(self._stream.readline())


def run_msshift(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Done:
    """Run the command line; `environment` is all of it, as `subprocess.run` takes it.

    What Python or an imported library reads of the environment as it starts, it has read already:
    a test of that, and one test of every command, runs the installed console script instead.
    """
    program = "from msshift_bench.cli import main\nmain()\n"
    libraries = NEURAL if "baseline" in arguments[:1] else PRELOADED
    return run_forked(program, ["msshift", *arguments], folder, environment, libraries)


def run_forked(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    libraries: Sequence[str] = PRELOADED,
) -> Done:
    """Run a program in a process that starts with some libraries imported.

    Args:
        program: its source.
        arguments: its `sys.argv`.
        folder: its working directory.
        environment: all of its environment.
        libraries: the modules that are imported when it starts.
    """
    with tempfile.TemporaryDirectory() as name:
        outputs = Path(name)
        code = Forked(program, arguments, folder, environment, libraries, outputs).wait()
        output, errors = ((outputs / stream).read_text() for stream in ("stdout", "stderr"))
    return Done(list(arguments), code, output, errors)


def work_forked(
    work: Callable[..., None], *arguments: Any, libraries: Sequence[str] = NEURAL
) -> tuple[Forked, Connection]:
    """Call a function in a process of its own; return this, and what the function sends.

    Args:
        work: a function of a module; its last argument is a connection that it may send to.
        arguments: its other arguments.
        libraries: the modules that are imported when the process starts.
    """
    program = f"from {__name__} import _work\n_work(*__import__('sys').argv[1:])\n"
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/events")
        listener.listen()
        listener.settimeout(_SECONDS)
        given = ["-c", f"{folder}/events"]
        forked = Forked(program, given, Path.cwd(), os.environ, libraries, None)
        connection, _ = listener.accept()
    connection.setblocking(True)
    events = Connection(connection.detach())
    events.send(sys.path)
    events.send((work, arguments))
    return forked, events


def _work(address: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    events = Connection(connection.detach())
    sys.path[:] = events.recv()
    work, arguments = events.recv()
    work(*arguments, events)


def _connect(libraries: Sequence[str]) -> socket.socket:
    """Return a connection to the server of some libraries, which is started if it does not run."""
    place = Path(os.environ[_PLACE])
    address = place / sha256(" ".join(libraries).encode()).hexdigest()[:12]
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(address))
                listener.listen()
                _start(listener, libraries)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(address))
    return connection


def _start(listener: socket.socket, libraries: Sequence[str]) -> None:
    """Start a server that nobody waits for: its end is its own."""
    os.set_inheritable(listener.fileno(), True)
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", __name__, str(listener.fileno()), *libraries]
    os.posix_spawn(sys.executable, command, environment)


def _serve(listener: socket.socket, libraries: Sequence[str]) -> None:
    """Fork a process per connection, which runs one program, until the tests have ended."""
    for library in libraries:
        import_module(library)
    listener.settimeout(_LOOK_EVERY)
    place = Path(os.environ[_PLACE])
    owner = int(place.name.split("-")[1])
    while place.exists() and _is_alive(owner):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                _answer(connection)
            connection.close()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(connection: socket.socket) -> None:
    """Run the program that is asked for; say which process it is, and then how it ended."""
    connection.setblocking(True)
    stream = connection.makefile("rw")
    request = json.loads(stream.readline())
    process = os.fork()
    if not process:
        connection.close()
        stream.close()
        _act(**request)
    print(process, file=stream, flush=True)
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), file=stream, flush=True)
    os._exit(0)


def _act(
    program: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    outputs: str | None,
) -> None:
    """Be the program, from its start to its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if outputs is not None:
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(f"{outputs}/{name}", os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.modules["__main__"].__package__ = None  # It is a script, as usage texts name it.
    signal.alarm(_SECONDS)
    code = 0
    try:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
