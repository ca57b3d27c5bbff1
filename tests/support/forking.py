"""Programs in processes that start with the libraries imported.

What a command imports takes longer than most of what the tests ask of it: torch and its kin alone
take seconds. A server imports them once, and every program runs in a process forked from it, with
a folder and an environment of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from benchmarks.support.killing import PRELOADED

__all__ = ["NEURAL", "run_forked", "run_msshift"]

Done = subprocess.CompletedProcess[str]

NEURAL = (*PRELOADED, "sentence_transformers")
"""What training and searching with neural models imports."""

_SECONDS = 300


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
    server = _server(tuple(libraries))
    with tempfile.TemporaryDirectory() as outputs:
        request = {
            "program": program,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "outputs": outputs,
        }
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        output, errors = (Path(outputs, name).read_text() for name in ("stdout", "stderr"))
    return Done(list(arguments), code, output, errors)


@cache
def _server(libraries: tuple[str, ...]) -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forking", *libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    atexit.register(server.communicate)
    return server


def _serve(libraries: Sequence[str]) -> None:
    """Fork a process per line of the standard input; write how each ended."""
    for library in libraries:
        import_module(library)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            _act(**json.loads(line))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _act(
    program: str, arguments: list[str], folder: str, environment: dict[str, str], outputs: str
) -> None:
    """Be the program, from its start to its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
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
    _serve(sys.argv[1:])
