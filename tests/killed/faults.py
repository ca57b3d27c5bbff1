"""Faults of every kind that befall the commands of the pipeline, drawn by a seed.

Each run draws a command and a fault: the process is killed or interrupted; the disk is full; a
right is taken away; a file is cut off, or a bit of it flipped; the command is started twice; the
clock, the locale, the umask or HOME is another; the network is cut. The command must end with the
outputs of an undisturbed run, byte for byte, or say what is wrong, where, and be as before; after
the cure, the same command must leave these outputs, and nothing else, hidden names too.

With ``--page`` the runs become a part of docs/reliability.md.

``scripts/bench faults [--runs 100] [--seed 0] [--only N] [--fault NAME] [--command NAME]``
``scripts/bench faults --every-call [--command NAME]`` kills at every change of the file system.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msshift_bench.plumbing.files import write_atomically
from tests.killed.fault_table import FAULTS, Trial, inflict, kill_at_call, trial
from tests.killed.laboratory import Laboratory
from tests.killed.outcomes import ENDED
from tests.killed.scenarios import SCENARIOS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- from scripts/bench faults -->\n", "<!-- end -->\n"
HEADINGS = ("identical", "refused, then identical", "stopped, then identical", "lost or wrong")
"""What the page calls `ENDED`."""

Run = dict[str, Any]
"""A run that is done: its number, fault, command, setting, how it ended, what it said, and what is
wrong."""


def chosen(arguments: argparse.Namespace) -> Iterator[tuple[int, Trial]]:
    """Yield the numbers and trials that were asked for; what this machine cannot do is named."""
    impossible, number, count = set(), 0, 0
    while count < arguments.runs:
        one = trial(arguments.seed, number)
        is_meant = (not arguments.fault or one.fault in arguments.fault) and (
            not arguments.command or one.scenario in arguments.command
        )
        if is_meant and FAULTS[one.fault].is_possible():
            yield number, one
            count += 1
        elif is_meant and one.fault not in impossible:
            impossible.add(one.fault)
            print(f"left out, because it takes root's rights here: {one.fault}", file=sys.stderr)
        number += 1
        if number > 100_000:
            sys.exit("no such fault befalls such a command")


def run(laboratory: Laboratory, number: int, one: Trial) -> Run:
    """Make a run, and print what is wrong."""
    setting, outcome = inflict(laboratory, one)
    print(f"{number:4} {outcome.ended:9} {one.fault}, {one.scenario}: {setting}", flush=True)
    print(*outcome.wrong, sep="\n", end="\n" if outcome.wrong else "", flush=True)
    return {
        "number": number,
        "fault": one.fault,
        "command": one.scenario,
        "setting": setting,
        "ended": outcome.ended,
        "said": outcome.said,
        "wrong": list(outcome.wrong),
    }


def table(runs: Sequence[Run], key: str, heading: str, names: Sequence[str]) -> list[str]:
    """Return a table of how runs ended, in Markdown."""
    lines = [f"| {heading} | runs | {' | '.join(HEADINGS)} |", "|---|" + "---:|" * 5]
    for name in names:
        ended = Counter(one["ended"] for one in runs if one[key] == name)
        if ended:
            counts = " | ".join(str(ended[kind]) for kind in ENDED)
            lines.append(f"| {name} | {ended.total()} | {counts} |")
    ended = Counter(one["ended"] for one in runs)
    counts = " | ".join(f"**{ended[kind]}**" for kind in ENDED)
    return [*lines, f"| all | {len(runs)} | {counts} |"]


def described(setting: Run) -> str:
    """Return what was drawn, for the list of runs."""
    text = ", ".join(
        f"{name} {json.dumps(value) if isinstance(value, dict) else value}"
        for name, value in setting.items()
    )
    return text.replace("|", "\\|") or "-"


def described_runs(runs: Sequence[Run]) -> list[str]:
    """Return the list of all runs, in Markdown."""
    lines = ["| run | fault | command | what was drawn | ended |", "|---:|---|---|---|---|"]
    for one in runs:
        ended = HEADINGS[ENDED.index(one["ended"])]
        lines.append(
            f"| {one['number']} | {one['fault']} | {one['command']} "
            f"| {described(one['setting'])} | {ended} |"
        )
    return lines


def write_page(runs: Sequence[Run], seed: int) -> None:
    """Write the runs into docs/reliability.md."""
    made = [
        f"{len(runs)} runs with seed {seed}, on {datetime.date.today().isoformat()}: "
        f"`scripts/bench faults --runs {len(runs)} --seed {seed} --page`.",
        "",
        *table(runs, "fault", "fault", [*FAULTS]),
        "",
        *table(runs, "command", "command", [*SCENARIOS]),
        "",
        "`scripts/bench faults --only RUN` repeats one of them:",
        "",
        *described_runs(runs),
        "",
    ]
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    with write_atomically(PAGE) as file:
        after = rest.partition(END)[2]
        file.write(f"{before}{BEGIN}\n{chr(10).join(made)}\n{END}{after}".encode())


def kill_at_every_call(laboratory: Laboratory, commands: Sequence[str], every: int) -> int:
    """Kill commands before each call that changes a name; return how many kills lost something."""
    kills = bad = 0
    for name in commands:
        calls = laboratory.undisturbed(name).done.calls
        moments, wrong = range(1, len(calls) + 1, every), 0
        for call in moments:
            outcome = kill_at_call(laboratory, name, {"call": call})
            if outcome.ended != "stopped":
                wrong += 1
                print(f"{name}, call {call} {calls[call - 1]}:", *outcome.wrong, sep="\n    ")
        kills, bad = kills + len(moments), bad + wrong
        print(f"| {name} | {len(moments)} | {wrong} |", flush=True)
    print(f"{kills} kills, {bad} of them with something wrong afterwards")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", help="only the run of this number")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="only this fault")
    parser.add_argument("--command", action="append", choices=[*SCENARIOS])
    parser.add_argument("--every-call", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th call")
    parser.add_argument("--page", action="store_true", help="write docs/reliability.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msshift-faults-") as work:
        os.environ["MSSHIFT_CACHE"] = f"{work}/cache"
        sys.exit(carry_out(Laboratory(Path(work)), arguments) > 0)


def carry_out(laboratory: Laboratory, arguments: argparse.Namespace) -> int:
    """Make the runs that are asked for; return how many of them lost something or went wrong."""
    if arguments.every_call:
        forked = [name for name in SCENARIOS if not SCENARIOS[name].is_script]
        return kill_at_every_call(laboratory, arguments.command or forked, arguments.every)
    asked = ((number, trial(arguments.seed, number)) for number in arguments.only or ())
    runs = [run(laboratory, *one) for one in (asked if arguments.only else chosen(arguments))]
    print(*table(runs, "fault", "fault", [*FAULTS]), sep="\n")
    bad = sum(bool(one["wrong"]) for one in runs)
    print(f"{len(runs)} runs, {bad} of them with something lost or wrong")
    if arguments.page:
        write_page(runs, arguments.seed)
    return bad


if __name__ == "__main__":
    main()
