"""Faults of every kind for the commands of the pipeline, drawn by a seed.

Each trial draws a command and a fault: the process is killed or interrupted; the disk is full; a
right is removed; a file is cut off, or a bit of it flipped; the command is started twice; the times
of files, the locale, the umask or HOME are others; the network is cut. The command must end with
the files of a run without a fault, byte for byte, or refuse and name the file. After the remedy,
the same command must leave these files, and no other file, hidden names included.

``scripts/bench faults [--runs 100] [--seed 0] [--only N] [--fault NAME] [--command NAME]``
``scripts/bench faults --every-change [--command NAME]`` kills at every change of the file system.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.fault_table import FAULTS, Trial, kill_at_change, make_trial, trial
from benchmarks.support.outcomes import ENDED
from benchmarks.support.scenarios import SCENARIOS
from benchmarks.support.trial_folders import Trials

HEADINGS = ("identical", "refused, then identical", "stopped, then identical", "lost or wrong")
"""The headings of `ENDED`."""


class Result(NamedTuple):
    """A finished trial."""

    fault: str
    command: str
    ended: str


def chosen(arguments: argparse.Namespace) -> Iterator[tuple[int, Trial]]:
    """Yield the numbers and trials of the arguments; print the faults that are impossible here."""
    impossible, number, count = set(), 0, 0
    while count < arguments.runs:
        one = trial(arguments.seed, number)
        is_asked = (not arguments.fault or one.fault in arguments.fault) and (
            not arguments.command or one.scenario in arguments.command
        )
        if is_asked and FAULTS[one.fault].is_possible():
            yield number, one
            count += 1
        elif is_asked and one.fault not in impossible:
            impossible.add(one.fault)
            print(f"left out, because it needs root's rights: {one.fault}", file=sys.stderr)
        number += 1
        if number > 100_000:
            sys.exit("no such fault for such a command")


def run(trials: Trials, number: int, one: Trial) -> Result:
    """Run a trial, and print its outcome."""
    setting, outcome = make_trial(trials, one)
    print(f"{number:4} {outcome.ended:9} {one.fault}, {one.scenario}: {setting}", flush=True)
    print(*outcome.wrong, sep="\n", end="\n" if outcome.wrong else "", flush=True)
    return Result(one.fault, one.scenario, outcome.ended)


def table(results: Sequence[Result], key: str, names: Sequence[str]) -> list[str]:
    """Return the outcomes by fault or by command, in Markdown."""
    lines = [f"| {key} | runs | {' | '.join(HEADINGS)} |", "|---|" + "---:|" * 5]
    for name in (*names, "all"):
        ended = Counter(one.ended for one in results if name in ("all", getattr(one, key)))
        if ended:
            counts = " | ".join(str(ended[kind]) for kind in ENDED)
            lines.append(f"| {name} | {ended.total()} | {counts} |")
    return lines


def kill_at_every_change(trials: Trials, commands: Sequence[str], every: int) -> int:
    """Kill commands before each change of the file system; return the number of bad outcomes."""
    kills = bad = 0
    for name in commands:
        changes = trials.reference(name).changes
        moments, wrong = range(1, len(changes) + 1, every), 0
        for number in moments:
            outcome = kill_at_change(trials, name, {"change": number})
            if outcome.ended != "stopped":
                wrong += 1
                print(f"{name}, {number} {changes[number - 1]}:", *outcome.wrong, sep="\n    ")
        kills, bad = kills + len(moments), bad + wrong
        print(f"| {name} | {len(moments)} | {wrong} |", flush=True)
    print(f"{kills} kills, {bad} of them with something wrong afterwards")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench faults")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", help="only the trial of this number")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="only this fault")
    parser.add_argument("--command", action="append", choices=[*SCENARIOS])
    parser.add_argument("--every-change", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th change")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msshift-faults-") as folder:
        os.environ["MSSHIFT_CACHE"] = f"{folder}/cache"
        trials = Trials(Path(folder))
        if arguments.every_change:
            commands = arguments.command or [*SCENARIOS]
            sys.exit(kill_at_every_change(trials, commands, arguments.every) > 0)
        asked = [(number, trial(arguments.seed, number)) for number in arguments.only or ()]
        results = [run(trials, *one) for one in asked or chosen(arguments)]
    print(*table(results, "fault", [*FAULTS]), "", sep="\n")
    print(*table(results, "command", [*SCENARIOS]), sep="\n")
    sys.exit(any(one.ended == "wrong" for one in results))


if __name__ == "__main__":
    main()
