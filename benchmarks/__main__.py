"""``python -m benchmarks NAME``, behind ``scripts/bench``: a case of the table, or a script."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from benchmarks import building, gpu, scoring, searching, training, vectors
from benchmarks.runner import act_as_child, run_case

CASES = {
    **scoring.CASES,
    **building.CASES,
    **vectors.CASES,
    **searching.CASES,
    **training.CASES,
    **gpu.CASES,
}
"""Name -> case. Those whose names begin with the same word are parts of one benchmark."""

SCRIPTS = (
    "coverage_simulation", "damaged_streams", "encoding", "faults", "full", "fuzz_runs",
    "killed_systems", "lead_simulation", "leakage_tiers", "link_simulation", "pylate",
    "star_simulation",
)  # fmt: skip
"""Measurements of another kind, and scripts that look for lost or wrong files."""


def usage() -> str:
    """Say which names there are."""
    names = "\n".join(f"  {name}: {case.about}" for name, case in CASES.items())
    return (
        f"usage: scripts/bench NAME [options]; --help says which. Programs side by side:\n{names}\n"
        f"and {', '.join(SCRIPTS)}. The first word alone runs all of its parts."
    )


def main(arguments: Sequence[str]) -> None:
    """Run one benchmark, or all parts of one.

    Raises:
        SystemExit: with 2, if there is none of this name.
    """
    first, *rest = arguments or [""]
    if first == "--child":
        name, label, sizes = rest
        act_as_child(CASES[name], label, argparse.Namespace(**json.loads(sizes)))
    elif first in SCRIPTS:
        os.execv(sys.executable, [sys.executable, "-m", f"benchmarks.{first}", *rest])
    elif rest and f"{first} {rest[0]}" in CASES:
        name = f"{first} {rest[0]}"
        run_case(name, CASES[name], rest[1:])
    elif first in CASES:
        run_case(first, CASES[first], rest)
    elif parts := [name for name in CASES if name.startswith(f"{first} ")]:
        for name in parts:
            print(f"## {name}\n", flush=True)
            run_case(name, CASES[name], rest)
            print(flush=True)
    else:
        print(usage(), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
