"""Entry point of the `msshift` command and of ``python -m msshift_bench``."""

import os
import sys

__all__ = ["command", "main"]

_NEW_OBJECTS = 10_000
"""Number of new objects before Python collects garbage. With the default of 700, it would collect
160 times while modules are imported, which takes 5% of that time."""

_IDLE_CYCLES = "16"
"""Base-2 logarithm of the cycles that an idle OpenBLAS thread waits before it sleeps. By default
each thread waits 2^26 cycles as soon as NumPy is loaded."""


def main() -> None:
    """Run the command line; Ctrl-C exits with code 130, even while modules are imported."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _IDLE_CYCLES)
    try:
        import gc  # inside `try`: the user may press Ctrl-C during the import

        gc.set_threshold(_NEW_OBJECTS, 50)  # 50: check surviving objects less often
        try:
            from msshift_bench.cli import main as run

            run()
        finally:
            # At exit Python would check all objects for garbage: 20% of a short command's time.
            gc.freeze()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def command() -> None:
    """Run the command line, and end the process with its exit code; the console script calls this.

    The error of a bug is raised.

    Python's normal exit can abort the process after the work is done: a thread of Arrow may still
    release a Python buffer (https://github.com/apache/arrow/issues/34314). So this function ends
    the process as multiprocessing does. It waits for Python's threads, runs exit functions, and
    calls `os._exit`.
    """
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    import atexit
    import contextlib
    import threading

    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # A closed stream, or a pipe without a reader, was reported already.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    command()
