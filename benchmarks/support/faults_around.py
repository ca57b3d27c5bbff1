"""Faults around a command: the clock, the language, the rights of new files, the home, the network.

None of them may change what it writes; where it cannot work, it must say so.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from benchmarks.support.circumstances import Circumstances
from benchmarks.support.laboratory import Laboratory
from benchmarks.support.outcomes import Outcome, is_cache, judge
from benchmarks.support.scenarios import SCENARIOS

__all__ = [
    "change_clock",
    "change_home",
    "change_locale",
    "change_umask",
    "cut_network",
    "draw_clock",
    "draw_home",
    "draw_locale",
    "draw_nothing",
    "draw_umask",
]

Setting = dict[str, Any]

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
