"""A laboratory: commands run in folders of their own, and what they leave is compared.

A command runs in a process of its own, which is forked from one that has the libraries imported
already; what cannot be forked runs as the installed console script. A forked process counts every
call that makes, renames or removes a name, and may kill itself before the n-th.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.killed.circumstances import Circumstances
from tests.killed.contents import Contents, contents, differences
from tests.killed.preloaded import PRELOADED
from tests.killed.scenarios import SCENARIOS, Command

__all__ = ["Done", "Laboratory", "Started", "Undisturbed", "is_outside"]

CALLS = ("rename", "replace", "mkdir", "unlink", "remove", "rmdir", "link", "symlink")
"""The functions of `os` that make, rename or remove a name; libraries call them by these names."""

_LONGEST = 300.0
"""Seconds after which a command hangs."""

_MOMENT = 0.002
"""Seconds between two looks at a process."""

_NORMAL = Circumstances()


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a command.

    Attributes:
        code: its exit code, negative for a signal.
        stderr: what it wrote there.
        calls: the calls that it made, each the function's name and its paths.
        cpu: the CPU seconds that it took, but for the last moment.
        seconds: the seconds that it took.
    """

    code: int
    stderr: str
    calls: tuple[tuple[str, ...], ...] = ()
    cpu: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What a scenario's command does where nothing disturbs it.

    Attributes:
        done: what became of it.
        before: what stands in the folder before it.
        after: what stands there afterwards.
    """

    done: Done
    before: Contents
    after: Contents


class Started:
    """A command at work.

    Args:
        process: its process.
        log: the file that its stderr goes to.
        events: where its calls come from.
    """

    def __init__(self, process: Any, log: Path, events: Connection) -> None:
        self._process, self._log, self._events = process, log, events
        self._began = time.monotonic()
        self._cpu, self._has_begun = 0.0, False
        self._calls: list[tuple[str, ...]] = []

    def cpu(self) -> float:
        """Return the CPU seconds that it has taken, as of the last look while it lived."""
        with suppress(OSError):
            # What clock_getcpuclockid(3) gives on Linux.
            self._cpu = time.clock_gettime((~self._process.pid << 3) | 2)
        return self._cpu

    def wait_until(self, cpu: float) -> None:
        """Wait until it has begun and taken so many CPU seconds, or has ended."""
        while self._is_alive() and (not self._has_begun or self.cpu() < cpu):
            continue

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def wait(self) -> Done:
        """Wait for its end."""
        while self._is_alive():
            self.cpu()
        self._process.join()
        self._listen()
        self._events.close()
        text = self._log.read_text("utf-8", errors="backslashreplace")
        self._log.unlink()
        seconds = time.monotonic() - self._began
        return Done(self._process.exitcode, text, tuple(self._calls), self._cpu, seconds)

    def _is_alive(self) -> bool:
        """Wait for a moment, and say whether it goes on; kill what hangs."""
        if time.monotonic() - self._began > _LONGEST:
            self._process.kill()
        self._process.join(_MOMENT)
        self._listen()
        return bool(self._process.is_alive())

    def _listen(self) -> None:
        with suppress(EOFError):
            while self._events.poll():
                call = self._events.recv()
                self._has_begun = True
                self._calls += [call] if call else []


class Laboratory:
    """Runs commands in folders below a folder, and kills them.

    Args:
        root: a folder.
        libraries: what is imported before processes are forked.
    """

    def __init__(self, root: Path, libraries: Sequence[str] = PRELOADED) -> None:
        self.root = root
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*libraries])
        self._undisturbed: dict[str, Undisturbed] = {}
        self._numbers = itertools.count()

    def prepare(self, scenario: str, root: Path | None = None, *, finished: bool = False) -> Path:
        """Return a new folder with what stands there before the command.

        Args:
            scenario: the scenario.
            root: where the folder is made, if not among the others.
            finished: whether it holds what stands there after the command instead.
        """
        source = self.finished(scenario) if finished else self._kept(scenario, "before")
        if not source.exists():
            source.mkdir()
            SCENARIOS[scenario].prepare(source)
        target = (root or self.root) / f"trial-{os.getpid()}-{next(self._numbers)}"
        return Path(shutil.copytree(source, target, symlinks=True))

    def finished(self, scenario: str) -> Path:
        """Return the folder that an undisturbed run left; nobody may change it."""
        self.undisturbed(scenario)
        return self._kept(scenario, "after")

    def _kept(self, scenario: str, when: str) -> Path:
        return self.root / f"{when}-{scenario.replace(', ', '-').replace(' ', '-')}"

    def start(
        self,
        folder: Path,
        command: Command,
        kill_at: int = 0,
        *,
        within: Circumstances = _NORMAL,
        is_script: bool = False,
    ) -> Started:
        """Start a command in a folder, with its caches there too.

        Args:
            folder: the folder.
            command: its arguments.
            kill_at: which call to kill it at, from 1; 0 lets it end.
            within: what it meets.
            is_script: whether to run the installed console script.
        """
        caches = {
            "MSSHIFT_CACHE": str(folder / "cache"),
            "HF_DATASETS_CACHE": str(folder / "datasets"),
        }
        within = replace(within, environment={**caches, **within.environment})
        mine, theirs = self._context.Pipe(duplex=False)
        log = self.root / f"{os.getpid()}-{next(self._numbers)}.log"
        arguments = (folder, command, kill_at, within, is_script, log, theirs)
        process = self._context.Process(target=_act, args=arguments)
        process.start()
        theirs.close()
        return Started(process, log, mine)

    def run(self, folder: Path, command: Command, kill_at: int = 0, **options: Any) -> Done:
        """Run a command in a folder; see `start`."""
        return self.start(folder, command, kill_at, **options).wait()

    def undisturbed(self, scenario: str) -> Undisturbed:
        """Return what a scenario's command does, and what is there before and afterwards."""
        if scenario in self._undisturbed:
            return self._undisturbed[scenario]
        steps = SCENARIOS[scenario]
        folder = self.prepare(scenario)
        before = contents(folder)
        done = self.run(folder, steps.command, is_script=steps.is_script)
        assert done.code == 0, done.stderr
        # The first process of a kind takes longer than the others, which moments refer to.
        other = self.prepare(scenario)
        done = self.run(other, steps.command, is_script=steps.is_script)
        assert not differences(contents(other), contents(folder))
        shutil.rmtree(other)
        kept = folder.rename(self._kept(scenario, "after"))
        self._undisturbed[scenario] = Undisturbed(replace(done, stderr=""), before, contents(kept))
        return self._undisturbed[scenario]

    def go_on(self, scenario: str, folder: Path) -> list[str]:
        """Read what a fault left, in a copy; call the command again in both, and remove them.

        Returns:
            What is wrong.
        """
        wrong, places = [], [folder]
        if SCENARIOS[scenario].reads:
            places.append(Path(shutil.copytree(folder, f"{folder}-read", symlinks=True)))
            wrong += self.read(scenario, places[1])
        for place in places:
            wrong += self.finish(scenario, place)
        return wrong

    def read(self, scenario: str, folder: Path) -> list[str]:
        """Run the commands that read what a scenario changes; return what is wrong."""
        found = []
        for command in SCENARIOS[scenario].reads:
            done = self.run(folder, command)
            if done.code != 0:
                found.append(f"{' '.join(command)} ends with {done.code}: {done.stderr}")
        return found

    def finish(self, scenario: str, folder: Path) -> list[str]:
        """Call a scenario's command again and remove its folder; return what is wrong."""
        steps = SCENARIOS[scenario]
        done = self.run(folder, steps.command, is_script=steps.is_script)
        wrong = []
        if done.code != 0 and not (steps.done and steps.done in done.stderr):
            wrong.append(f"called again, it ends with {done.code}: {done.stderr}")
        wrong += differences(contents(folder), self.undisturbed(scenario).after)
        shutil.rmtree(folder)
        return wrong


def is_outside(call: Sequence[str]) -> bool:
    """Say whether a call changes a name that is not hidden; what rmtree removes has no folder."""
    name, *paths = call
    return any(
        "/" in path and not any(part.startswith(".") for part in Path(path).parts)
        for path in (paths[1:] if name == "link" else paths)
    )


def _act(
    folder: Path,
    command: Command,
    kill_at: int,
    within: Circumstances,
    is_script: bool,
    log: Path,
    events: Connection,
) -> None:
    """Be the command, in a process of its own."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(output, 2)
    os.chdir(folder)
    within.meet()
    # A shell's job in the background inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL if is_script else signal.default_int_handler)
    events.send(())
    if is_script:
        script = Path(sys.executable).with_name("msshift")
        os.execv(script, [str(script), *command])
    numbers = itertools.count(1)

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            if next(numbers) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            paths = [os.fspath(one) for one in arguments if isinstance(one, (str, os.PathLike))]
            events.send((name, *paths))
            return call(*arguments, **options)

        return counting

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    sys.argv = ["msshift", *command]
    from msshift_bench.cli import main

    main()
