from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from msshift_bench.errors import (
    DataError,
    IntegrityError,
    MissingError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.shards import (
    Inputs,
    Shard,
    ShardsAwaitedError,
    ShardStore,
    carrying,
    choose_engine,
    map_shards,
    merge_shards,
    run_shards,
    using_engine,
)
from tests.conftest import Build, Command


class Powers:
    """A task: numbers to a power."""

    made = 0

    def __init__(self, common: Inputs) -> None:
        Powers.made += 1
        self._exponents = common["exponents"]

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> np.ndarray:
        if inputs["word"] == "wrong":
            raise DataError("a wrong word")
        if inputs["word"] == "die":
            os._exit(9)
        advance(1)
        return inputs["numbers"] ** self._exponents[0]


COMMON = {"exponents": np.array([3])}


def shards_of(count: int, word: str = "fine") -> Iterator[Shard]:
    for start in range(count):
        yield Shard({"numbers": np.arange(start, start + 4), "word": word}, 4)


def carry_out(folder: Path, count: int = 5, word: str = "fine") -> dict[str, bytes]:
    found = list(map_shards(Powers, COMMON, shards_of(count, word), folder))
    return {name: store.load(name).tobytes() for store, name in found}


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    results = carry_out(tmp_path / "expected")
    numbers = np.arange(9) ** 3
    assert list(results.values()) == [numbers[start : start + 4].tobytes() for start in range(5)]
    return results


def test_progress_and_what_stands(tmp_path: Path, expected: dict[str, bytes]) -> None:
    told: list[tuple[str, int, int]] = []
    before = Powers.made
    shards = map_shards(
        Powers,
        COMMON,
        shards_of(2),
        tmp_path,
        stage="raise",
        total=8,
        progress=lambda *event: told.append(event),
    )
    found = list(shards)
    names = [name for _, name in found]
    assert told == [("raise", done, 8) for done in (1, 4, 5, 8)]
    assert (Powers.made, names) == (before + 1, list(expected)[:2])
    assert all(isinstance(store.load(name), np.memmap) for store, name in found)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert carry_out(tmp_path) == expected
    assert stamps.items() < {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}.items()
    # Another word is another shard, and places decide nothing.
    assert set(carry_out(tmp_path / "other", word="other")).isdisjoint(expected)
    moved = map_shards(Powers, COMMON, shards_of(5), tmp_path, places={"at": "elsewhere"})
    assert [name for _, name in moved] == list(expected)

    result = tmp_path / names[0]
    whole = result.read_bytes()
    flipped = bytearray(whole)
    flipped[-40] ^= 1
    for damaged in (b"damaged", b"", whole[:-1], bytes(flipped)):
        result.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=f"{names[0]} was damaged after it was written"):
            carry_out(tmp_path)


@pytest.mark.slow
def test_processes(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with using_engine(choose_engine("local", workers=2)):
        assert carry_out(tmp_path) == expected
        with pytest.raises(MissingError, match=r"ended from outside.*fewer --workers"):
            carry_out(tmp_path, 1, "die")


class OneNode(ModuleType):
    """Ray as its engine uses it, on no cluster: a task begins where its result is asked for."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.exceptions = SimpleNamespace(WorkerCrashedError=EOFError, ObjectLostError=KeyError)
        self.connected, self.begun, self.cancelled = False, 0, 0
        self.fault: Exception | None = None

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **_: object) -> None:
        if isinstance(self.fault, ConnectionError):
            raise self.fault
        self.connected = True

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def put(self, value: object) -> object:
        return value

    def remote(self, *, max_retries: int) -> Callable[[Callable[..., object]], object]:
        assert max_retries > 0
        return lambda function: SimpleNamespace(remote=lambda *given: partial(function, *given))

    def get(self, given: Callable[[], object]) -> object:
        self.begun += 1
        if self.fault is not None:
            raise self.fault
        return given()

    def cancel(self, given: object) -> None:
        self.cancelled += 1


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> OneNode:
    node = OneNode()
    monkeypatch.setitem(sys.modules, "ray", node)
    return node


def test_ray_is_sent_what_does_not_stand_and_is_left_as_it_was_found(
    ray: OneNode, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with using_engine(choose_engine("ray")):
        assert carry_out(tmp_path) == expected
        assert (ray.begun, ray.connected) == (5, False)
        ray.connected = True
        (tmp_path / list(expected)[2]).unlink()
        assert carry_out(tmp_path) == expected
        # Whoever has a connection already keeps it.
        assert (ray.begun, ray.connected) == (6, True)
        # With one processor, two shards are under way beside the one that is awaited.
        (tmp_path / next(iter(expected))).unlink()
        for folder, cancelled in ((tmp_path / "other", 2), (tmp_path, 0)):
            ray.cancelled = 0
            shards = map_shards(Powers, COMMON, shards_of(5), folder)
            next(shards)
            del shards
            assert ray.cancelled == cancelled


def test_where_a_url_says_so_nodes_of_ray_write_themselves(
    ray: OneNode, expected: dict[str, bytes]
) -> None:
    pytest.importorskip("fsspec")
    with using_engine(choose_engine("ray", place="memory://ray/shards")):
        assert carry_out(Path("nowhere")) == expected
    assert ray.begun == 5


def test_what_ray_says_is_said_in_one_sentence(ray: OneNode, tmp_path: Path) -> None:
    with using_engine(choose_engine("ray")):
        with pytest.raises(DataError, match=r"^shard 00000-\S+: a wrong word$"):
            carry_out(tmp_path, 1, "wrong")
        for ray.fault in (EOFError(), KeyError()):
            with pytest.raises(MissingError, match=r"lost the workers of shard 00000-.* same comm"):
                carry_out(tmp_path, 1)
        ray.fault = ConnectionError("Nobody answers.\nSee above.")
        with pytest.raises(
            MissingError, match=r"answers at auto \(Nobody answers\): start one with `ray start"
        ):
            carry_out(tmp_path, 1)
    assert not ray.connected


def test_an_object_store(expected: dict[str, bytes]) -> None:
    pytest.importorskip("fsspec")
    with using_engine(choose_engine("local", place="memory://bucket/shards")):
        assert carry_out(Path("nowhere")) == expected
        ((store, name),) = map_shards(Powers, COMMON, shards_of(1), Path("nowhere"))
        assert store.place.startswith("memory://bucket/shards/")
        assert store.folder is None
        before = Powers.made
        assert carry_out(Path("nowhere")) == expected
        assert Powers.made == before
        store.write_bytes(name, b"damaged")
        with pytest.raises(IntegrityError, match="was damaged after it was written"):
            carry_out(Path("nowhere"))
        store.remove(name)
        assert carry_out(Path("nowhere")) == expected
    assert not Path("nowhere").exists()
    with pytest.raises(UsageError, match="nosuch://bucket cannot be a shard folder"):
        ShardStore("nosuch://bucket")


def fake_sbatch(script: Path, only: list[int] | None = None) -> None:
    """Do what sbatch does with an array, one job after the other."""
    ((first, last),) = [
        line.removeprefix("#SBATCH --array=").partition("%")[0].split("-")
        for line in script.read_text().splitlines()
        if line.startswith("#SBATCH --array=")
    ]
    here = str(Path(__file__).parent)
    for number in only or range(int(first), int(last) + 1):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "PYTHONPATH": here}
        subprocess.run(["bash", script], env=environment, check=True)


def test_a_job_array(
    tmp_path: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = choose_engine("slurm", workers=2, command=["list"])
    with using_engine(engine), pytest.raises(ShardsAwaitedError) as awaited:
        carry_out(tmp_path)
    job = awaited.value.job
    assert f"5 of 5 shards wait in {tmp_path}" in str(awaited.value)
    assert "#SBATCH --array=0-4%2\n" in job.script.read_text()

    fake_sbatch(job.script, [3])
    with pytest.raises(DataError, match=r"4 of 5 shards .*`sbatch --array=0,1,2,4 "):
        merge_shards(tmp_path)
    monkeypatch.setattr(carrying, "_ready", {})
    before = Powers.made
    assert [len(run_shards(tmp_path, number)) for number in range(5)] == [1, 1, 1, 0, 1]
    assert Powers.made == before + 1
    assert merge_shards(tmp_path) == (["list"], Path.cwd())
    with using_engine(engine):
        assert carry_out(tmp_path) == expected
    with pytest.raises(UsageError, match="has the jobs 0 to 4, not 5"):
        run_shards(tmp_path, 5)
    with pytest.raises(NotFoundError, match=r"holds no job\.json"):
        run_shards(tmp_path / "nothing", 0)

    with using_engine(engine), pytest.raises(ShardsAwaitedError):
        carry_out(tmp_path / "wrong", 1, "wrong")
    with pytest.raises(DataError, match=r"shard 00000-.*\.npy: a wrong word"):
        run_shards(tmp_path / "wrong", 0)

    plan = job.plan.read_text()
    job.plan.write_text(plan.replace('"version": "', '"version": "9.'))
    monkeypatch.setattr(carrying, "_ready", {})
    next(tmp_path.glob("00001-*.npy")).unlink()
    with pytest.raises(UsageError, match="install the same version on all machines"):
        run_shards(tmp_path, 1)


def test_a_job_array_in_a_folder_with_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "my shards"
    with using_engine(choose_engine("slurm")), pytest.raises(ShardsAwaitedError) as awaited:
        carry_out(folder)
    script = awaited.value.job.script
    assert f"`sbatch '{script}'`" in str(awaited.value)
    assert f"`msshift shards merge '{folder}'`" in str(awaited.value)
    # sbatch reads its lines as a shell does.
    assert f"#SBATCH --output='{folder}/logs/%a.log'\n" in script.read_text()
    fake_sbatch(script, [3])
    with pytest.raises(DataError, match=rf"`sbatch --array=0,1,2,4 '{script}'`"):
        merge_shards(folder)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"name": "rai"}, UnknownNameError, "did you mean 'ray'. valid are local, ray, slurm"),
        ({"address": "host:1"}, UsageError, "--address is a Ray cluster's: give --engine ray"),
        ({"workers": 0}, UsageError, "--workers is 0; it must be 1 or more"),
        ({"name": "slurm", "place": "s3://b"}, UsageError, "a job array needs a folder"),
    ],
)
def test_engines_that_cannot_be(
    given: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        choose_engine(**given)


@pytest.mark.slow
def test_commands_give_the_same_bytes_with_each_engine(
    msshift: Command, build_once: Build, tmp_path: Path
) -> None:
    data = build_once("mini", "length")

    def bm25(out: str, *given: str) -> tuple[int, str, str]:
        done = msshift(
            *("baseline", "run", "bm25", "--shift", "length", "--depth", "20"),
            *("--data", data, "--out", out, *given),
        )
        return done.returncode, done.stdout, done.stderr

    run = "bm25/length.run.gz"
    assert bm25("here")[:2] == (0, f"here/{run}\n")
    assert bm25("processes", "--workers", "2", "--shards", "kept")[0] == 0
    assert len(list((tmp_path / "kept").glob("*/00000-*.npy"))) == 1

    code, script, told = bm25("array", "--engine", "slurm")
    job = Path(script.strip()).parent
    assert (code, "1 of 1 shards wait in " in told) == (0, True)
    early = msshift("shards", "merge", job)
    assert (early.returncode, "1 of 1 shards in " in early.stderr) == (1, True)
    assert msshift("shards", "run", job, "0").stdout.endswith(".npy\n")
    merged = msshift("shards", "merge", job)
    assert (merged.returncode, merged.stdout) == (0, f"array/{run}\n")
    assert not (tmp_path / "array" / ".work").exists()
    expected = (tmp_path / "here" / run).read_bytes()
    assert {(tmp_path / out / run).read_bytes() for out in ("processes", "array")} == {expected}

    code, _, told = bm25("wrong", "--engine", "rank_bm25")
    assert (code, "write --bm25-engine rank_bm25" in told) == (2, True)
