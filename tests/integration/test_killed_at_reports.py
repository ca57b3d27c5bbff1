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

from msshift_bench.baselines.rerankers import reranker
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

pytestmark = pytest.mark.extended

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


# ---- systems ------------------------------------------------------------------------------------


MOMENTS: dict[str, tuple[Moment, ...]] = {
    "bm25": (("search", 2),),
    "bi-encoder": (("negatives", 1), ("train", 5), ("encode", 2), ("search", 1)),
    "colbert": (("encode", 2),),
    "monobert": (("train", 6), ("search", 3)),
}
"""System -> where it ends, one after the other."""

COMMON: dict[str, Any] = {
    "accumulate": 2,
    "steps": 8,
    "warmup_steps": 2,
    "schedule": "linear",
    "negatives_per_query": 1,
    "negatives_pool": 2,
    "checkpoint_every": 3,
    "validation": {"every": 4, "queries": 5, "depth": 5, "patience": 0},
    "random": {"dropout": 0.2, "initial": 0.05, "matching": False},
}

RECIPES: dict[str, dict[str, Any]] = {
    "bi-encoder": {"pooling": "mean", "normalize": True, "loss_scale": 10},
    "colbert": {"in_batch_negatives": True, "search": {"candidates": "all"}},
    "monobert": {"loss": "softmax"},
}


def make(
    data: Path, out: Path, system: str, moment: Moment = ("", 0), act: Callable[[], object] = kill
) -> None:
    """Make the run of a system, which encodes and scores in many small parts."""
    options: dict[str, Any] = {}
    if system in RECIPES:
        options = {"recipe": out.with_name(f"{system}.toml"), "held_out": ["short"]}
        options["recipe"].write_text(tiny_recipe(system, **COMMON, **RECIPES[system]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searcher, "_SIZE", 60)
        patch.setattr(reranker, "_PAIRS", 200)
        options |= {"collection": COLLECTION, "progress": killer(moment, act)}
        make_runs(system, data=data, out=out, **options)


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


@pytest.mark.parametrize(
    "system",
    [
        "bm25",
        *(
            pytest.param(system, marks=[pytest.mark.neural, pytest.mark.extended])
            for system in ("bi-encoder", "colbert", "monobert")
        ),
    ],
)
def test_an_interrupted_system_ends_in_the_same_bytes(
    system: str, data: Path, tmp_path: Path
) -> None:
    make(data, tmp_path / "expected", system)
    expected = final_files(tmp_path / "expected")
    assert len(expected) == 2
    for moment in MOMENTS[system]:
        with pytest.raises(Killed):
            make(data, tmp_path / "runs", system, moment)
        assert final_files(tmp_path / "runs").items() <= expected.items()
    make(data, tmp_path / "runs", system)
    assert final_files(tmp_path / "runs") == expected
    assert not [*(tmp_path / "runs").rglob(".*")]


MAKE = """
import os, signal, sys
from pathlib import Path
from tests.integration.test_killed_at_reports import make
data, out, system, stage, number = sys.argv[1:]
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
make(Path(data), Path(out), system, (stage, int(number)), kill)
"""


@pytest.mark.neural
@pytest.mark.extended
def test_a_training_that_sigkill_ends_ends_in_the_same_bytes(data: Path, tmp_path: Path) -> None:
    system = "bi-encoder"
    make(data, tmp_path / "expected", system)
    expected, out = final_files(tmp_path / "expected"), tmp_path / "runs"
    for stage, number in (*MOMENTS[system][1:3], ("none", 0)):
        words = [data, out, system, stage, str(number)]
        done = run_python(MAKE, tmp_path, {"PYTHONPATH": str(REPOSITORY)}, words)
        assert done.returncode == (-9 if number else 0), done.stderr
        assert final_files(out).items() <= expected.items()
    assert final_files(out) == expected
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
