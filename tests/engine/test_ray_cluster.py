"""A Ray cluster that loses a node gives the same bytes as this process alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems import lexical, plan
from msshift_bench.data import open_collection
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.engine import Engine, engine_in_use, using_engine
from msshift_bench.errors import DataError, MissingError, UsageError
from msshift_bench.libraries import Library
from msshift_bench.plumbing import reporting
from tests.conftest import Build
from tests.engine.test_engine import items, kept, power, sleep, threads
from tests.engine.test_tasks_of_a_cluster import SIZE, mined
from tests.support.lanes import needs
from tests.support.making import make_runs
from tests.support.ray_cluster import RayCluster, ray_cluster
from tests.support.run_files import sidecar
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [
    needs("ray", "cluster"),
    pytest.mark.cluster,
    pytest.mark.extended,
    pytest.mark.neural,
]
pytestmark += [pytest.mark.filterwarnings("default")]

ray: Any = Library("ray", "cluster")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Start a node of one processor, and one of two, which tests may kill and then add again."""
    with ray_cluster() as cluster:
        cluster.add_node(processors=2)
        yield cluster


@pytest.fixture(scope="module")
def engine(cluster: RayCluster) -> Iterator[Engine]:
    """Return the engine of a block, which has one connection until its end."""
    with using_engine(Engine(cluster.address)):
        yield engine_in_use()
        assert ray.is_initialized()
    assert not ray.is_initialized()


def test_a_node_is_killed_between_two_results(
    cluster: RayCluster, engine: Engine, tmp_path: Path
) -> None:
    expected = kept(Engine(), tmp_path / "here", 30)
    results = {}
    for place, result in enumerate(engine.keep(power, items(30), tmp_path / "ray")):
        results[result.name] = result.load().tobytes()
        if place == 7:
            cluster.remove_node()
    assert results == expected
    cluster.add_node(processors=2)


def test_workers_write_to_a_url(engine: Engine, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    expected = kept(Engine(), tmp_path / "here")
    assert kept(Engine(engine.address, store.as_uri()), tmp_path / "unused") == expected
    assert sorted(path.name for path in store.iterdir()) == list(expected)
    assert not (tmp_path / "unused").exists()


def test_the_refusal_of_a_task_has_its_message(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^a wrong word$"):
        kept(engine, tmp_path, word="wrong")
    with pytest.raises(TypeError, match="has no len"):
        list(engine.map(len, [3]))


def test_a_task_uses_as_many_threads_as_it_has_processors(engine: Engine) -> None:
    for number in (1, 2, 1):
        assert list(engine.map(threads, range(3), cpus=number)) == [{number}] * 3


def test_a_task_that_no_node_can_run_is_refused_unless_it_may_wait(
    cluster: RayCluster, engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started = []

    def folders() -> Iterator[Path]:
        started.append(tmp_path)
        yield tmp_path

    problem = "a task needs 3 CPU and 0 GPU, but the nodes of the Ray cluster have 1 CPU and 0 "
    with pytest.raises(MissingError, match=problem + r"GPU or 2 CPU .* with --wait$"):
        list(engine.map(threads, folders(), cpus=3))
    assert started == []
    with using_engine(Engine(engine.address, wait=True)):
        results = engine_in_use().map(threads, range(1), cpus=3)
        with ThreadPoolExecutor(1) as waiting:
            found = waiting.submit(list, results)
            while "waits for a larger node" not in caplog.text:
                assert not found.done()
                time.sleep(0.1)
            cluster.add_node(processors=3)
            assert found.result(120) == [{3}]
    assert f"{problem}GPU or 2 CPU and 0 GPU; the task waits for a larger node" in caplog.text
    cluster.remove_node()


def test_a_call_that_was_left_ends_with_its_block(engine: Engine, tmp_path: Path) -> None:
    with using_engine(Engine(engine.address, str(tmp_path))):
        results = engine_in_use().map(threads, range(3))
        assert next(results) == {1}
    assert list(results) == []


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A training takes as many processors as torch has threads, and a node has one."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("engine", "one_thread")
def test_trainings_and_blocks_of_a_search_give_the_same_runs(
    cluster: RayCluster,
    build_once: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "tiny.toml").write_text(tiny_recipe("bi-encoder", random={"dropout": 0.1}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lexical, "_BLOCK_QUERIES", 50)
    trained = {"recipe": "tiny.toml", "search.depth": 5, "keep_model": True}
    data, reported = build_once("mini:300", "length"), []

    def progress(*reports: Any) -> None:
        reported.append(reports)
        stage, done, _ = reports
        if "(2 of 2): train" in stage and done == 4 and len(cluster.nodes) > 1:
            cluster.remove_node()

    def run(out: str) -> dict[Path, bytes]:
        common: dict[str, Any] = {"collection": "mini:300", "data": data, "out": Path(out)}
        common["progress"] = progress if out == "ray" else None
        make_runs("bm25", ["length"], **common)
        make_runs("bi-encoder", ["length"], **trained, **common)
        assert not Path(out, ".work").exists()
        files = {path.relative_to(out): path for path in Path(out).rglob("*") if path.is_file()}
        return {name: file.read_bytes() for name, file in files.items() if name.suffix != ".json"}

    with using_engine(Engine()):
        expected = run("here")
    assert sum(name.name.endswith(".run.gz") for name in expected) == 3
    with caplog.at_level("INFO"):
        with monkeypatch.context() as patch:
            patch.setattr(plan, "write_json", lambda *_: None)
            with pytest.raises(UsageError, match=r"cannot read .*/short; use a folder of runs"):
                run("elsewhere")
        assert run("ray") == expected
        assert len(cluster.nodes) == 1
        cluster.add_node(processors=2)
    for number, group in enumerate(("short", "long"), 1):
        line = f"bi-encoder without {group} of length"
        assert (f"{line} ({number} of 2): train", 7, 7) in reported
        assert f"{line}: step 7 of 7: loss" in caplog.text
        assert f"{line}: made in" in caplog.text
    here, there = (sidecar(Path(out, "bi-encoder/length/short.run.gz")) for out in ("here", "ray"))
    for key in ("training", "hardware", "parameters"):
        assert here[key] == there[key]


def test_an_interrupt_ends_the_tasks(engine: Engine, tmp_path: Path) -> None:
    def interrupt(*report: Any) -> None:
        # Other reports may come from a worker that outlives its node by a second.
        if report == (f"{tmp_path}", 1, 2):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), reporting(interrupt):
        list(engine.map(sleep, [tmp_path]))
    deadline = time.monotonic() + 60
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.usefixtures("engine")
def test_negatives_are_the_same(tmp_path: Path) -> None:
    collection = open_collection(f"mini:{SIZE}")
    with using_engine(Engine()):
        expected = mined(collection, tmp_path / "here")
    assert mined(collection, tmp_path / "ray") == expected
    collection = open_collection("mini:301")
    with pytest.raises(UsageError, match="mini:301 differ on this machine; copy"):
        mined(collection, tmp_path / "refused")
    object.__setattr__(collection, "address", None)
    with pytest.raises(UsageError, match="has no path and no name, so the machines of a cluster"):
        mined(collection, tmp_path / "unnamed")


@pytest.mark.usefixtures("engine")
def test_embeddings_are_the_same(tmp_path: Path) -> None:
    queries = open_collection(f"mini:{SIZE}").queries
    make_tiny_encoder(tmp_path / "tiny", queries.values(), length=24)
    spec = EncoderSpec(str(tmp_path / "tiny"), max_length=24)
    with using_engine(Engine()):
        expected = embed_queries(queries, spec, cache=tmp_path / "here")
    assert embed_queries(queries, spec, cache=tmp_path / "ray").sha256 == expected.sha256
