"""Killing ``add_triples`` at chosen moments: the successor ends in the same bytes."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import verify_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import reporting
from tests.conftest import Build
from tests.killed.preloaded import PRELOADED
from tests.support.file_bytes import file_bytes

pytestmark = pytest.mark.slow

COLLECTION = "mini:300"
OPTIONS = {"count": 10, "depth": 50}

Event = tuple[str, int, int]


SMALL_FILES = {"BLOCK_QUERIES": 40, "_SHARD_ROWS": 700}
"""Several files instead of one."""


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL_FILES.items():
        monkeypatch.setattr(builder, name, value)


@pytest.fixture(scope="session")
def bare(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


@pytest.fixture
def copy(bare: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bare, tmp_path / "msshift"))


@pytest.fixture
def expected(bare: Path, tmp_path: Path) -> dict[str, bytes]:
    folder = Path(shutil.copytree(bare, tmp_path / "undisturbed" / "msshift"))
    add_triples(folder, open_collection(COLLECTION), **OPTIONS)
    return file_bytes(folder)


@pytest.fixture(scope="module")
def context() -> ForkServerContext:
    """Return a context whose processes start with the libraries imported."""
    context = multiprocessing.get_context("forkserver")
    # There is one such server in a process, and the first to ask says what it imports.
    context.set_forkserver_preload([*PRELOADED])
    return context


def work(folder: Path, options: dict[str, Any], events: Connection) -> None:
    """Add the triples in a process of its own, which waits after every event to be let on."""

    def tell(*event: object) -> None:
        events.send(event)
        events.recv()

    vars(builder).update(SMALL_FILES)
    with reporting(tell):
        add_triples(folder, open_collection(COLLECTION), **options)


class Attempt:
    """One process at work, held at the moments that it tells of."""

    def __init__(self, context: ForkServerContext, folder: Path, options: dict[str, Any]) -> None:
        self._mine, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(folder, options, theirs))
        self.process.start()
        theirs.close()

    def events(self) -> Iterator[Event]:
        """Yield what it tells; it is held until the next one is asked for."""
        while True:
            try:
                yield self._mine.recv()
            except EOFError:
                return
            self._mine.send(None)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.process.kill()
        self.process.join()


@contextmanager
def attempt(context: ForkServerContext, folder: Path, **changes: object) -> Iterator[Attempt]:
    running = Attempt(context, folder, {**OPTIONS, **changes})
    try:
        yield running
    finally:
        running.kill()


def kill_at(context: ForkServerContext, folder: Path, stage: str, nth: int) -> list[Event]:
    """Kill a process when it tells of a stage for the n-th time; return what it told before."""
    told: list[Event] = []
    with attempt(context, folder) as running:
        for event in running.events():
            told.append(event)
            if sum(name == stage for name, _, _ in told) == nth:
                return told
    raise AssertionError(f"it ended before {stage} {nth}: {told}")


def test_a_killed_process_is_continued(
    context: ForkServerContext, bare: Path, copy: Path, expected: dict[str, bytes]
) -> None:
    moments = [
        ("index", 1),
        ("negatives", 1),
        ("negatives", 2),
        ("negatives", 3),
        ("length-short-triples", 2),
        ("length-long-triples", 1),
    ]
    standing: list[dict[str, int]] = [{}]
    for stage, nth in moments:
        told = kill_at(context, copy, stage, nth)
        assert file_bytes(copy) == file_bytes(bare)
        blocks = copy.with_name(".msshift.triples").glob("negatives/*.npy")
        standing.append({path.name: path.stat().st_mtime_ns for path in blocks})
        if stage.endswith("-triples"):
            left = sorted(path.name for path in copy.with_name(".msshift.triples").iterdir())
            assert any(name.startswith(stage[: -len("-triples")]) for name in left)
    # Every successor leaves the finished blocks as they are.
    assert all(first.items() <= then.items() for first, then in pairwise(standing))
    every = next(-(-total // 40) for name, _, total in told if name == "negatives")
    assert [len(names) for names in standing[1:]] == [0, 1, 2, 3, every, every]
    with attempt(context, copy) as last:
        stages = {name for name, _, _ in last.events()}
        last.process.join()
        assert last.process.exitcode == 0
    assert "index" not in stages
    assert file_bytes(copy) == expected
    assert verify_dataset(copy)[1] == []
    assert not copy.with_name(".msshift.triples").exists()


def test_what_was_left_by_other_parameters_is_not_taken(
    context: ForkServerContext, copy: Path, expected: dict[str, bytes]
) -> None:
    for changes in ({"seed": 1}, {"count": 9}, {"depth": 49}):
        with attempt(context, copy, **changes) as running:
            next(event for event in running.events() if event[0] == "length-long-triples")
    add_triples(copy, open_collection(COLLECTION), **OPTIONS)
    assert file_bytes(copy) == expected
    assert not copy.with_name(".msshift.triples").exists()


def test_two_processes_at_once_are_told(
    context: ForkServerContext, copy: Path, expected: dict[str, bytes]
) -> None:
    with attempt(context, copy) as running:
        events = running.events()
        next(event for event in events if event[0] == "negatives")
        with pytest.raises(UsageError, match=r"another process is writing .*msshift"):
            add_triples(copy, open_collection(COLLECTION), **OPTIONS)
        for _ in events:
            pass
        running.process.join()
        assert running.process.exitcode == 0
    assert file_bytes(copy) == expected
