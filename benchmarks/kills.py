"""Commands that are killed at every change of the file system, one call after the other.

Every command that writes runs on the smallest data; before the n-th call that makes, renames or
removes a name it kills itself (SIGKILL), for every n. Then it runs again; if it changes something
that was there, other commands read that first. All must end well, and everything below the folder,
hidden names, too, must be what an undisturbed run leaves, byte for byte.

``scripts/bench kills [--every 1] [--first 1] [COMMAND ...]``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.support.killing import SCENARIOS, Laboratory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", default=[*SCENARIOS], metavar="COMMAND")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th call")
    parser.add_argument("--first", type=int, default=1, help="the first call, from 1")
    arguments = parser.parse_args()
    kills = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(Path(folder))
        for name in arguments.commands:
            done, _ = laboratory.undisturbed(name)
            moments = range(arguments.first, len(done.calls) + 1, arguments.every)
            wrong = 0
            for at in moments:
                if found := laboratory.kill(name, at):
                    wrong += 1
                    call = " ".join(done.calls[at - 1]).replace(folder, "")
                    print(f"{name}: killed before call {at} ({call}):", *found, sep="\n    ")
            kills, bad = kills + len(moments), bad + wrong
            print(f"| {name} | {len(moments)} | {wrong} |", flush=True)
    print(f"{kills} kills, {bad} of them with something wrong afterwards")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
