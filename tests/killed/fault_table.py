"""The table of faults: how each is drawn, inflicted, and told.

A process is stopped, has no room, or is not alone; a file that a command finds is cut off, has a
bit flipped, or is closed to it; the clock, the language, the rights of new files, the home or the
network is another. The latter may not change what a command writes; where it cannot work, it must
say so.
"""

from __future__ import annotations

import fnmatch
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.killed.circumstances import Circumstances, can_cut_network
from tests.killed.damaged_streams import flip_at
from tests.killed.laboratory import Laboratory
from tests.killed.outcomes import Outcome, is_cache, judge
from tests.killed.scenarios import SCENARIOS
from tests.killed.small_disk import can_mount, filled, small_disk

__all__ = ["FAULTS", "Fault", "Trial", "inflict", "kill_at_call", "trial"]

Setting = dict[str, Any]
"""What is drawn for a fault."""


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


GZIP_HEADER = 10
"""The first bytes of a gzip file, which say nothing of what it holds."""


def draw_file(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    """Draw a file among those that a command reads, or those that it made, as often."""
    usual, own = laboratory.undisturbed(scenario), SCENARIOS[scenario].own
    found = [
        path
        for path, digest in usual.before.items()
        if digest is not None and not any(fnmatch.fnmatch(path, one) for one in own)
    ]
    made = [
        path
        for path, digest in usual.after.items()
        if digest is not None and usual.before.get(path) != digest and _is_checked(path)
    ]
    is_finished = not found or (bool(made) and rng.random() < 0.5)
    return {"file": rng.choice(made if is_finished else found), "finished": is_finished}


def _is_checked(path: str) -> bool:
    """Say whether a file is this package's: what the datasets library caches is not."""
    return not path.startswith("datasets/")


def draw_place(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    """Draw a file, and a place in it as a share of its bytes."""
    drawn = draw_file(rng, laboratory, scenario)
    return {**drawn, "share": round(rng.random(), 6), "bit": rng.randrange(8)}


def _damage(
    laboratory: Laboratory, scenario: str, setting: Setting, change: Callable[[bytes, int], bytes]
) -> Outcome:
    """Change the bytes of a file, and run the command.

    The cure for a file that it reads is to put it back, for one that it made to remove it, and what
    else the error names in its folder.
    """
    folder = laboratory.prepare(scenario, finished=setting["finished"])
    path = folder / setting["file"]
    whole = path.read_bytes()
    first = GZIP_HEADER if path.suffix == ".gz" and "runs/" in setting["file"] else 0
    path.write_bytes(change(whole, first + int(setting["share"] * (len(whole) - first))))

    def cure() -> None:
        if not setting["finished"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole)
        elif SCENARIOS[scenario].done:
            _start_anew(laboratory, scenario, folder)
        else:
            for other in [*path.parent.iterdir()]:
                if other == path or (other.is_file() and other.name in done.stderr):
                    other.unlink()

    steps = SCENARIOS[scenario]
    done = laboratory.run(folder, steps.command, is_script=steps.is_script)
    names = (path.name, path.parent.name) if path.parent != folder else (path.name,)
    damaged = (setting["file"],)
    return judge(laboratory, scenario, folder, done, cure=cure, names=names, damaged=damaged)


def _start_anew(laboratory: Laboratory, scenario: str, folder: Path) -> None:
    shutil.rmtree(folder)
    laboratory.prepare(scenario).rename(folder)


def cut_off(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Cut a file off at a place."""
    return _damage(laboratory, scenario, setting, lambda data, place: data[:place])


def flip_bit(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Flip a bit of a file."""

    def flip(data: bytes, place: int) -> bytes:
        return flip_at(data, place, setting["bit"]) if data else data

    return _damage(laboratory, scenario, setting, flip)


def take_right_away(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Take from the user the right to read a file, or to write into its folder."""
    folder = laboratory.prepare(scenario, finished=setting["finished"])
    file = folder / setting["file"]
    path, mode = (file.parent, 0o500) if setting["is_folder"] else (file, 0)
    before = path.stat().st_mode
    steps = SCENARIOS[scenario]
    path.chmod(mode)
    within = Circumstances(has_rights=False)
    done = laboratory.run(folder, steps.command, within=within, is_script=steps.is_script)
    if path.exists():
        path.chmod(before)
    names = (path.name, path.parent.name)
    return judge(laboratory, scenario, folder, done, names=names)


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
"""Environments; ``home`` is put into the command's folder."""


def draw_nothing(_: random.Random) -> Setting:
    """Draw nothing: there is one such fault."""
    return {}


def draw_clock(rng: random.Random) -> Setting:
    """Draw by how many years the clock is wrong, and the times of the files."""
    return {"years": round(rng.uniform(-30, 30), 2), "files": round(rng.uniform(-30, 60), 2)}


def draw_locale(rng: random.Random) -> Setting:
    """Draw a language."""
    return {"environment": rng.choice(LOCALES)}


def draw_umask(rng: random.Random) -> Setting:
    """Draw the rights that new files lack."""
    return {"umask": rng.choice([0o077, 0o027, 0o007, 0o000])}


def draw_home(rng: random.Random) -> Setting:
    """Draw a home."""
    return {"environment": rng.choice(HOMES)}


def change_clock(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command with another clock, on files of another time."""
    folder = laboratory.prepare(scenario)
    changed = folder.stat().st_mtime + setting["files"] * YEAR
    for path in folder.rglob("*"):
        os.utime(path, (changed, changed))
    return _run_within(laboratory, scenario, folder, Circumstances(later=setting["years"] * YEAR))


def change_locale(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command in another language; Python reads it as it starts."""
    within = Circumstances(environment={"LANG": None, **setting["environment"]})
    folder = laboratory.prepare(scenario)
    return _run_within(laboratory, scenario, folder, within, is_script=True)


def change_umask(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command with another umask, which all new files must obey."""
    folder = laboratory.prepare(scenario)
    before = laboratory.undisturbed(scenario).before
    steps = SCENARIOS[scenario]
    within = Circumstances(umask=setting["umask"])
    done = laboratory.run(folder, steps.command, within=within, is_script=steps.is_script)
    wrong = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        expected = (0o777 if path.is_dir() else 0o666) & ~setting["umask"]
        if name not in before and not is_cache(name) and path.stat().st_mode & 0o777 != expected:
            wrong.append(f"{name} has the rights {path.stat().st_mode & 0o777:o}")
    outcome = judge(laboratory, scenario, folder, done)
    wrong += outcome.wrong
    return Outcome("wrong" if wrong else outcome.ended, outcome.said, wrong)


def change_home(laboratory: Laboratory, scenario: str, setting: Setting) -> Outcome:
    """Run a command with another home, other folders for caches and temporary files."""
    folder = laboratory.prepare(scenario)
    environment = {
        name: value.replace("home", str(folder / "home"), 1)
        if value is not None and value.startswith("home")
        else value
        for name, value in setting["environment"].items()
    }
    within = Circumstances(environment=environment)
    return _run_within(laboratory, scenario, folder, within, is_script=True, is_elsewhere=True)


def cut_network(laboratory: Laboratory, scenario: str, _: Setting) -> Outcome:
    """Run a command without any network, and without telling it so."""
    environment = {"HF_HUB_OFFLINE": None, "TRANSFORMERS_OFFLINE": None}
    within = Circumstances(environment=environment, has_network=False)
    return _run_within(laboratory, scenario, laboratory.prepare(scenario), within)


def _run_within(
    laboratory: Laboratory,
    scenario: str,
    folder: Path,
    within: Circumstances,
    *,
    is_script: bool = False,
    is_elsewhere: bool = False,
) -> Outcome:
    steps = SCENARIOS[scenario]
    is_script = is_script or steps.is_script
    done = laboratory.run(folder, steps.command, within=within, is_script=is_script)
    return judge(laboratory, scenario, folder, done, is_elsewhere=is_elsewhere)


Draw = Callable[[random.Random, Laboratory, str], Setting]


def _always(_: str) -> bool:
    return True


def _is_forked(scenario: str) -> bool:
    return not SCENARIOS[scenario].is_script


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    Attributes:
        draw: draws what is left open.
        inflict: runs a scenario's command, inflicts the fault, and judges what became of it.
        suits: whether it can befall a scenario's command.
        is_possible: whether this machine and user can inflict it.
    """

    draw: Draw
    inflict: Callable[[Laboratory, str, Setting], Outcome]
    suits: Callable[[str], bool] = _always
    is_possible: Callable[[], bool] = lambda: True


def _free(draw: Callable[[random.Random], Setting]) -> Draw:
    """Return how a setting is drawn that depends on no command."""
    return lambda rng, _laboratory, _scenario: draw(rng)


def _draw_right(rng: random.Random, laboratory: Laboratory, scenario: str) -> Setting:
    drawn = draw_file(rng, laboratory, scenario)
    return {**drawn, "is_folder": rng.random() < 0.3}


FAULTS = {
    "SIGKILL before a change": Fault(draw_call, kill_at_call, _is_forked),
    **{
        f"{number.name} at a moment": Fault(_free(draw_moment), partial(stop, number=number))
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
    },
    "disk full": Fault(draw_room, fill_disk, is_possible=cache(can_mount)),
    "files limited in size": Fault(draw_limit, limit_files),
    "right taken away": Fault(_draw_right, take_right_away),
    "file cut off": Fault(draw_place, cut_off),
    "bit flipped": Fault(draw_place, flip_bit),
    "two at once": Fault(_free(draw_moment), start_twice),
    "clock changed": Fault(_free(draw_clock), change_clock, _is_forked),
    "locale changed": Fault(_free(draw_locale), change_locale),
    "umask changed": Fault(_free(draw_umask), change_umask),
    "HOME changed": Fault(_free(draw_home), change_home),
    "network cut": Fault(_free(draw_nothing), cut_network, is_possible=can_cut_network),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault that befalls one command.

    Attributes:
        fault: a name in `FAULTS`.
        scenario: a name in `SCENARIOS`.
        seed: what its setting is drawn by.
    """

    fault: str
    scenario: str
    seed: str


def trial(seed: int, number: int) -> Trial:
    """Return a trial of a series: all faults in turn, each with the commands in an order drawn."""
    fault = list(FAULTS)[number % len(FAULTS)]
    commands = [name for name in SCENARIOS if FAULTS[fault].suits(name)]
    random.Random(f"{seed} {fault}").shuffle(commands)
    scenario = commands[number // len(FAULTS) % len(commands)]
    return Trial(fault, scenario, f"{seed} {number}")


def inflict(laboratory: Laboratory, one: Trial) -> tuple[Setting, Outcome]:
    """Return what was drawn for a trial, and how it ended."""
    fault = FAULTS[one.fault]
    setting = fault.draw(random.Random(one.seed), laboratory, one.scenario)
    return setting, fault.inflict(laboratory, one.scenario, setting)
