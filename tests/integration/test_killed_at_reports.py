"""Work that ends at one of its progress reports; the next call continues, with equal bytes.

`scripts/bench killed_systems` and `scripts/bench faults` kill at drawn moments.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems import searcher
from msshift_bench.data import verify_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.encoders import EncoderSpec, embed_queries, embeddings
from msshift_bench.errors import UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.plumbing import line_and_stage, reporting
from tests.conftest import REPOSITORY, Build
from tests.support.command_line import run_python
from tests.support.file_bytes import file_bytes
from tests.support.kills import Killed
from tests.support.making import make_runs
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.tiny_recipes import tiny_recipe

Moment = tuple[str, int]
"""A stage, and the number of its report: from 1, or the last one."""

COLLECTION = "mini:200"


Reports = list[tuple[str, int, int]]


def kill() -> None:
    raise Killed


def killer(moment: Moment, act: Callable[[], object] = kill, seen: Reports | None = None) -> Any:
    """Return a receiver of progress reports that calls `act` at one, and adds them to `seen`."""
    reports, (stage, left) = [] if seen is None else seen, moment

    def receive(line: str, done: int, total: int) -> None:
        nonlocal left
        reports.append((line_and_stage(line)[1], done, total))
        if left and reports[-1][0] == stage:
            left = 0 if done == total > 0 else left - 1
            if not left:
                act()

    return receive


def killed(act: Callable[[], object], moment: Moment) -> Reports:
    """Call a function and end it at a report; return the reports."""
    reports: Reports = []
    with pytest.raises(Killed), reporting(killer(moment, seen=reports)):
        act()
    return reports


def times_of(paths: Iterable[Path]) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in paths}


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


# ---- a training ---------------------------------------------------------------------------------


MOMENTS: tuple[Moment, ...] = (("negatives", 1), ("train", 5), ("encode", 2), ("search", 1))

RECIPE: dict[str, Any] = {
    "accumulate": 2,
    "steps": 8,
    "warmup_steps": 2,
    "schedule": "linear",
    "negatives_per_query": 1,
    "negatives_pool": 2,
    "checkpoint_every": 3,
    "validation": {"every": 4, "queries": 5, "depth": 5, "patience": 0},
    "random": {"dropout": 0.2, "initial": 0.05, "matching": False},
    "pooling": "mean",
    "normalize": True,
    "loss_scale": 10,
}


def train(data: Path, out: Path, moment: Moment = ("", 0), act: Any = kill) -> None:
    """Train a bi-encoder, which encodes in small parts, and search with it."""
    recipe = out.parent / "recipe.toml"
    recipe.write_text(tiny_recipe("bi-encoder", **RECIPE))
    options: dict[str, Any] = {"recipe": recipe, "held_out": ["short"], "collection": COLLECTION}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searcher, "_SIZE", 60)
        make_runs("bi-encoder", data=data, out=out, progress=killer(moment, act), **options)


def final_files(out: Path) -> dict[str, bytes]:
    """Return the files without those of unfinished work, and without the seconds of sidecars."""
    found = {}
    for name, content in file_bytes(out).items():
        if any(part.startswith(".") for part in Path(name).parts):
            continue
        if name.endswith(".json"):
            # The checksum covers the seconds.
            no_time = dict.fromkeys(("seconds", "checksum"))
            content = json.dumps({**json.loads(content), **no_time}).encode()
        else:
            assert gzip.decompress(content)
        found[name] = content
    return found


@pytest.fixture(scope="module")
def expected_run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("training") / "runs"
    train(data, out)
    found = final_files(out)
    assert len(found) == 2
    return found


@pytest.mark.neural
def test_an_interrupted_training_ends_in_the_same_bytes(
    data: Path, tmp_path: Path, expected_run: dict[str, bytes]
) -> None:
    for moment in MOMENTS:
        with pytest.raises(Killed):
            train(data, tmp_path / "runs", moment)
        assert final_files(tmp_path / "runs").items() <= expected_run.items()
    train(data, tmp_path / "runs")
    assert final_files(tmp_path / "runs") == expected_run
    assert not [*(tmp_path / "runs").rglob(".*")]


TRAIN = """
import os, signal, sys
from pathlib import Path
from tests.integration.test_killed_at_reports import train
*paths, stage, number = sys.argv[1:]
train(*map(Path, paths), (stage, int(number)), lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.neural
@pytest.mark.extended
def test_a_training_that_sigkill_ends_ends_in_the_same_bytes(
    data: Path, tmp_path: Path, expected_run: dict[str, bytes]
) -> None:
    out, environment = tmp_path / "runs", {"PYTHONPATH": str(REPOSITORY)}
    for stage, number in (*MOMENTS[1:3], ("none", 0)):
        done = run_python(TRAIN, tmp_path, environment, [data, out, stage, str(number)])
        assert done.returncode == (-9 if number else 0), done.stderr
        assert final_files(out).items() <= expected_run.items()
    assert final_files(out) == expected_run
    assert not [*out.rglob(".*")]


# ---- embeddings ---------------------------------------------------------------------------------


@pytest.mark.neural
def test_an_interrupted_embedding_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "_BLOCK", 64)
    queries = dict(mini.queries(400))
    make_tiny_encoder(tmp_path / "tiny", queries.values(), length=24, layers=1, hidden=32)
    spec = EncoderSpec(str(tmp_path / "tiny"), max_length=24)
    embed_queries(queries, spec, cache=tmp_path / "expected")
    finished, cache = [dict[str, int]()], tmp_path / "killed"
    for number in (3, 6):
        killed(lambda: embed_queries(queries, spec, cache=cache), ("embed", number))
        finished.append(times_of(cache.glob("*/blocks/*.npy")))
    assert all(first.items() < then.items() for first, then in pairwise(finished))
    embed_queries(queries, spec, cache=cache)
    assert file_bytes(cache) == file_bytes(tmp_path / "expected")


# ---- triples ------------------------------------------------------------------------------------


TRIPLES: dict[str, Any] = {"count": 10, "depth": 50}


@pytest.fixture
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "BLOCK_QUERIES", 40)
    monkeypatch.setattr(builder, "_SHARD_ROWS", 700)


@pytest.fixture
def copy(data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data, tmp_path / "msshift"))


@pytest.fixture
def expected(data: Path, tmp_path: Path, _small_files: None) -> dict[str, bytes]:
    folder = Path(shutil.copytree(data, tmp_path / "expected" / "msshift"))
    add(folder)
    return file_bytes(folder)


def add(folder: Path, **options: Any) -> None:
    add_triples(folder, open_collection(COLLECTION), **{**TRIPLES, **options})


def test_interrupted_triples_are_continued(copy: Path, expected: dict[str, bytes]) -> None:
    before, unfinished = file_bytes(copy), copy.with_name(".msshift.triples")
    finished: list[dict[str, int]] = [{}]
    reports: Reports = []
    for moment in (("index", 1), ("negatives", 2), ("length-long-triples", 1)):
        reports = killed(lambda: add(copy), moment)
        assert file_bytes(copy) == before
        finished.append(times_of(unfinished.glob("negatives/*.npy")))
    # Every call leaves the finished blocks as they are.
    assert all(first.items() <= then.items() for first, then in pairwise(finished))
    blocks = next(-(-total // 40) for name, _, total in reports if name == "negatives")
    assert [len(names) for names in finished[1:]] == [0, 2, blocks]
    assert any(path.name.startswith("length-long") for path in unfinished.iterdir())
    with reporting(killer(("", 0), seen=reports)):
        reports.clear()
        add(copy)
    assert "index" not in {name for name, _, _ in reports}
    assert file_bytes(copy) == expected
    assert verify_dataset(copy)[1] == []
    assert not unfinished.exists()


def test_unfinished_triples_with_other_parameters_are_not_used(
    copy: Path, expected: dict[str, bytes]
) -> None:
    for changes in ({"seed": 1}, {"count": 9}, {"depth": 49}):
        killed(lambda changes=changes: add(copy, **changes), ("length-long-triples", 1))
    add(copy)
    assert file_bytes(copy) == expected
    assert not copy.with_name(".msshift.triples").exists()


def test_the_second_of_two_calls_that_add_triples_at_once_is_refused(
    copy: Path, expected: dict[str, bytes]
) -> None:
    def add_meanwhile() -> None:
        with pytest.raises(UsageError, match=r"another process is writing .*msshift"):
            add(copy)

    with reporting(killer(("negatives", 1), add_meanwhile)):
        add(copy)
    assert file_bytes(copy) == expected
