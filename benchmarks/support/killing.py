"""Killing commands at a chosen change of the file system, and checking what they leave.

A command runs in a process of its own, which counts every call that makes, renames or removes a
name; before the n-th the process kills itself. This needs no tracing, so it works anywhere.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.support.fabricated import write_meta, write_runs
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triple_builder import add_triples
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.making import make_submission

__all__ = [
    "PRELOADED",
    "SCENARIOS",
    "Done",
    "Laboratory",
    "Scenario",
    "contents",
    "differences",
    "is_outside",
]

CALLS = ("rename", "replace", "mkdir", "unlink", "remove", "rmdir", "link", "symlink")
"""The functions of `os` that make, rename or remove a name; libraries call them by these names."""

PRELOADED = (
    "Stemmer",
    "jinja2",
    "markdown_it",
    "multiprocessing.synchronize",
    "pandas",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pydantic.main",
    "pydantic.type_adapter",
    "rich._emoji_codes",
    "rich.markdown",
    "rich.progress",
    "rich.table",
    "rich.traceback",
    "scipy.stats",
    "typer._adapters",
    "typer.rich_utils",
    "msshift_bench.cli",
    "msshift_bench.baselines.lexical",
    "msshift_bench.dataset_builders.build",
    "msshift_bench.dataset_builders.importing",
    "msshift_bench.dataset_builders.length",
    "msshift_bench.dataset_builders.topics",
    "msshift_bench.dataset_builders.topic_checks",
    "msshift_bench.dataset_builders.wh_words",
    "msshift_bench.leaderboard.site",
    "msshift_bench.output.rendering",
    "msshift_bench.evaluation.run_set_report",
    "msshift_bench.evaluation.single",
    "benchmarks.support.killing",
    "benchmarks.support.warm_commands",
)
"""What the commands import, but for the Hub's libraries: these read the environment meanwhile."""

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
    make_submission(_runs(folder), folder / "meta.toml", folder / "submission", folder / "msshift")


def _entry(folder: Path) -> None:
    _submission(folder)
    add_submission(folder / "submission", folder / "entries", folder / "msshift")
    text = (folder / "meta.toml").read_text()
    (folder / "meta.toml").write_text(text.replace('note = ""', 'note = "Trained for longer."'))
    runs = folder / "runs" / "made-up"
    make_submission(runs, folder / "meta.toml", folder / "submission", folder / "msshift")


_VERIFY: Command = ("verify", "msshift")
_CHECK: Command = ("leaderboard", "check", "--entries", "entries")
_ADD: Command = ("leaderboard", "add", "submission", "--entries", "entries", "--data", "msshift")
_TRIPLES = ("triples", "build", "msshift", "--negatives", "10", "--depth", "50")

SCENARIOS = {
    "build": Scenario(
        lambda _: None,
        ("build", "length", "--collection", COLLECTION, "--out", "deep/data/msshift"),
    ),
    "build, with embeddings": Scenario(
        lambda _: None, ("build", "topics", "--collection", BOARD_COLLECTION)
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
    "topics replay": Scenario(
        lambda folder: build_dataset(
            open_collection(BOARD_COLLECTION), ["topics"], folder / "msshift"
        ),
        ("topics", "replay", "msshift"),
    ),
    "install": Scenario(_data, ("install", "msshift"), [_VERIFY]),
    "baseline run": Scenario(
        _data, ("baseline", "run", "bm25", "--shift", "length", "--data", "msshift")
    ),
    "evaluate": Scenario(
        _runs,
        (
            *("evaluate", "runs", "--data", "msshift"),
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

    What a run's sidecar says of the time that it took is left out, and so are the lock files of the
    datasets library, which bear the names of folders.
    """
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.parent.name == "datasets" and name.endswith(".lock"):
            continue
        found[name] = path.read_bytes() if path.is_file() else None
        if name.endswith(".run.json"):
            sidecar = {**json.loads(path.read_bytes()), "seconds": None}
            found[name] = json.dumps(sidecar).encode()
    return found


def differences(
    found: Mapping[str, bytes | None], expected: Mapping[str, bytes | None]
) -> list[str]:
    """Return one sentence for everything that is not as in an undisturbed run."""
    return [
        f"{name} is {'left' if name not in expected else 'missing'}"
        for name in sorted(found.keys() ^ expected.keys())
    ] + [
        f"{name} is different"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a command.

    Attributes:
        code: its exit code, negative for a signal.
        stderr: what it wrote there.
        calls: the calls that it made, each the function's name and its paths.
    """

    code: int
    stderr: str
    calls: tuple[tuple[str, ...], ...]


class Laboratory:
    """Runs commands in folders below a folder, and kills them.

    Args:
        root: an empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*PRELOADED])
        self._prepared: dict[str, Path] = {}
        self._undisturbed: dict[str, tuple[Done, dict[str, bytes | None]]] = {}
        self._numbers = itertools.count()

    def prepare(self, scenario: str, root: Path | None = None) -> Path:
        """Return a new folder with what stands there before the command.

        Args:
            scenario: the scenario.
            root: where the folder is made, if not among the others.
        """
        if scenario not in self._prepared:
            folder = self.root / f"before-{len(self._prepared)}"
            folder.mkdir()
            SCENARIOS[scenario].prepare(folder)
            self._prepared[scenario] = folder
        target = (root or self.root) / f"{next(self._numbers)}"
        return Path(shutil.copytree(self._prepared[scenario], target))

    def start(self, folder: Path, command: Command, kill_at: int = 0) -> Callable[[], Done]:
        """Start a command in a folder, with its caches there too.

        Args:
            folder: the folder.
            command: its arguments.
            kill_at: which call to kill it at, from 1; 0 lets it end.

        Returns:
            A function that waits for its end.
        """
        mine, theirs = self._context.Pipe(duplex=False)
        log = self.root / f"{next(self._numbers)}.log"
        process = self._context.Process(target=_act, args=(folder, command, kill_at, log, theirs))
        process.start()
        theirs.close()

        def wait() -> Done:
            calls = []
            try:
                while True:
                    calls.append(mine.recv())
            except EOFError:
                pass
            process.join()
            mine.close()
            assert process.exitcode is not None
            text = log.read_text()
            log.unlink()
            return Done(process.exitcode, text, tuple(calls))

        return wait

    def run(self, folder: Path, command: Command, kill_at: int = 0) -> Done:
        """Run a command in a folder; see `start`."""
        return self.start(folder, command, kill_at)()

    def undisturbed(self, scenario: str) -> tuple[Done, dict[str, bytes | None]]:
        """Return what a scenario's command does, and what is there afterwards."""
        if scenario not in self._undisturbed:
            folder = self.prepare(scenario)
            done = self.run(folder, SCENARIOS[scenario].command)
            assert done.code == 0, done.stderr
            self._undisturbed[scenario] = done, contents(folder)
            shutil.rmtree(folder)
        return self._undisturbed[scenario]

    def kill(self, scenario: str, at: int) -> list[str]:
        """Kill a scenario's command before a call, read, and call it again.

        Returns:
            What is wrong afterwards: nothing, if all is as it should be.
        """
        steps = SCENARIOS[scenario]
        folder = self.prepare(scenario)
        done = self.run(folder, steps.command, at)
        wrong = []
        if done.code != -signal.SIGKILL:
            wrong.append(f"it was not killed, but ended with {done.code}: {done.stderr}")
        places = [folder]
        if steps.reads:
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
        done = self.run(folder, steps.command)
        wrong = []
        if done.code != 0 and not (steps.done and steps.done in done.stderr):
            wrong.append(f"called again, it ends with {done.code}: {done.stderr}")
        wrong += differences(contents(folder), self.undisturbed(scenario)[1])
        shutil.rmtree(folder)
        return wrong


def is_outside(call: Sequence[str]) -> bool:
    """Say whether a call changes a name that is not hidden; what rmtree removes has no folder."""
    name, *paths = call
    return any(
        "/" in path and not any(part.startswith(".") for part in Path(path).parts)
        for path in (paths[1:] if name == "link" else paths)
    )


def _act(folder: Path, command: Command, kill_at: int, log: Path, events: Connection) -> None:
    """Be the command, in a process of its own."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ["MSSHIFT_CACHE"] = str(folder / "cache")
    os.environ["HF_DATASETS_CACHE"] = str(folder / "datasets")
    numbers = itertools.count(1)

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            if next(numbers) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            paths = (one for one in arguments if isinstance(one, (str, os.PathLike)))
            events.send((name, *map(os.fspath, paths)))
            return call(*arguments, **options)

        return counting

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    sys.argv = ["msshift", *command]
    from msshift_bench.cli import main

    main()
