"""Two processes that write the same thing at once, and readers meanwhile.

Every command that writes is started twice in the same folder, the second after a random part of
the time that the first takes. Either may end because of the other (exit code 1 or 2); one must end
well, and everything below the folder must be what one undisturbed run leaves, byte for byte. If the
command changes something that was there, another one reads it meanwhile: it ends well, or says
what it missed. Then comes the loop that once tore files: writers of one JSON file, and a reader.

``scripts/bench two_at_once [--pairs 6] [--writes 500] [--seed 0] [COMMAND ...]``
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.killing import SCENARIOS, Done, Laboratory, contents, differences
from msshift_bench.errors import UsageError
from msshift_bench.plumbing.files import write_json

TOLD = ("another process", "is there already", "was built anew")
WRITERS, FILLING = 4, list(range(300))


def pair(laboratory: Laboratory, name: str, part: float) -> tuple[list[str], int, int]:
    """Start a command twice; return what is wrong, how many were told, and how many readers."""
    scenario = SCENARIOS[name]
    _, expected = laboratory.undisturbed(name)
    folder = laboratory.prepare(name)
    began = time.monotonic()
    laboratory.run(laboratory.prepare(name), scenario.command)
    takes = time.monotonic() - began
    waits = [laboratory.start(folder, scenario.command)]
    time.sleep(part * takes)
    waits.append(laboratory.start(folder, scenario.command))
    readers = [laboratory.run(folder, command) for command in scenario.reads]
    writers = [wait() for wait in waits]
    wrong = [f"a reader ends with {one.code}: {one.stderr}" for one in readers if _is_torn(one)]
    phrases = (*TOLD, scenario.done) if scenario.done else TOLD
    wrong += [
        f"a writer ends with {one.code}: {one.stderr}"
        for one in writers
        if one.code and (_is_torn(one) or not any(phrase in one.stderr for phrase in phrases))
    ]
    if all(one.code for one in writers):
        wrong.append("neither ended well")
    wrong += differences(contents(folder), expected)
    shutil.rmtree(folder)
    return wrong, sum(one.code > 0 for one in writers), sum(one.code > 0 for one in readers)


def _is_torn(done: Done) -> bool:
    return done.code < 0 or done.code > 3 or "Traceback" in done.stderr


def write_over_and_over(path: Path, writes: int) -> None:
    """Write a file again and again; being told of another writer is no failure."""
    while writes:
        try:
            write_json(path, {"filling": FILLING})
        except UsageError:
            continue
        writes -= 1


def loop(path: Path, writes: int) -> tuple[int, int]:
    """Return how often a file was read while several wrote it, and how often it was torn."""
    write_json(path, {"filling": FILLING})
    started = [
        multiprocessing.Process(target=write_over_and_over, args=(path, writes))
        for _ in range(WRITERS)
    ]
    for one in started:
        one.start()
    reads = torn = 0
    while any(one.is_alive() for one in started):
        reads += 1
        try:
            torn += json.loads(path.read_bytes()) != {"filling": FILLING}
        except ValueError:
            torn += 1
    if any(one.exitcode for one in started):
        raise SystemExit("a writer failed")
    return reads, torn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", default=[*SCENARIOS], metavar="COMMAND")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pairs = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(Path(folder))
        for name in arguments.commands:
            drawn = random.Random(f"{arguments.seed} {name}")
            wrong = refused = readers = 0
            for _ in range(arguments.pairs):
                part = drawn.random()
                found, writing, reading = pair(laboratory, name, part)
                refused, readers = refused + writing, readers + reading
                if found:
                    wrong += 1
                    print(f"{name}, the second after {part:.2f}:", *found, sep="\n    ")
            pairs, bad = pairs + arguments.pairs, bad + wrong
            print(f"| {name} | {arguments.pairs} | {refused} | {readers} | {wrong} |", flush=True)
        reads, torn = loop(Path(folder) / "x.json", arguments.writes)
    print(f"{pairs} pairs, {bad} of them with something wrong")
    print(
        f"{WRITERS} writers of one file, {arguments.writes} times each: {reads} reads, {torn} torn"
    )
    sys.exit(bad + torn > 0)


if __name__ == "__main__":
    main()
