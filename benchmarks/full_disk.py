"""Commands on a disk that gets full, with more and more bytes left.

Every command that writes runs on a small disk of its own (tmpfs, which needs root to mount). The
disk is filled up except for a number of bytes that doubles until the command ends well; between the
last two, numbers are drawn. If the room does not suffice, the command must say so in a sentence,
with exit code 3. Then room is made: the old content must be readable, and the command, run again,
must leave what an undisturbed run does, byte for byte.

``scripts/bench full_disk [--drawn 4] [--seed 0] [COMMAND ...]``
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.support.killing import SCENARIOS, Laboratory, contents, differences

SIZE, PAGE = 256 << 20, 4096
SENTENCES = (
    "No space left on device; make room and run the command again",
    "Not enough disk space. Needed: ",
)
"""Ours, and that of the datasets library, which asks before it begins."""


@contextmanager
def small_disk() -> Iterator[Path]:
    """Give the folder of a disk that holds nothing.

    Raises:
        SystemExit: if none can be mounted here.
    """
    with tempfile.TemporaryDirectory() as folder:
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
        done = subprocess.run(mounting, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"skipped: no disk can be mounted here: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def attempt(laboratory: Laboratory, disk: Path, name: str, room: int) -> tuple[bool, list[str]]:
    """Run a command with so many bytes left; return whether they sufficed, and what is wrong."""
    scenario = SCENARIOS[name]
    _, expected = laboratory.undisturbed(name)
    folder = laboratory.prepare(name, disk)
    filler = disk / "filler"
    stat = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - room))
    done = laboratory.run(folder, scenario.command)
    filler.unlink()
    if done.code == 0:
        wrong = differences(contents(folder), expected)
    else:
        is_told = done.code == 3 and "Traceback" not in done.stderr
        is_told = is_told and any(sentence in done.stderr for sentence in SENTENCES)
        wrong = [] if is_told else [f"it ends with {done.code}: {done.stderr}"]
        wrong += laboratory.read(name, folder)
        wrong += laboratory.finish(name, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return done.code == 0, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", default=[*SCENARIOS], metavar="COMMAND")
    parser.add_argument("--drawn", type=int, default=4, help="sizes below the one that suffices")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    disks = full = bad = 0
    with tempfile.TemporaryDirectory() as folder, small_disk() as disk:
        laboratory = Laboratory(Path(folder))
        for name in arguments.commands:
            drawn = random.Random(f"{arguments.seed} {name}")
            rooms, outcomes = [0], []
            while rooms:
                room = rooms.pop(0)
                ended, found = attempt(laboratory, disk, name, room)
                outcomes.append((ended, bool(found)))
                if found:
                    print(f"{name}, {room} bytes left:", *found, sep="\n    ")
                if not ended and not rooms and not any(one for one, _ in outcomes):
                    rooms = [max(PAGE, 2 * room)]
                elif ended and sum(one for one, _ in outcomes) == 1:
                    rooms = [drawn.randrange(room // 2, room) for _ in range(arguments.drawn)]
            refused = sum(not ended for ended, _ in outcomes)
            wrong = sum(one for _, one in outcomes)
            disks, full, bad = disks + len(outcomes), full + refused, bad + wrong
            print(f"| {name} | {len(outcomes)} | {refused} | {wrong} |", flush=True)
    print(f"{disks} disks, {full} of them too full, {bad} with something wrong")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
