"""Tasks in this process, and their results in a folder, at a URL, or at S3."""

from __future__ import annotations

import logging
import os
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench import engine
from msshift_bench._version import __version__
from msshift_bench.baselines.systems import lexical
from msshift_bench.data import open_dataset
from msshift_bench.engine import Engine, KeptArray, engine_in_use, receiving_reports, using_engine
from msshift_bench.errors import DataError, IntegrityError, MissingError, UsageError
from msshift_bench.plumbing import report_progress, reporting
from tests.conftest import Build, Command
from tests.support.file_bytes import flip
from tests.support.making import make_runs

NOWHERE = Path("nowhere")


@dataclass(frozen=True)
class Numbers:
    """Numbers to raise to a power, or to refuse."""

    numbers: np.ndarray
    exponent: int = 3
    word: str = "fine"
    at: str = field(default="here", compare=False)


done: list[int] = []
"""The first number of each task that this process has run."""


def power(item: Numbers) -> np.ndarray:
    done.append(int(item.numbers[0]))
    if item.word == "wrong":
        raise DataError("a wrong word")
    return item.numbers**item.exponent


def threads(_: int) -> set[int]:
    """Return the numbers of threads of the loaded libraries of numbers, and of later ones."""
    from threadpoolctl import threadpool_info

    loaded = {library["num_threads"] for library in threadpool_info()}
    return {*loaded, int(os.environ["OMP_NUM_THREADS"])}


def sleep(folder: Path) -> None:
    """Report, and sleep until an exception."""
    try:
        report_progress(str(folder), 1, 2)
        while True:
            time.sleep(0.1)
    finally:
        (folder / "ended").touch()


def items(count: int, **changes: str) -> Iterator[Numbers]:
    for start in range(count):
        yield Numbers(np.arange(start, start + 4), **changes)


def kept(engine: Engine, folder: Path, count: int = 5, **changes: str) -> dict[str, bytes]:
    results = engine.keep(power, items(count, **changes), folder)
    return {result.name: result.load().tobytes() for result in results}


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    results = kept(Engine(), tmp_path / "expected")
    numbers = np.arange(9) ** 3
    assert list(results.values()) == [numbers[start : start + 4].tobytes() for start in range(5)]
    done.clear()
    return results


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Start moto's server of S3 with a bucket; return the URL of a folder in it."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    moto_server = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem().mkdir("results")
        yield "s3://results/numbers/"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_finished_result_is_not_made_again(tmp_path: Path, expected: dict[str, bytes]) -> None:
    assert list(Engine().map(len, ["a", "bc"])) == [1, 2]
    assert kept(Engine(), tmp_path, 2).items() < expected.items()
    (tmp_path / next(iter(expected))).unlink()
    results = Engine().keep(power, items(5, at="elsewhere"), tmp_path)
    # Each is complete when it is returned, in the order of the items.
    for name in expected:
        result = next(results)
        assert (result.name, result.exists()) == (name, True)
        assert isinstance(result.load(), np.memmap)
    assert done == [0, 1, 0, 2, 3, 4]
    assert set(kept(Engine(), tmp_path, word="another")).isdisjoint(expected)


@pytest.mark.parametrize("store", ["memory", pytest.param("s3", marks=pytest.mark.extended)])
def test_a_finished_result_at_a_url_is_not_made_again(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    fsspec = pytest.importorskip("fsspec")
    url = request.getfixturevalue("s3") if store == "s3" else f"memory://{tmp_path}/"
    remote = Engine(store=url)
    for _ in range(2):
        assert kept(remote, NOWHERE) == expected
        assert done == list(range(5))
    first, *_ = remote.keep(power, items(1), NOWHERE)
    fsspec.filesystem(store).pipe_file(str(first), b"damaged")
    with pytest.raises(IntegrityError, match=rf"{url}00000-.*\.npy was damaged"):
        first.load()
    # The listing of the folder must not be older than the removal.
    first.remove()
    assert not first.exists()
    assert kept(remote, NOWHERE) == expected
    assert first.exists()
    assert not NOWHERE.exists()


def test_a_damaged_result_is_refused(tmp_path: Path, expected: dict[str, bytes]) -> None:
    (result,) = Engine().keep(power, items(1), tmp_path)
    path = tmp_path / result.name
    content = path.read_bytes()
    for damaged in (b"damaged", b"", content[:-1], flip(path, -40).read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=f"{path} was damaged after it was written"):
            kept(Engine(), tmp_path)
    result.remove()
    assert kept(Engine(), tmp_path) == expected


def test_an_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(MissingError, match="nosuch://bucket cannot be used: ValueError"):
        kept(Engine(store="nosuch://bucket"), NOWHERE)


@pytest.mark.extended
def test_an_unknown_bucket_is_refused(s3: str) -> None:
    import s3fs

    wrong = KeptArray("s3://wrok/results", "a.npy")
    for _ in range(2):
        assert not wrong.exists()
        with pytest.raises(MissingError, match=r"s3://wrok/results cannot be used: FileNotFound"):
            wrong.write(np.arange(5))
    assert s3fs.S3FileSystem().ls("") == ["results"]


# ---- the parts of a cluster's tasks, in this process --------------------------------------------


def test_a_cluster_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[cluster]'")
    with pytest.raises(MissingError, match=r"no Ray cluster answers at 127\.0\.0\.1:9 \("):
        kept(Engine("127.0.0.1:9"), tmp_path)
    assert kept(Engine("127.0.0.1:9"), tmp_path, 0) == {}


@pytest.mark.cluster
@pytest.mark.extended
@pytest.mark.filterwarnings("default")
def test_ray_starts_two_clusters_in_turn_for_the_address_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray keeps the HOME of its import, where it would look for tokens in later tests, too.
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[cluster]'")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray writes a token that later clusters require.
    for _ in range(2):
        with using_engine(Engine("local")):
            assert list(engine_in_use().map(abs, range(-3, 0))) == [3, 2, 1]


def work(number: int) -> int:
    logging.getLogger("msshift_bench.engine").info("at work in %s", Path.cwd().name)
    report_progress("work", 1, number)
    if number > 2:
        raise DataError(f"{number} is too large")
    return number * 10


def test_a_task_reports_to_the_caller_and_works_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path.parent)
    messages: queue.Queue[Any] = queue.Queue()
    reports: list[tuple[str, int, int]] = []

    def run(number: int, version: str = __version__) -> int:
        return engine._run_task(work, number, 1, version, tmp_path, messages)

    with (
        caplog.at_level("INFO", "msshift_bench"),
        reporting(lambda *one: reports.append(one)),
        receiving_reports(messages),
    ):
        assert run(2) == 20
        with pytest.raises(DataError, match=r"^3 is too large$"):
            run(3)
        with pytest.raises(
            UsageError, match=rf"has msshift-bench {__version__}, this machine 0\.0\.1"
        ):
            run(1, "0.0.1")
        messages.put(logging.LogRecord("quiet", logging.DEBUG, "", 1, "a detail", None, None))
    assert reports == [("work", 1, 2), ("work", 1, 3)]
    assert caplog.messages.count(f"at work in {tmp_path.name}") >= 2
    assert "a detail" not in caplog.messages


# ---- a run --------------------------------------------------------------------------------------


def test_neither_blocks_nor_store_change_a_run(
    msshift: Command, build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_once("mini:300", "length")

    def run(out: str) -> bytes:
        (path,) = make_runs("bm25", out=tmp_path / out, data=data)
        return path.read_bytes()

    expected = run("here")
    configs = open_dataset(data).manifest.configs.values()
    queries = sum(splits["test"].rows for splits in configs if "test" in splits)
    for number in (1, 7):
        store = tmp_path / f"store{number}"
        monkeypatch.setattr(lexical, "_BLOCK_QUERIES", -(-queries // number))
        with using_engine(Engine(store=str(store))):
            assert engine_in_use().store == str(store)
            assert run(f"in {number}") == expected
        assert engine_in_use() == Engine()
        assert len(list(store.iterdir())) == number
    command = ("run", "bm25", "--shift", "length", "--data", data, "--collection", "mini:300")
    ended = msshift(*command, "--out", "there", "--store", "kept")
    assert (ended.returncode, ended.stdout) == (0, "there/bm25/length.run.gz\n")
    assert (tmp_path / "there/bm25/length.run.gz").read_bytes() == expected
    assert len(list((tmp_path / "kept").glob("00000-*.npy"))) == 1


def test_to_wait_for_a_cluster_needs_one(msshift: Command, build_copy: Build) -> None:
    build_copy("mini:300", "length")
    done = msshift("run", "bm25", "--wait")
    assert done.returncode == 2
    assert "--wait" in done.stderr
    assert "add --ray" in done.stderr
