"""What all tests share: where the real data is, and small collections made on the spot."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from tests.support.command_line import SCRIPT, run_msshift, run_script
from tests.support.golden import Golden
from tests.support.tiny_models import save_tiny_models
from tests.support.trained import Trained, train_tiny, trained_in

if TYPE_CHECKING:
    from msshift_bench.evaluation import Result

# Test processes share cores: threads that spin while they wait would take them from others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Tests that a script starts in the background would ignore interrupts, in all their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in every run: --hypothesis-profile=explore makes new ones. The first lane
# takes the first of them.
hypothesis.settings.register_profile("landing", derandomize=True, deadline=None)
hypothesis.settings.register_profile("first", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.register_profile("explore", derandomize=False, print_blob=True, deadline=None)
hypothesis.settings.load_profile("landing")

REPOSITORY = Path(__file__).resolve().parent.parent
REAL_DATA = REPOSITORY.parent / "shared" / "data"


def pytest_configure(config: pytest.Config) -> None:
    """Keep what libraries of the Hub cache, in all test processes, away from the user's cache."""
    if not hasattr(config, "workerinput"):
        cache = tempfile.TemporaryDirectory(prefix="msshift-tests-")
        os.environ["HF_HOME"] = cache.name
        config.add_cleanup(cache.cleanup)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests with models first: one of the processes then imports torch for all of them.

    Of tests that are marked ``every(n)`` the first lane runs every n-th row.
    """
    for item in items:
        for mark in item.iter_markers("every"):
            assert isinstance(item, pytest.Function)
            if max(item.callspec.indices.values()) % mark.args[0]:
                item.add_marker(pytest.mark.extended)
    if config.pluginmanager.hasplugin("randomly"):
        return
    items.sort(key=lambda item: item.get_closest_marker("neural") is None)


def pytest_collection_finish() -> None:
    """Look no more for garbage among what the libraries made: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


_tests = itertools.count()


def pytest_runtest_setup() -> None:
    """Nor among what modules and fixtures have made since.

    Every training collects garbage at its end, which took a tenth of the time of all tests.
    """
    if next(_tests) % 50 == 0:
        gc.freeze()


def pytest_sessionfinish() -> None:
    """Let pytest's own collections at the end find nothing to look at.

    A process that cannot end after its last test shows where it waits, and is ended.
    """
    gc.freeze()
    faulthandler.dump_traceback_later(300, exit=True)


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
    return SCRIPT


@pytest.fixture
def script(tmp_path: Path) -> Command:
    """Return a function that runs the installed console script in the test's folder."""

    def run(*arguments: str | Path, **environment: str | None) -> subprocess.CompletedProcess[str]:
        return run_script(arguments, tmp_path, environment)

    return run


@pytest.fixture
def msshift(tmp_path: Path) -> Command:
    """Return a function that calls the command line in this process, in the test's folder."""

    def run(*arguments: str | Path, **environment: str | None) -> subprocess.CompletedProcess[str]:
        return run_msshift(arguments, tmp_path, environment)

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


@pytest.fixture(scope="session")
def first(build_once: Build) -> Path:
    """Return a built data set; it is only read."""
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="session")
def second(build_once: Build) -> Path:
    """Return another build of the same data version: one shift less, other rows."""
    return build_once("mini:300", "length", samples=SampleSizes(seed=1))


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


@pytest.fixture(scope="session")
def trained(make_once: MakeOnce, build_once: Build) -> Callable[[str], Trained]:
    """Return a function that gives a system's tiny trained model and run; they are only read."""

    def train(system: str) -> Trained:
        data = build_once("mini:300", "length")
        write = partial(train_tiny, system=system, data=data)
        return trained_in(make_once(f"trained-{system}", write), system)

    return train


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
    """Return a folder with entries of systems of every kind, and the results of their scores."""
    from tests.support.synthetic_entries import few_entries

    folder = tmp_path_factory.mktemp("board") / "entries"
    return folder, few_entries(folder)


@pytest.fixture(scope="session")
def board_site(make_once: MakeOnce) -> Path:
    """Return the folder of their pages, next to the folder of the entries."""
    from tests.support.synthetic_entries import write_board

    return make_once("board", write_board) / "site"
