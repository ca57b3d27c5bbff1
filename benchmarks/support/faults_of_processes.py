"""Faults that befall a process: it is stopped, has no room, or is not alone."""

from __future__ import annotations

import random
import signal
from typing import Any

from benchmarks.support.circumstances import Circumstances
from benchmarks.support.laboratory import Laboratory
from benchmarks.support.outcomes import Outcome, judge
from benchmarks.support.scenarios import SCENARIOS
from benchmarks.support.small_disk import filled, small_disk

__all__ = [
    "draw_call",
    "draw_limit",
    "draw_moment",
    "draw_room",
    "fill_disk",
    "kill_at_call",
    "limit_files",
    "start_twice",
    "stop",
]

Setting = dict[str, Any]

SPARE = 1 << 13
"""Bytes beyond those of the outputs, up to which room is drawn."""

FULL = ("No space left on device", "Not enough disk space", "File too large")

TOLD = ("another process", "is there already", "was built anew")
"""What the second of two processes may say."""


def draw_call(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    """Draw a call that changes a name."""
    return {"call": 1 + rng.randrange(len(laboratory.undisturbed(scenario).done.calls))}


def draw_moment(rng: random.Random) -> Setting:
    """Draw a moment, as a share of the CPU seconds that the command takes."""
    return {"share": round(rng.random(), 3)}


def draw_room(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    """Draw how many bytes are free, up to somewhat more than the outputs need."""
    return {"room": rng.randrange(_size(laboratory, scenario) + SPARE)}


def draw_limit(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    """Draw how large a file may be, up to the largest output."""
    return {"largest": rng.randrange(_size(laboratory, scenario, largest=True))}


def _size(laboratory: Laboratory, scenario: str, *, largest: bool = False) -> int:
    """Return the bytes of a scenario's new files, or of the largest of them."""
    usual, folder = laboratory.undisturbed(scenario), laboratory.finished(scenario)
    sizes = [
        (folder / path).stat().st_size
        for path, digest in usual.after.items()
        if digest is not None and usual.before.get(path) != digest
    ]
    return max(sizes) if largest else sum(sizes)


def kill_at_call(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Kill a command before a call that changes a name."""
    folder = laboratory.prepare(scenario)
    done = laboratory.run(folder, SCENARIOS[scenario].command, setting["call"])
    return judge(laboratory, scenario, folder, done)


def stop(
    laboratory: Laboratory, scenario: str, setting: Setting, *, number: signal.Signals
) -> Outcome:
    """Send a command a signal."""
    moment = setting["share"] * laboratory.undisturbed(scenario).done.cpu
    folder, steps = laboratory.prepare(scenario), SCENARIOS[scenario]
    started = laboratory.start(folder, steps.command, is_script=steps.is_script)
    started.wait_until(moment)
    started.signal(number)
    return judge(laboratory, scenario, folder, started.wait())


def fill_disk(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command on a disk with so many bytes free; the cure is to make room."""
    steps = SCENARIOS[scenario]
    with small_disk() as disk:
        folder = laboratory.prepare(scenario, disk)
        with filled(disk, setting["room"]):
            done = laboratory.run(folder, steps.command, is_script=steps.is_script)
        return judge(laboratory, scenario, folder, done, names=FULL)


def limit_files(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command where no file may be larger than so; the cure is to lift the limit."""
    folder, steps = laboratory.prepare(scenario), SCENARIOS[scenario]
    within = Circumstances(largest=setting["largest"])
    done = laboratory.run(folder, steps.command, within=within, is_script=steps.is_script)
    return judge(laboratory, scenario, folder, done, names=FULL)


def start_twice(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Start a command twice in one folder, the second later; others read meanwhile."""
    moment = setting["share"] * laboratory.undisturbed(scenario).done.cpu
    folder, steps = laboratory.prepare(scenario), SCENARIOS[scenario]
    phrases = (*TOLD, steps.done) if steps.done else TOLD
    first = laboratory.start(folder, steps.command, is_script=steps.is_script)
    first.wait_until(moment)
    second = laboratory.start(folder, steps.command, is_script=steps.is_script)
    readers = [laboratory.run(folder, command) for command in steps.reads]
    writers = [first.wait(), second.wait()]
    wrong = [
        f"a reader ends with {one.code}: {one.stderr}"
        for one in readers
        if not 0 <= one.code <= 3 or "Traceback" in one.stderr
    ]
    for one in writers:
        is_told = one.code in (1, 2) and any(phrase in one.stderr for phrase in phrases)
        if one.code and not is_told:
            wrong.append(f"a writer ends with {one.code}: {one.stderr}")
    if all(one.code for one in writers):
        wrong.append("neither ended well")
    refused = [one for one in writers if one.code]
    best = min(writers, key=lambda one: one.code)
    outcome = judge(laboratory, scenario, folder, best)
    wrong += outcome.wrong
    said = refused[0].stderr.partition("error: ")[2].strip() if refused else ""
    return Outcome("wrong" if wrong else "refused" if refused else "identical", said, wrong)
