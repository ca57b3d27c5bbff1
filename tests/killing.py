"""Commands that are killed at a chosen change of the file system, and what comes after.

A command runs in a process of its own, in which every call that makes, renames or removes a name
is counted; before the n-th the process kills itself. Runs anywhere: nothing is traced.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msshift_bench.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.submitting import submit
from tests.fabricated import write_meta, write_runs

__all__ = ["SCENARIOS", "Laboratory", "Scenario", "contents"]

CALLS = ("rename", "replace", "mkdir", "unlink", "remove", "rmdir", "link", "symlink")
"""The functions of `os` that make, rename or remove a name; libraries call them by these names."""

PRELOADED = (
    "bm25s",
    "jinja2",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "rich.progress",
    "msshift_bench.cli",
    "msshift_bench.baselines.bm25",
    "msshift_bench.leaderboard.site",
    "msshift_bench.rendering",
    "msshift_bench.report",
    "msshift_bench.single",
    "tests.killing",
)

Command = tuple[str, ...]

COLLECTION, BOARD_COLLECTION = "mini:300", "mini"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command that writes, and what its user does next.

    Attributes:
        prepare: makes what stands in the folder before.
        command: what is killed, and then called again.
        reads: commands that read what the command changes, after the kill.
        done: what an undisturbed run, called again, says instead of doing it again; "" if it does.
    """

    prepare: Callable[[Path], object]
    command: Command
    reads: Sequence[Command] = ()
    done: str = ""


def _data(folder: Path, collection: str = COLLECTION, **options: Any) -> None:
    build_dataset(open_collection(collection), ["length"], folder / "msshift", **options)


def _triples(folder: Path) -> None:
    _data(folder)
    add_triples(folder / "msshift", open_collection(COLLECTION), count=5, depth=20)


def _runs(folder: Path) -> Path:
    _data(folder, BOARD_COLLECTION)
    write_meta(folder / "meta.toml", length="msshift")
    return write_runs(folder / "runs" / "made-up", folder / "msshift")


def _submission(folder: Path) -> None:
    submit(_runs(folder), folder / "meta.toml", folder / "submission", folder / "msshift")


def _entry(folder: Path) -> None:
    _submission(folder)
    add_submission(folder / "submission", folder / "entries", folder / "msshift")
    text = (folder / "meta.toml").read_text()
    (folder / "meta.toml").write_text(text.replace('note = ""', 'note = "Trained for longer."'))
    runs = folder / "runs" / "made-up"
    submit(runs, folder / "meta.toml", folder / "submission", folder / "msshift")


_VERIFY: Command = ("verify", "msshift")
_CHECK: Command = ("leaderboard", "check", "--entries", "entries")
_ADD: Command = ("leaderboard", "add", "submission", "--entries", "entries", "--data", "msshift")
_TRIPLES = ("triples", "build", "msshift", "--negatives", "10", "--depth", "50")

SCENARIOS = {
    "build": Scenario(
        lambda folder: None,
        ("build", "length", "--collection", COLLECTION, "--out", "deep/data/msshift"),
    ),
    "build over a build": Scenario(
        lambda folder: _data(folder, seed=1),
        ("build", "length", "--collection", COLLECTION, "--out", "msshift"),
        [_VERIFY],
    ),
    "triples build": Scenario(_data, _TRIPLES, [_VERIFY]),
    "triples build over triples": Scenario(_triples, _TRIPLES, [_VERIFY]),
    "triples export": Scenario(
        _triples, ("triples", "export", "length-short-triples", "t.tsv.gz", "--data", "msshift")
    ),
    "hydrate": Scenario(
        lambda folder: _data(folder, texts=False), ("hydrate", "msshift"), [_VERIFY]
    ),
    "install": Scenario(_data, ("install", "msshift"), [_VERIFY]),
    "baseline run": Scenario(
        _data, ("baseline", "run", "bm25", "--shift", "length", "--data", "msshift")
    ),
    "evaluate": Scenario(
        _runs,
        (
            *("evaluate", "runs", "--data", "msshift", "--resamples", "10"),
            *("--output", "report.json", "--per-query", "scores.parquet"),
        ),
    ),
    "submit": Scenario(
        _runs, ("submit", "runs/made-up", "--meta", "meta.toml", "--data", "msshift")
    ),
    "submit over a submission": Scenario(
        _submission,
        ("submit", "runs/made-up", "--meta", "meta.toml", "--data", "msshift"),
        [("leaderboard", "check", "submission", "--data", "msshift")],
    ),
    "leaderboard add": Scenario(_submission, _ADD, done="is on mini already, as version 1"),
    "leaderboard add, a second version": Scenario(
        _entry, _ADD, [_CHECK], "is on mini already, as version 2"
    ),
    "leaderboard build": Scenario(
        _entry, ("leaderboard", "build", "--entries", "entries", "--out", "site")
    ),
}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return path -> bytes of everything below a folder; `None` for a folder.

    What a run's sidecar says of the time that it took is left out.
    """
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = path.read_bytes() if path.is_file() else None
        if name.endswith(".run.json"):
            said = {**json.loads(path.read_bytes()), "seconds": None}
            found[name] = json.dumps(said).encode()
    return found


class Laboratory:
    """Runs commands in folders below a folder, and kills them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*PRELOADED])
        self._prepared: dict[str, Path] = {}
        self._numbers = itertools.count()

    def prepare(self, scenario: str) -> Path:
        """Return a new folder with what stands there before the command."""
        if scenario not in self._prepared:
            folder = self.root / f"before-{len(self._prepared)}"
            folder.mkdir()
            SCENARIOS[scenario].prepare(folder)
            self._prepared[scenario] = folder
        target = self.root / f"{next(self._numbers)}"
        return Path(shutil.copytree(self._prepared[scenario], target))

    def run(self, folder: Path, command: Command, kill_at: int = 0) -> tuple[int, int, str]:
        """Run a command in a folder, with the caches beside it.

        Args:
            folder: the folder.
            command: its arguments.
            kill_at: which call to kill it at, from 1; 0 lets it end.

        Returns:
            The exit code, negative for a signal; the calls that were made; what it wrote to stderr.
        """
        mine, theirs = self._context.Pipe(duplex=False)
        log = folder.with_name(f"{folder.name}.log")
        process = self._context.Process(target=_act, args=(folder, command, kill_at, log, theirs))
        process.start()
        theirs.close()
        calls = 0
        try:
            while True:
                calls = mine.recv()
        except EOFError:
            pass
        process.join()
        assert process.exitcode is not None
        text = log.read_text()
        log.unlink()
        return process.exitcode, calls, text

    def undisturbed(self, scenario: str) -> tuple[int, dict[str, bytes | None]]:
        """Return how many calls a scenario's command makes, and what is there afterwards."""
        folder = self.prepare(scenario)
        code, calls, text = self.run(folder, SCENARIOS[scenario].command)
        assert code == 0, text
        found = contents(folder)
        shutil.rmtree(folder)
        return calls, found

    def kill(self, scenario: str, at: int, expected: dict[str, bytes | None]) -> list[str]:
        """Kill a scenario's command before a call, read, and call it again.

        Returns:
            What is wrong afterwards: nothing, if all is as it should be.
        """
        asked = SCENARIOS[scenario]
        wrong = []
        folder = self.prepare(scenario)
        code, _, text = self.run(folder, asked.command, at)
        if code != -signal.SIGKILL:
            wrong.append(f"it was not killed, but ended with {code}: {text}")
        reread = Path(shutil.copytree(folder, f"{folder}-read"))
        for command in asked.reads:
            code, _, text = self.run(reread, command)
            if code != 0:
                wrong.append(f"then {' '.join(command)} ends with {code}: {text}")
        for place in (folder, reread):
            code, _, text = self.run(place, asked.command)
            if code != 0 and not (asked.done and asked.done in text):
                wrong.append(f"then it ends with {code}: {text}")
            found = contents(place)
            wrong += [
                f"then {name} is {'there' if name in found else 'missing'} or different"
                for name in sorted({*found, *expected})
                if name not in found or name not in expected or found[name] != expected[name]
            ]
            shutil.rmtree(place)
        return wrong

    def kill_everywhere(self, scenario: str, step: int = 1) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each call, and what is wrong after a kill before it."""
        calls, expected = self.undisturbed(scenario)
        for at in range(1, calls + 1, step):
            yield at, self.kill(scenario, at, expected)


def _act(folder: Path, command: Command, kill_at: int, log: Path, events: Connection) -> None:
    """Be the command, in a process of its own."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ["MSSHIFT_CACHE"] = str(folder / "cache")
    os.environ["HF_DATASETS_CACHE"] = str(folder / "datasets")
    numbers = itertools.count(1)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            events.send(number)
            return call(*arguments, **options)

        return counting

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    sys.argv = ["msshift", *command]
    from msshift_bench.cli import main

    main()
