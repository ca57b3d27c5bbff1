"""The `msshift` command from its first moment: its script, and ``python -m msshift_bench``."""

import os
import sys

__all__ = ["command", "main"]

_NEW_OBJECTS = 10_000
"""Objects made between two searches for garbage. Python's 700 mean 160 searches, and a twentieth of
the time, until all modules are loaded."""

_IDLE_CYCLES = "16"
"""Two to this power: cycles for which a thread of OpenBLAS waits for work before it sleeps. By
default they are 2^26, which every thread spends as soon as NumPy is loaded."""


def main() -> None:
    """Run the command line; Ctrl-C is no error of ours, even while modules are still loaded."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _IDLE_CYCLES)
    try:
        import gc  # not loaded before, and Ctrl-C may come while it is

        gc.set_threshold(_NEW_OBJECTS, 50)  # objects that were found used are searched less often
        try:
            from msshift_bench.cli import main as run

            run()
        finally:
            # Python looks for garbage once more when it ends, among all that is loaded: a fifth of
            # a short command's time.
            gc.freeze()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def command() -> None:
    """Run the command line and end the process; the console script calls this.

    As Python ends by itself, it stops the threads of libraries wherever they are: one of Arrow's
    that still lets go of a buffer of Python's then aborts the process, whose work is done
    (https://github.com/apache/arrow/issues/34314). So it ends as multiprocessing ends processes:
    threads of Python's own are waited for, exit functions run, the rest is left to the system.
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
    # A stream that is closed, or read by nobody, was reported already.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    command()
