"""Programs in processes that start with the libraries imported.

What a command imports takes longer than most of what the tests ask of it: torch and its kin alone
take seconds. A server imports them once for all test processes, and every program runs in a process
forked from it, with a folder and an environment of its own. It ends when the tests do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from msshift_bench.plumbing import reporting
from tests.killed.preloaded import PRELOADED
from tests.support import forked_client

__all__ = [
    "BRIEF",
    "COMMAND",
    "NEURAL",
    "PRELOADED",
    "SHORT",
    "SMALL",
    "WITHOUT_TORCH",
    "Forked",
    "Held",
    "client_of",
    "run_forked",
    "run_msshift",
    "servers",
    "write_msshift",
]

Done = subprocess.CompletedProcess[str]

NEURAL = (*PRELOADED[:-1], "tests.support.warm_libraries", PRELOADED[-1])
"""What training and searching with neural models imports, and has done once."""

COMMAND = "from msshift_bench.cli import main\nmain()\n"
"""The program that is the command line."""

WITHOUT_TORCH = "import sys\nsys.modules['torch'] = None\n"
"""Makes torch one that is not there, for who would only ask it for a GPU."""

SMALL = """
from msshift_bench import mini
mini.DEFAULT_SIZE = 300
"""
"""Makes `mini` smaller, for what needs no particular number of passages."""

BRIEF = """
import itertools
from msshift_bench.report import writing
writing.PICTURE_FORMATS = ["svg"]
*section, draw = writing.SECTIONS[0]
writing.SECTIONS = [(*section, lambda inputs: itertools.islice(draw(inputs), 1))]
"""
"""Makes a report of one figure in one format; the rest of it is tested apart."""

SHORT = (
    SMALL
    + BRIEF
    + """
from msshift_bench.baselines import opening
from msshift_bench.baselines import pretraining
from msshift_bench.baselines.systems.recipe import read_recipe
def parse_short(*arguments):
    recipe = read_recipe(*arguments)
    random = recipe.random.changed(layers=1, hidden=16, inner=32, vocabulary=300)
    return recipe.changed(steps=2, checkpoint_every=2, random=random)
opening.read_recipe = pretraining.read_recipe = parse_short
from msshift_bench.cli import begin
begin.SHIFT_NAMES = ("length",)
"""
)
"""Makes models barely train, a report brief, and the demo one of a shift: they are tested apart."""

_SECONDS = 300

_PLACE = "MSSHIFT_TEST_SERVERS"
"""The environment variable that names the folder of the servers' sockets."""

_STREAMS = (("stdin", "r", None), ("stdout", "w", None), ("stderr", "w", "backslashreplace"))
"""The standard streams, how they are opened, and what is done where the encoding lacks a letter."""

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
        outputs: Sequence[IO[str]] = (),
    ) -> None:
        with Path(os.devnull).open() as nothing:
            files = (nothing, *outputs)
            streams = {number: file.fileno() for number, file in enumerate(files)}
            address = str(_server_of(libraries))
            given = (program, arguments, str(folder), environment)
            self._stream = forked_client.request_process(address, *given, streams)
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


def run_msshift(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, before: str = ""
) -> Done:
    """Run the command line; `environment` is all of it, as `subprocess.run` takes it.

    What Python or an imported library reads of the environment as it starts, it has read already:
    a test of that, and one test of every command, runs the installed console script instead.

    Args:
        arguments: what follows ``msshift``.
        folder: the working directory.
        environment: all of the environment.
        before: source that runs first, such as `SHORT`.
    """
    # BM25 needs no models: quick tests of it shall not wait for a server of theirs.
    trains = tuple(arguments[:2]) == ("leakage", "experiment") or arguments[:1] == ["demo"]
    is_bm25 = any(word in ("bm25", "bm25-tuned") for word in arguments)
    models = trains or (arguments[:1] in (["run"], ["pretrain"]) and not is_bm25)
    # The doctor asks torch for a GPU, if there is torch.
    asks_torch = arguments[:1] == ["doctor"] and before != WITHOUT_TORCH
    libraries = NEURAL if models or asks_torch else PRELOADED
    given = ["msshift", *arguments]
    return run_forked(f"{before}\n{COMMAND}", given, folder, environment, libraries)


def write_msshift(folder: Path, *, before: str = "", libraries: Sequence[str] = PRELOADED) -> Path:
    """Write an executable ``msshift`` that runs in a forked process, for lines of sh.

    Args:
        folder: where to; it is made.
        before: source that runs first.
        libraries: the modules that are imported when it starts.

    Returns:
        Its path.
    """
    program = folder / "program" / "msshift"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"{before}\n{COMMAND}", "utf-8")
    client = shlex.join([*client_of(libraries), str(program)])
    command = folder / "msshift"
    command.write_text(f'#!/bin/sh\nexec {client} "$@"\n', "utf-8")
    command.chmod(0o755)
    return command


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
    with tempfile.TemporaryFile("r+") as output, tempfile.TemporaryFile("r+") as errors:
        outputs = (output, errors)
        code = Forked(program, arguments, folder, environment, libraries, outputs).wait()
        for file in outputs:
            file.seek(0)
        return Done(list(arguments), code, output.read(), errors.read())


def client_of(libraries: Sequence[str]) -> list[str]:
    """Return a command that runs the program whose path follows it, in a forked process."""
    return [sys.executable, "-I", "-S", forked_client.__file__, str(_server_of(libraries))]


class Held:
    """A function's work in a process of its own, which waits at every report until it is let on.

    Args:
        work: a function of a module.
        arguments: its arguments.
        libraries: the modules that are imported when the process starts.
    """

    def __init__(
        self, work: Callable[..., object], *arguments: Any, libraries: Sequence[str] = NEURAL
    ) -> None:
        program = f"from {__name__} import _work\n_work(*__import__('sys').argv[1:])\n"
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/reports")
            listener.listen()
            listener.settimeout(_SECONDS)
            given = ["-c", f"{folder}/reports"]
            # Threads of the tokenizers cost more than such few texts.
            environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
            self._process = Forked(program, given, Path.cwd(), environment, libraries)
            connection, _ = listener.accept()
        connection.setblocking(True)
        self._reports = Connection(connection.detach())
        self._reports.send(sys.path)
        self._reports.send((work, arguments))

    def reports(self) -> Iterator[tuple[str, int, int]]:
        """Yield what it reports; it goes on when the next report is asked for."""
        with contextlib.suppress(EOFError):
            while True:
                self._reports.send(None)
                yield self._reports.recv()

    def kill(self) -> bool:
        """Kill it, and say whether it was still alive."""
        self._reports.close()
        return self._process.kill() != 0

    def finish(self) -> list[tuple[str, int, int]]:
        """Let it on to its end, which must be a good one; return what it still reports."""
        told = [*self.reports()]
        self._reports.close()
        assert self._process.wait() == 0
        return told


def _work(address: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    reports = Connection(connection.detach())
    sys.path[:] = reports.recv()
    work, arguments = reports.recv()

    def tell(*report: object) -> None:
        reports.send(report)
        reports.recv()

    reports.recv()
    with reporting(tell):
        work(*arguments)


def _server_of(libraries: Sequence[str]) -> Path:
    """Return the socket of the server of some libraries, which is started if it does not run."""
    place = Path(os.environ[_PLACE])
    address = place / sha256(" ".join(libraries).encode()).hexdigest()[:12]
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(address))
                listener.listen()
                _start(listener, libraries)
    return address


def _start(listener: socket.socket, libraries: Sequence[str]) -> None:
    """Start a server that nobody waits for: its end is its own."""
    os.set_inheritable(listener.fileno(), True)
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", __name__, str(listener.fileno()), *libraries]
    os.posix_spawn(sys.executable, command, environment)


def _serve(listener: socket.socket, libraries: Sequence[str]) -> None:
    """Fork a process per request, which runs one program, until the tests have ended.

    Who asked is told which process it is, and then how it ended.
    """
    for library in libraries:
        import_module(library)
    place = Path(os.environ[_PLACE])
    owner = int(place.name.split("-")[1])
    askers: dict[int, IO[str]] = {}
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # Its number wakes the server.
    while place.exists() and _is_alive(owner):
        ready, _, _ = select.select([listener, woken], [], [], _LOOK_EVERY)
        if woken in ready:
            woken.recv(4096)
        if listener in ready:
            connection, _ = listener.accept()
            with connection:
                _, files, _, _ = socket.recv_fds(connection, 1, 3)
                stream = connection.makefile("rw")
            request = literal_eval(stream.readline())
            process = os.fork()
            if not process:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for open_here in (listener, woken, waker, stream, *askers.values()):
                    open_here.close()
                _act(**request, files=files)
            for file in files:
                os.close(file)
            askers[process] = stream
            _tell(stream, process)
        while askers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _tell(askers.pop(ended[0]), os.waitstatus_to_exitcode(ended[1]), is_last=True)


def _tell(asker: IO[str], number: int, *, is_last: bool = False) -> None:
    with contextlib.suppress(BrokenPipeError):  # It was killed meanwhile.
        print(number, file=asker, flush=True)
    if is_last:
        with contextlib.suppress(BrokenPipeError):  # To close it is to write what is left.
            asker.close()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _act(
    program: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
    closed: list[int],
    file_size: tuple[int, int],
    files: list[int],
) -> None:
    """Be the program, from its start to its end."""
    _take_streams(dict(zip(streams, files, strict=True)), closed)
    resource.setrlimit(resource.RLIMIT_FSIZE, file_size)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.modules["__main__"].__package__ = None  # It is a script, as usage texts name it.
    signal.alarm(_SECONDS)
    if "tqdm" in sys.modules:
        # All forked processes share tqdm's lock, and one that was killed may hold it for ever.
        sys.modules["tqdm"].tqdm.set_lock(threading.RLock())
    code = 0
    try:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _take_streams(files: Mapping[int, int], closed: Sequence[int]) -> None:
    """Make descriptors the standard streams, as Python does when it starts."""
    for number, file in files.items():
        os.dup2(file, number)
        os.close(file)
    for number in closed:
        os.close(number)
    for number, (name, mode, errors) in enumerate(_STREAMS):
        if number in closed:
            setattr(sys, name, None)
        elif number in files:
            stream = os.fdopen(number, mode, errors=errors, closefd=False)
            setattr(sys, name, stream)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
