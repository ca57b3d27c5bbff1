"""The table of faults: how the setting of each is drawn, and how a command gets it.

A fault stops the process, leaves it no room, or starts it twice; it cuts a file off, flips a bit of
it, or forbids to read it; it changes the times of files, the locale, the rights of new files, the
home or the network. A fault of the last line must not change the files that a command writes.
"""

from __future__ import annotations

import fnmatch
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.damaged_streams import flip_at
from benchmarks.support.conditions import Conditions, can_mount, filled, is_root, small_disk
from benchmarks.support.outcomes import Outcome, is_cache, judge
from benchmarks.support.scenarios import SCENARIOS
from benchmarks.support.trial_folders import Trials

__all__ = ["FAULTS", "Fault", "Trial", "kill_at_change", "make_trial", "trial"]

Setting = dict[str, Any]
"""The drawn setting of a fault."""

Draw = Callable[[random.Random, Trials, str], Setting]

SPARE = 1 << 13
"""Bytes beyond the size of the outputs, up to which free room is drawn."""

FULL = ("No space left on device", "Not enough disk space", "File too large")

REFUSED = ("another process", "is there already", "was built anew")
"""Words of the messages of the second of two processes."""

YEAR = 365.25 * 86400

LOCALES: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu"},
    {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    {"LANG": "zh_CN.GB18030", "TERM": "dumb"},
)

HOMES: tuple[dict[str, str | None], ...] = (
    {"HOME": "home/missing", "MSSHIFT_CACHE": None, "HF_DATASETS_CACHE": None, "HF_HOME": None},
    {"HOME": "/dev/null", "MSSHIFT_CACHE": None, "HF_DATASETS_CACHE": None, "HF_HOME": None},
    {"HOME": "home", "XDG_CACHE_HOME": "/dev/null/x", "MSSHIFT_CACHE": None, "HF_HOME": None},
    {"HOME": "/dev/null", "MSSHIFT_CACHE": "home/other"},
    {"HOME": "home", "TMPDIR": "/dev/null/x", "MSSHIFT_CACHE": "~/other"},
)
"""Environments; ``home`` is replaced by a folder in the command's."""

UMASKS = (0o077, 0o027, 0o007, 0o000)

GZIP_HEADER = 10
"""The first bytes of a gzip file, which do not depend on its text."""


# ---- settings -----------------------------------------------------------------------------------


def draw_change(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw a change of the file system."""
    return {"change": 1 + rng.randrange(len(trials.reference(scenario).changes))}


def draw_moment(rng: random.Random, _trials: Trials, _scenario: str) -> Setting:
    """Draw a share of the command's CPU seconds; imports take the first third."""
    return {"share": round(rng.uniform(0.3, 1), 3)}


def draw_room(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw the free bytes of a disk."""
    return {"room": rng.randrange(sum(_sizes(trials, scenario)) + SPARE)}


def draw_limit(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw the limit of a file's size."""
    return {"largest": rng.randrange(max(_sizes(trials, scenario)))}


def _sizes(trials: Trials, scenario: str) -> list[int]:
    """Return the sizes of the files that a scenario's command writes."""
    reference = trials.reference(scenario)
    return [
        (reference.folder / path).stat().st_size
        for path, digest in reference.after.items()
        if digest is not None and reference.before.get(path) != digest
    ]


def draw_file(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw one of the files that a command reads, or of those that it wrote, equally often."""
    reference, inputs = trials.reference(scenario), SCENARIOS[scenario].inputs
    read = [
        path
        for path, digest in reference.before.items()
        if digest is not None and not any(fnmatch.fnmatch(path, one) for one in inputs)
    ]
    # The cache of the datasets library is not checked.
    written = [
        path
        for path, digest in reference.after.items()
        if digest is not None
        and reference.before.get(path) != digest
        and not path.startswith("datasets/")
    ]
    finished = not read or (bool(written) and rng.random() < 0.5)
    return {"file": rng.choice(written if finished else read), "finished": finished}


def draw_place(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw a file, and a place in it as a share of its bytes."""
    drawn = draw_file(rng, trials, scenario)
    return {**drawn, "share": round(rng.random(), 6), "bit": rng.randrange(8)}


def draw_right(rng: random.Random, trials: Trials, scenario: str) -> Setting:
    """Draw a file, and whether its folder loses a right instead."""
    return {**draw_file(rng, trials, scenario), "is_folder": rng.random() < 0.3}


def draw_times(rng: random.Random, _trials: Trials, _scenario: str) -> Setting:
    """Draw the years by which the times of files are wrong."""
    return {"years": round(rng.uniform(-30, 60), 2)}


def draw_from(name: str, values: tuple[Any, ...]) -> Draw:
    """Return a function that draws one of some values."""
    return lambda rng, _trials, _scenario: {name: rng.choice(values)}


# ---- faults -------------------------------------------------------------------------------------


def kill_at_change(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Kill a command before a change of the file system."""
    folder = trials.prepare(scenario)
    done, _ = trials.kill_at(folder, SCENARIOS[scenario].command, setting["change"])
    return judge(trials, scenario, folder, done)


def stop(trials: Trials, scenario: str, setting: Setting, *, number: signal.Signals) -> Outcome:
    """Send a command a signal."""
    moment = setting["share"] * trials.reference(scenario).cpu
    folder = trials.prepare(scenario)
    running = trials.start(folder, SCENARIOS[scenario].command)
    running.wait_until(moment)
    running.signal(number)
    return judge(trials, scenario, folder, running.wait())


def fill_disk(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command on a disk with little room; the remedy is more room."""
    with small_disk() as disk:
        folder = trials.prepare(scenario, disk)
        with filled(disk, setting["room"]):
            done = trials.run(folder, SCENARIOS[scenario].command)
        return judge(trials, scenario, folder, done, names=FULL)


def limit_files(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command with a limit of a file's size; the remedy is no limit."""
    return _run(trials, scenario, Conditions(largest=setting["largest"]), names=FULL)


def start_twice(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Start a command twice in one folder, the second later; other commands read meanwhile."""
    moment = setting["share"] * trials.reference(scenario).cpu
    folder, steps = trials.prepare(scenario), SCENARIOS[scenario]
    first = trials.start(folder, steps.command)
    first.wait_until(moment)
    second = trials.start(folder, steps.command)
    readers = [trials.run(folder, command) for command in steps.reads]
    writers = [first.wait(), second.wait()]
    wrong = [
        f"a reader ends with {one.code}: {one.stderr}"
        for one in readers
        if not 0 <= one.code <= 3 or "Traceback" in one.stderr
    ]
    for one in writers:
        is_refused = one.code in (1, 2) and any(words in one.stderr for words in REFUSED)
        if one.code and not is_refused:
            wrong.append(f"a writer ends with {one.code}: {one.stderr}")
    best = min(writers, key=lambda one: one.code)
    if best.code:
        wrong.append("both writers failed")
    outcome = judge(trials, scenario, folder, best)
    ended = "refused" if any(one.code for one in writers) else "identical"
    return Outcome(ended, outcome.wrong).with_wrong(wrong)


def damage(
    trials: Trials, scenario: str, setting: Setting, *, change: Callable[[bytes, int, int], bytes]
) -> Outcome:
    """Change the bytes of a file, and run the command.

    The remedy for a file that the command reads is to put it back. A file that it wrote is removed,
    with the other files in its folder that the message names.
    """
    folder = trials.prepare(scenario, finished=setting["finished"])
    path = folder / setting["file"]
    content = path.read_bytes()
    first = GZIP_HEADER if path.suffix == ".gz" and "runs/" in setting["file"] else 0
    place = first + int(setting["share"] * (len(content) - first))
    path.write_bytes(change(content, place, setting["bit"]) if content else content)
    done = trials.run(folder, SCENARIOS[scenario].command)

    def remedy() -> None:
        if not setting["finished"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return
        for other in [*path.parent.iterdir()]:
            if other == path or (other.is_file() and other.name in done.stderr):
                other.unlink()

    names = (path.name, path.parent.name) if path.parent != folder else (path.name,)
    damaged = (setting["file"],)
    return judge(trials, scenario, folder, done, remedy=remedy, names=names, damaged=damaged)


def remove_right(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Remove the right to read a file, or to write into its folder."""
    folder = trials.prepare(scenario, finished=setting["finished"])
    file = folder / setting["file"]
    path, mode = (file.parent, 0o500) if setting["is_folder"] else (file, 0)
    before = path.stat().st_mode
    path.chmod(mode)
    done = trials.run(folder, SCENARIOS[scenario].command, Conditions(has_rights=False))
    if path.exists():
        path.chmod(before)
    return judge(trials, scenario, folder, done, names=(path.name, path.parent.name))


def change_times(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command on files with other times."""
    folder = trials.prepare(scenario)
    changed = folder.stat().st_mtime + setting["years"] * YEAR
    for path in folder.rglob("*"):
        os.utime(path, (changed, changed))
    return _run(trials, scenario, Conditions(), folder)


def change_locale(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command with another language and encoding."""
    return _run(trials, scenario, Conditions({"LANG": None, **setting["environment"]}))


def change_umask(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command with another umask, which all new files must obey."""
    folder, umask = trials.prepare(scenario), setting["umask"]
    before = trials.reference(scenario).before
    done = trials.run(folder, SCENARIOS[scenario].command, Conditions(umask=umask))
    wrong = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        expected = (0o777 if path.is_dir() else 0o666) & ~umask
        if name not in before and not is_cache(name) and path.stat().st_mode & 0o777 != expected:
            wrong.append(f"{name} has the rights {path.stat().st_mode & 0o777:o}")
    return judge(trials, scenario, folder, done).with_wrong(wrong)


def change_home(trials: Trials, scenario: str, setting: Setting) -> Outcome:
    """Run a command with other folders for HOME, caches and temporary files."""
    folder = trials.prepare(scenario)
    environment = {
        name: f"{folder}/{value}" if value is not None and value.startswith("home") else value
        for name, value in setting["environment"].items()
    }
    return _run(trials, scenario, Conditions(environment), folder, other_caches=True)


def cut_network(trials: Trials, scenario: str, _: Setting) -> Outcome:
    """Run a command without a network; no variable says so."""
    environment = {"HF_HUB_OFFLINE": None, "TRANSFORMERS_OFFLINE": None}
    return _run(trials, scenario, Conditions(environment, has_network=False))


def _run(
    trials: Trials,
    scenario: str,
    conditions: Conditions,
    folder: Path | None = None,
    **options: Any,
) -> Outcome:
    folder = folder or trials.prepare(scenario)
    done = trials.run(folder, SCENARIOS[scenario].command, conditions)
    return judge(trials, scenario, folder, done, **options)


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    Attributes:
        draw: draws the setting.
        make: runs a scenario's command with the fault, and judges the outcome.
        is_possible: whether this machine and user can make it.
    """

    draw: Draw
    make: Callable[[Trials, str, Setting], Outcome]
    is_possible: Callable[[], bool] = lambda: True


FAULTS = {
    "SIGKILL before a change": Fault(draw_change, kill_at_change),
    **{
        f"{number.name} at a moment": Fault(draw_moment, partial(stop, number=number))
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
    },
    "disk full": Fault(draw_room, fill_disk, cache(can_mount)),
    "files limited in size": Fault(draw_limit, limit_files),
    "right removed": Fault(draw_right, remove_right),
    "file cut off": Fault(draw_place, partial(damage, change=lambda data, at, _: data[:at])),
    "bit flipped": Fault(draw_place, partial(damage, change=flip_at)),
    "two at once": Fault(draw_moment, start_twice),
    "file times changed": Fault(draw_times, change_times),
    "locale changed": Fault(draw_from("environment", LOCALES), change_locale),
    "umask changed": Fault(draw_from("umask", UMASKS), change_umask),
    "HOME changed": Fault(draw_from("environment", HOMES), change_home),
    "network cut": Fault(lambda *_: {}, cut_network, is_root),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault for one command.

    Attributes:
        fault: a name in `FAULTS`.
        scenario: a name in `SCENARIOS`.
        seed: the seed of its setting.
    """

    fault: str
    scenario: str
    seed: str


def trial(seed: int, number: int) -> Trial:
    """Return a trial of a series: all faults in turn, each with the commands in a drawn order."""
    fault = list(FAULTS)[number % len(FAULTS)]
    commands = list(SCENARIOS)
    random.Random(f"{seed} {fault}").shuffle(commands)
    scenario = commands[number // len(FAULTS) % len(commands)]
    return Trial(fault, scenario, f"{seed} {number}")


def make_trial(trials: Trials, one: Trial) -> tuple[Setting, Outcome]:
    """Run a trial; return the drawn setting and the outcome."""
    fault = FAULTS[one.fault]
    setting = fault.draw(random.Random(one.seed), trials, one.scenario)
    return setting, fault.make(trials, one.scenario, setting)
