"""The `msshift` command from its first moment: its script, and ``python -m msshift_bench``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C is no error of ours, even while modules are still loaded."""
    try:
        from msshift_bench.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
