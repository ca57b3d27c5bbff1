"""Faults in the files that a command finds: cut off, with a bit flipped, or closed to it."""

from __future__ import annotations

import fnmatch
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.support.circumstances import Circumstances
from benchmarks.support.damage import flip_at
from benchmarks.support.laboratory import Laboratory
from benchmarks.support.outcomes import Outcome, judge
from benchmarks.support.scenarios import SCENARIOS

__all__ = ["Setting", "cut_off", "draw_file", "draw_place", "flip_bit", "take_right_away"]

Setting = dict[str, Any]

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
