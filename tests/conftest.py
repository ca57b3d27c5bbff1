"""What all tests share: where the real data is, and small collections made on the spot."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import typer.testing

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from tests.support.forking import WITHOUT_TORCH, run_msshift, servers
from tests.support.golden import Golden
from tests.support.tiny_models import save_tiny_models

if TYPE_CHECKING:
    from msshift_bench.evaluation import Result

# Two test processes share two cores: threads that spin while they wait would take them from others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Tests that a script starts in the background would ignore interrupts, in all their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Typer makes its tree of commands anew for every call, which takes longer than most help texts.
typer.testing._get_command = cache(typer.testing._get_command)

# What lands is judged by the same examples every time; --hypothesis-profile=explore makes new ones,
# and the fast lane takes the first of those that are judged by.
hypothesis.settings.register_profile("landing", derandomize=True, deadline=None)
hypothesis.settings.register_profile("fast", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.register_profile("explore", derandomize=False, print_blob=True, deadline=None)
hypothesis.settings.load_profile("landing")

REPOSITORY = Path(__file__).resolve().parent.parent
REAL_DATA = REPOSITORY.parent / "shared" / "data"


def pytest_configure(config: pytest.Config) -> None:
    """Let all test processes share the servers that their programs are forked from."""
    if not hasattr(config, "workerinput"):
        shared = ExitStack()
        shared.enter_context(servers())
        config.add_cleanup(shared.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the files with models to half of the processes, and other long ones to the rest.

    A process imports torch and its kin in ten seconds, which the others are spared. Each ends with
    quick tests, of which those that are done before take some over.
    """
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    neural, long, quick = [], [], []
    for own in files.values():
        marks = {mark.name for item in own for mark in item.iter_markers()}
        slow = long if marks & {"slow", "browser", "cluster"} else quick
        (neural if "neural" in marks else slow).append(own)
    workers = config.workerinput["workercount"]
    with_models = (workers + 1) // 2
    shares = [*_deal(neural, with_models), *_deal(long, max(1, workers - with_models))]
    left = chain.from_iterable(quick)
    # Each process begins with an equal part of the list, and every part with a share.
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares, 1):
        ordered += share
        ordered += islice(left, max(0, len(items) * number // workers - len(ordered)))
    items[:] = [*ordered, *left]


def _deal(files: list[list[pytest.Item]], hands: int) -> list[list[pytest.Item]]:
    """Deal files out in turns; return the tests of each hand."""
    return [list(chain.from_iterable(files[hand::hands])) for hand in range(hands)]


def pytest_collection_finish() -> None:
    """Look no more for garbage among what the libraries made: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


@cache
def _freeze_models_libraries() -> None:
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Nor among what torch and its kin made, once a test has imported them.

    Every training collects garbage at its end, which took a third of the time of a tiny one.
    """
    if "sentence_transformers" in sys.modules:
        _freeze_models_libraries()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what tests cache, in this process and those it starts, away from the user's cache."""
    os.environ["MSSHIFT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


Command = Callable[..., subprocess.CompletedProcess[str]]
Build = Callable[..., Path]
MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real MS MARCO material, or skip the test."""
    if not REAL_DATA.is_dir():
        pytest.skip("needs the real MS MARCO material in ../shared/data")
    return REAL_DATA


@pytest.fixture(scope="session")
def msshift_script() -> Path:
    """Return the installed console script."""
    return Path(sys.executable).with_name("msshift")


@pytest.fixture
def script(msshift_script: Path, tmp_path: Path) -> Command:
    """Return a function that runs the installed console script in the test's folder."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(msshift_script), *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "120", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def msshift(tmp_path: Path) -> Command:
    """Return a function that runs the command line in a forked process, in the test's folder."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        everything = {**os.environ, "COLUMNS": "120", **environment}
        before = WITHOUT_TORCH if arguments[:1] == ("doctor",) else ""
        return run_msshift(list(map(str, arguments)), tmp_path, everything, before=before)

    return run


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Return a function that has a folder written once for all test processes, and never again."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def make(name: str, write: Callable[[Path], object]) -> Path:
        place = shared / f"made-{name}"
        place.mkdir(exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "whole").exists():
                write(place / "msshift")
                (place / "whole").touch()
        return place / "msshift"

    return make


@pytest.fixture(scope="session")
def build_once(make_once: MakeOnce) -> Iterator[Build]:
    """Return a function that builds a data set, once per collection, shifts and options.

    Many tests read what it returns, so none may change it; for those that do there is `build_copy`.
    """

    @cache
    def build(collection: str, *shifts: str, **options: Any) -> Path:
        def write(folder: Path) -> None:
            build_dataset(open_collection(collection), shifts, folder, **options)

        asked = repr((collection, shifts, sorted(options.items()))).encode()
        folder = make_once(sha256(asked).hexdigest()[:12], write)
        built[folder] = files(folder)
        return folder

    def files(folder: Path) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    built: dict[Path, dict[Path, int]] = {}
    yield build
    for folder, before in built.items():
        assert files(folder) == before, "a test changed a data set that others read"


@pytest.fixture
def build_copy(build_once: Build, tmp_path: Path) -> Build:
    """Return a function that gives a data set of `build_once` as `msshift` in the test's folder."""

    def copy(collection: str, *shifts: str, **options: Any) -> Path:
        built = build_once(collection, *shifts, **options)
        return Path(shutil.copytree(built, tmp_path / "msshift"))

    return copy


@pytest.fixture(scope="session")
def tiny_models(make_once: MakeOnce) -> Path:
    """Return the folder of `save_tiny_models`; it is only read."""
    return make_once("models", save_tiny_models)


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    """Return the golden files in ``golden`` beside the test; they call its folder TMP."""
    return Golden(request.path.parent / "golden", {str(tmp_path): "TMP"})


WriteFolder = Callable[..., Path]


@pytest.fixture
def tsv_folder(tmp_path: Path) -> WriteFolder:
    """Return a function that writes a TSV collection from strings; each file can be replaced."""

    def write(
        name: str = "toy",
        *,
        collection: str | bytes = "d1\tone passage\nd2\tanother passage\nq1\ta third\n",
        queries: str | bytes = "q1\twhat is one\nq2\thow is another\n",
        qrels: str | bytes = "q1 0 d1 1\nq2 0 d2 1\nq2 0 q1 0\n",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file, content in (("collection", collection), ("queries", queries), ("qrels", qrels)):
            data = content.encode() if isinstance(content, str) else content
            (folder / f"{file}.tsv").write_bytes(data)
        return folder

    return write


@pytest.fixture(scope="session")
def board_entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    """Make entries of systems of every kind; return them, and the results of their scores."""
    from tests.support.synthetic_entries import few_entries

    folder = tmp_path_factory.mktemp("board") / "entries"
    return folder, few_entries(folder)


@pytest.fixture(scope="session")
def board_site(make_once: MakeOnce) -> Path:
    """Build their pages, beside a folder of the entries."""
    from msshift_bench.leaderboard import build_site
    from tests.support.synthetic_entries import few_entries

    def write(folder: Path) -> None:
        few_entries(folder / "entries")
        build_site(folder / "site", folder / "entries")

    return make_once("board", write) / "site"
