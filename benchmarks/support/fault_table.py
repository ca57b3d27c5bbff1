"""The table of faults: how each is drawn, inflicted, and told."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from benchmarks.support import faults_around as around
from benchmarks.support import faults_in_files as in_files
from benchmarks.support import faults_of_processes as of_processes
from benchmarks.support.circumstances import can_cut_network
from benchmarks.support.laboratory import Laboratory
from benchmarks.support.outcomes import Outcome
from benchmarks.support.scenarios import SCENARIOS
from benchmarks.support.small_disk import can_mount

__all__ = ["FAULTS", "Fault", "Trial", "inflict", "trial"]

Setting = dict[str, Any]

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
    drawn = in_files.draw_file(rng, laboratory, scenario)
    return {**drawn, "is_folder": rng.random() < 0.3}


FAULTS = {
    "SIGKILL before a change": Fault(of_processes.draw_call, of_processes.kill_at_call, _is_forked),
    **{
        f"{number.name} at a moment": Fault(
            _free(of_processes.draw_moment), partial(of_processes.stop, number=number)
        )
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
    },
    "disk full": Fault(
        of_processes.draw_room, of_processes.fill_disk, is_possible=cache(can_mount)
    ),
    "files limited in size": Fault(of_processes.draw_limit, of_processes.limit_files),
    "right taken away": Fault(_draw_right, in_files.take_right_away),
    "file cut off": Fault(in_files.draw_place, in_files.cut_off),
    "bit flipped": Fault(in_files.draw_place, in_files.flip_bit),
    "two at once": Fault(_free(of_processes.draw_moment), of_processes.start_twice),
    "clock changed": Fault(_free(around.draw_clock), around.change_clock, _is_forked),
    "locale changed": Fault(_free(around.draw_locale), around.change_locale),
    "umask changed": Fault(_free(around.draw_umask), around.change_umask),
    "HOME changed": Fault(_free(around.draw_home), around.change_home),
    "network cut": Fault(
        _free(around.draw_nothing), around.cut_network, is_possible=can_cut_network
    ),
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
