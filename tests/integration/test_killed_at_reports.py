"""Work that is killed where it reports how far it is: the successor ends in the same bytes.

`scripts/bench killed_systems` and `scripts/bench faults` kill at moments that are drawn.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import verify_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.plumbing import line_and_stage
from tests.conftest import Build
from tests.support.file_bytes import file_bytes
from tests.support.forking import PRELOADED, Held
from tests.support.making import make_runs
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.extended, pytest.mark.neural]

Report = tuple[str, int, int]


def reach(held: Held, stage: str, nth: int) -> list[Report]:
    """Let work on to the n-th report of a stage, or the stage's last; return all that it told."""
    told: list[Report] = []
    for report in held.reports():
        told.append(report)
        _, found = line_and_stage(report[0])
        nth -= found == stage
        if not nth or (found == stage and report[1] == report[2] > 0):
            return told
    raise AssertionError(f"it ended before {stage}: {told}")


def kill_at(held: Held, stage: str, nth: int) -> list[Report]:
    told = reach(held, stage, nth)
    assert held.kill()
    return told


def times_of(paths: Iterable[Path]) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in paths}


# Baselines. Driver and trainer are the same for all: the bi-encoder is killed most often.

COLLECTION = "mini:200"

MOMENTS = {
    "bm25": [("search", 2)],
    "bi-encoder": [("negatives", 1), ("train", 5), ("encode", 2), ("search", 1)],
    "splade": [("search", 1)],
    "colbert": [("encode", 2)],
    "monobert": [("search", 3)],
    "knrm": [("train", 6)],
}
"""System -> where it is killed, one after the other."""

COMMON = {
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

OWN: dict[str, dict[str, Any]] = {
    "bi-encoder": {"pooling": "mean", "normalize": True, "loss_scale": 10},
    "splade": {"query_flops": 0.01, "passage_flops": 0.01, "flops_steps": 5},
    "colbert": {"in_batch_negatives": True, "search": {"candidates": "all"}},
    "monobert": {"loss": "softmax"},
    "knrm": {"random": None},
}


def make_in_small_parts(system: str, options: dict[str, Any], data: Path, out: Path) -> None:
    """Make the runs of a system, which encodes and scores in many small parts."""
    from msshift_bench.baselines.rerankers import reranker
    from msshift_bench.baselines.systems import searcher

    searcher._SIZE = 60
    reranker._PAIRS = 200
    make_runs(system, ["length"], data=data, out=out, collection=COLLECTION, **options)


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


def final_files(out: Path) -> dict[str, bytes]:
    """Return the files under final names, the seconds of sidecars left out."""
    found = {}
    for name, content in file_bytes(out).items():
        if any(part.startswith(".") for part in Path(name).parts):
            continue
        if name.endswith(".json"):
            # Its checksum covers the seconds, too.
            of_time = dict.fromkeys(("seconds", "checksum"))
            content = json.dumps({**json.loads(content), **of_time}).encode()
        else:
            assert gzip.decompress(content)
        found[name] = content
    return found


@pytest.mark.parametrize("system", MOMENTS)
def test_a_killed_baseline_ends_in_the_same_bytes(system: str, data: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {}
    if system in OWN:
        options = {"recipe": tmp_path / f"{system}.toml", "held_out": ["short"]}
        options["recipe"].write_text(tiny_recipe(system, **{**COMMON, **OWN[system]}))

    def start(out: str) -> Held:
        return Held(make_in_small_parts, system, options, data, tmp_path / out)

    start("undisturbed").finish()
    expected = final_files(tmp_path / "undisturbed")
    assert len(expected) == 2
    for moment in MOMENTS[system]:
        kill_at(start("killed"), *moment)
        assert final_files(tmp_path / "killed").items() <= expected.items()
    start("killed").finish()
    assert final_files(tmp_path / "killed") == expected
    assert not (tmp_path / "killed" / ".work").exists()
    assert not [path for path in (tmp_path / "killed").rglob(".*") if path.is_file()]


# Embeddings.


def embed_in_small_blocks(encoder: str, cache: Path) -> None:
    from msshift_bench.encoders import embeddings
    from msshift_bench.encoders.models import EncoderSpec

    embeddings._BLOCK = 64
    spec = EncoderSpec(encoder, max_length=24)
    embeddings.embed_queries(dict(mini.queries(400)), spec, cache=cache)


def test_a_killed_embedding_ends_in_the_same_bytes(tmp_path: Path) -> None:
    encoder, killed, undisturbed = (tmp_path / name for name in ("tiny", "killed", "undisturbed"))
    texts = [query.text for query in mini.queries(400)]
    make_tiny_encoder(encoder, texts, length=24, layers=1, hidden=32)
    Held(embed_in_small_blocks, str(encoder), undisturbed).finish()
    standing: list[dict[str, int]] = [{}]
    for nth in (3, 6):
        kill_at(Held(embed_in_small_blocks, str(encoder), killed), "embed", nth)
        standing.append(times_of(killed.glob("*/blocks/*.npy")))
    assert all(first.items() < then.items() for first, then in pairwise(standing))
    Held(embed_in_small_blocks, str(encoder), killed).finish()
    assert file_bytes(killed) == file_bytes(undisturbed)


# Triples.

TRIPLES = {"count": 10, "depth": 50}

SMALL_FILES = {"BLOCK_QUERIES": 40, "_SHARD_ROWS": 700}
"""Several files instead of one."""


def add_in_small_files(folder: Path, options: dict[str, Any]) -> None:
    vars(builder).update(SMALL_FILES)
    add_triples(folder, open_collection(COLLECTION), **{**TRIPLES, **options})


def adding(folder: Path, **options: Any) -> Held:
    return Held(add_in_small_files, folder, options, libraries=PRELOADED)


@pytest.fixture
def copy(data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data, tmp_path / "msshift"))


@pytest.fixture
def expected(data: Path, tmp_path: Path) -> dict[str, bytes]:
    folder = Path(shutil.copytree(data, tmp_path / "undisturbed" / "msshift"))
    adding(folder).finish()
    return file_bytes(folder)


def test_killed_triples_are_continued(copy: Path, expected: dict[str, bytes]) -> None:
    before, unfinished = file_bytes(copy), copy.with_name(".msshift.triples")
    standing: list[dict[str, int]] = [{}]
    for stage, nth in (("index", 1), ("negatives", 2), ("length-long-triples", 1)):
        told = kill_at(adding(copy), stage, nth)
        assert file_bytes(copy) == before
        standing.append(times_of(unfinished.glob("negatives/*.npy")))
    # Every successor leaves the finished blocks as they are.
    assert all(first.items() <= then.items() for first, then in pairwise(standing))
    every = next(-(-total // 40) for name, _, total in told if name == "negatives")
    assert [len(names) for names in standing[1:]] == [0, 2, every]
    assert any(path.name.startswith("length-long") for path in unfinished.iterdir())
    stages = {name for name, _, _ in adding(copy).finish()}
    assert "index" not in stages
    assert file_bytes(copy) == expected
    assert verify_dataset(copy)[1] == []
    assert not unfinished.exists()


def test_triples_that_were_left_by_other_parameters_are_not_taken(
    copy: Path, expected: dict[str, bytes]
) -> None:
    for changes in ({"seed": 1}, {"count": 9}, {"depth": 49}):
        kill_at(adding(copy, **changes), "length-long-triples", 1)
    adding(copy).finish()
    assert file_bytes(copy) == expected
    assert not copy.with_name(".msshift.triples").exists()


def test_two_processes_that_add_triples_at_once_are_told(
    copy: Path, expected: dict[str, bytes]
) -> None:
    held = adding(copy)
    reach(held, "negatives", 1)
    with pytest.raises(UsageError, match=r"another process is writing .*msshift"):
        add_triples(copy, open_collection(COLLECTION), **TRIPLES)
    held.finish()
    assert file_bytes(copy) == expected
