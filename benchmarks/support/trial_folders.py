"""Run the console script in folders of its own, and compare the files that it leaves."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.audited.sitecustomize import audited_environment
from benchmarks.support.conditions import Conditions
from benchmarks.support.scenarios import SCENARIOS, Command
from msshift_bench.plumbing import CHECKSUM

__all__ = [
    "Contents",
    "Done",
    "Reference",
    "Running",
    "Trials",
    "children_cpu",
    "contents",
    "differences",
]

Contents = Mapping[str, str | None]
"""Path below a folder -> SHA-256 of the file; `None` for a folder."""

_LONGEST = 300.0
"""Seconds after which a command is killed."""

_POLL = 0.002
"""Seconds between two looks at a process."""

_USUAL = Conditions()


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a command.

    Attributes:
        code: its exit code, negative for a signal.
        stderr: its stderr.
    """

    code: int
    stderr: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A run of a scenario's command without a fault.

    Attributes:
        cpu: the CPU seconds that it took.
        changes: its changes of the file system, one line each.
        before: the contents of its folder before it.
        after: the contents afterwards.
        folder: a copy of the folder afterwards; it is only read.
    """

    cpu: float
    changes: tuple[str, ...]
    before: Contents
    after: Contents
    folder: Path


class Running:
    """A running command."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log, self._began = process, log, time.monotonic()

    def wait_until(self, cpu: float) -> None:
        """Wait until the command has used `cpu` CPU seconds, or has ended."""
        while self._process.poll() is None:
            with suppress(OSError):
                # The clock of clock_getcpuclockid(3) on Linux.
                if time.clock_gettime((~self._process.pid << 3) | 2) >= cpu:
                    return
            time.sleep(_POLL)

    def signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        self._process.send_signal(number)

    def wait(self) -> Done:
        """Wait for the end; kill a command that takes too long."""
        try:
            code = self._process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        text = self._log.read_text("utf-8", errors="backslashreplace")
        self._log.unlink()
        return Done(code, text)


class Trials:
    """Folders of trials below a root folder, and the commands that run in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._references: dict[str, Reference] = {}
        self._numbers = itertools.count()

    def prepare(self, scenario: str, root: Path | None = None, *, finished: bool = False) -> Path:
        """Return a new folder with the files that the command finds.

        Args:
            scenario: the scenario.
            root: the folder for the new one; by default that of all trials.
            finished: whether the folder is as the command leaves it instead.
        """
        source = self.root / f"before-{_slug(scenario)}"
        if finished:
            source = self.reference(scenario).folder
        elif not source.exists():
            source.mkdir()
            SCENARIOS[scenario].prepare(source)
        target = (root or self.root) / f"trial-{next(self._numbers)}"
        return Path(shutil.copytree(source, target, symlinks=True))

    def start(
        self,
        folder: Path,
        command: Command,
        conditions: Conditions = _USUAL,
        audit: Mapping[str, str] | None = None,
    ) -> Running:
        """Start a command in a folder, which has its caches too.

        Args:
            folder: the working directory.
            command: its words after ``msshift``.
            conditions: the conditions of its process.
            audit: variables of `audited_environment`.
        """
        log = self.root / f"{next(self._numbers)}.log"
        values: dict[str, str | None] = {
            **os.environ,
            "MSSHIFT_CACHE": str(folder / "cache"),
            "HF_DATASETS_CACHE": str(folder / "datasets"),
            **conditions.environment,
            **(audit or {}),
        }
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("msshift")), *command],
                cwd=folder,
                env={name: value for name, value in values.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                preexec_fn=conditions.apply,
            )
        return Running(process, log)

    def run(self, folder: Path, command: Command, conditions: Conditions = _USUAL) -> Done:
        """Run a command to its end; see `start`."""
        return self.start(folder, command, conditions).wait()

    def kill_at(self, folder: Path, command: Command, number: int) -> tuple[Done, list[str]]:
        """Kill a command before the change of the file system with a number; 0 lets it end.

        Returns:
            Its end, and the changes that it made.
        """
        log = self.root / f"{next(self._numbers)}.changes"
        done = self.start(folder, command, audit=audited_environment(log, number)).wait()
        changes = log.read_text().splitlines()
        log.unlink()
        return done, changes

    def reference(self, scenario: str) -> Reference:
        """Return the run of a scenario's command without a fault; the first call makes it."""
        if scenario not in self._references:
            command, folder = SCENARIOS[scenario].command, self.prepare(scenario)
            before, cpu = contents(folder), children_cpu()
            done, changes = self.kill_at(folder, command, 0)
            if done.code:
                raise RuntimeError(
                    f"{scenario} ends with {done.code} without a fault: {done.stderr}"
                )
            cpu = children_cpu() - cpu
            kept = folder.rename(self.root / f"after-{_slug(scenario)}")
            after = contents(kept)
            self._references[scenario] = Reference(cpu, tuple(changes), before, after, kept)
        return self._references[scenario]

    def check_next_commands(self, scenario: str, folder: Path) -> list[str]:
        """Check the commands that follow a fault, and remove the folder.

        The commands that read the scenario's output must work, in a copy of the folder. The same
        command again must leave the files of the reference run, in the folder and in the copy.

        Returns:
            What is wrong.
        """
        wrong, folders = [], [folder]
        if SCENARIOS[scenario].reads:
            folders.append(Path(shutil.copytree(folder, f"{folder}-read", symlinks=True)))
            for command in SCENARIOS[scenario].reads:
                done = self.run(folders[1], command)
                if done.code:
                    wrong.append(f"{' '.join(command)} ends with {done.code}: {done.stderr}")
        for place in folders:
            done = self.run(place, SCENARIOS[scenario].command)
            if done.code:
                wrong.append(f"the same command again ends with {done.code}: {done.stderr}")
            wrong += differences(contents(place), self.reference(scenario).after)
            shutil.rmtree(place)
        return wrong


def _slug(scenario: str) -> str:
    return re.sub(r"\W+", "-", scenario)


def children_cpu() -> float:
    """Return the CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def contents(folder: Path) -> dict[str, str | None]:
    """Return path -> SHA-256 of all files below a folder; `None` for a folder.

    The seconds in runs' sidecars, their checksums, and the dates of badges are left out. So are the
    lock files of the datasets library, whose names contain those of folders.
    """
    found: dict[str, str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.parent.name == "datasets" and name.endswith(".lock"):
            continue
        if not path.is_file():
            found[name] = None
            continue
        data = path.read_bytes()
        if name.endswith(".run.json"):
            with suppress(ValueError):  # It may be damaged.
                data = json.dumps({**json.loads(data), "seconds": None, CHECKSUM: None}).encode()
        if path.name == "rescored.csv":
            data = re.sub(rb",[0-9-]{10}$", b"", data, flags=re.MULTILINE)
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def differences(found: Contents, expected: Contents) -> list[str]:
    """Return one sentence for every difference from the contents of a reference run."""
    return [
        f"{name} is {'left' if name not in expected else 'missing'}"
        for name in sorted(found.keys() ^ expected.keys())
    ] + [
        f"{name} is different"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
