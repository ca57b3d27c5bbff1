"""The `msshift` command from its first moment: its script, and ``python -m msshift_bench``."""

import os
import sys

__all__ = ["main"]

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

        gc.set_threshold(_NEW_OBJECTS)
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


if __name__ == "__main__":
    main()
