"""Killing ``make`` at random moments: the successor ends in the same bytes."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.plumbing import line_and_stage
from tests.support.forking import work_forked
from tests.support.small_parts import run_in_small_parts
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.slow, pytest.mark.neural]

COLLECTION = "mini:200"

STAGES = ("index", "negatives", "train", "encode", "search")

MOMENTS = {
    "bm25": ("index", "search", "search", "search"),
    "bi-encoder": ("negatives", "train", "train", "train", "encode", "search"),
    "bi-encoder-released": ("negatives", "train", "encode"),
    "splade": ("train", "encode", "search"),
    "colbert": ("train", "encode", "search"),
    "monobert": ("train", "search", "search"),
    "knrm": ("train", "search"),
}
"""System, or a recipe of one -> the stages in which it is killed, one after the other. What ends in
``-released`` is trained on a data set that holds triples. Driver and trainer are the same for all:
the bi-encoder is killed there most often."""

COMMON = {
    "accumulate": 2,
    "steps": 14,
    "warmup_steps": 4,
    "schedule": "linear",
    "negatives_per_query": 1,
    "negatives_pool": 2,
    "checkpoint_every": 3,
    "validation": {"every": 8, "queries": 5, "depth": 5, "patience": 0},
    "random": {"dropout": 0.2, "initial": 0.05, "matching": False},
}

OWN: dict[str, dict[str, Any]] = {
    "bi-encoder": {"pooling": "mean", "normalize": True, "loss_scale": 10},
    "bi-encoder-released": {"pooling": "mean", "normalize": True, "loss_scale": 10},
    "splade": {"query_flops": 0.01, "passage_flops": 0.01, "flops_steps": 9},
    "colbert": {"in_batch_negatives": True, "search": {"candidates": "all"}},
    "monobert": {"loss": "softmax"},
    "knrm": {"random": None},
}


def system_of(name: str) -> str:
    return name.removesuffix("-released")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds a data set and recipes."""
    folder = tmp_path_factory.mktemp("killed")
    for name in ("msshift", "released"):
        build_dataset(open_collection(COLLECTION), ["length"], folder / name)
    add_triples(folder / "released", open_collection(COLLECTION), count=5, depth=20)
    for name, own in OWN.items():
        system = system_of(name)
        (folder / f"{name}.toml").write_text(tiny_recipe(system, **{**COMMON, **own}))
    return folder


class Attempt:
    """One process at work, and what it tells."""

    def __init__(self, system: str, folder: Path, out: Path) -> None:
        data = folder / ("released" if system.endswith("-released") else "msshift")
        options: dict[str, Any] = {"collection": COLLECTION}
        if system in OWN:
            options |= {"recipe": folder / f"{system}.toml", "held_out": ["short"]}
        self._process, self._events = work_forked(
            run_in_small_parts, system_of(system), options, data, out
        )

    def kill_in(self, stage: str, events: int, seconds: float) -> bool:
        """Kill it some time after so many events of a stage, or once it is at the stage's end.

        Returns:
            Whether it was still alive.
        """
        try:
            while events > 0:
                name, done, total = self._events.recv()
                _, found = line_and_stage(name)
                if found in STAGES:
                    ended = found == stage and done == total > 0
                    if ended or STAGES.index(found) > STAGES.index(stage):
                        break
                    events -= found == stage
                self._events.send(None)
        except EOFError:
            pass
        time.sleep(seconds)
        code = self._process.kill()
        self._events.close()
        return code != 0

    def finish(self) -> None:
        """Wait for its end."""
        try:
            while self._events.recv():
                self._events.send(None)
        except EOFError:
            self._events.close()
        assert self._process.wait() == 0


def final_files(out: Path) -> dict[str, bytes]:
    """Return the files under final names, the seconds of sidecars left out."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_dir() or name.startswith(".work/") or path.name.startswith("."):
            continue
        content = path.read_bytes()
        if path.name.endswith(".json"):
            # Its checksum covers the seconds, too.
            of_time = dict.fromkeys(("seconds", "checksum"))
            content = json.dumps({**json.loads(content), **of_time}).encode()
        else:
            assert gzip.decompress(content)
        found[name] = content
    return found


@pytest.mark.parametrize("system", list(MOMENTS))
def test_a_killed_baseline_ends_in_the_same_bytes(system: str, folder: Path) -> None:
    undisturbed, out = folder / system / "undisturbed", folder / system / "killed"
    Attempt(system, folder, undisturbed).finish()
    expected = final_files(undisturbed)
    assert len(expected) == 2

    choices = random.Random(f"{system} 1")
    killed = 0
    for stage in MOMENTS[system]:
        attempt = Attempt(system, folder, out)
        killed += attempt.kill_in(stage, choices.randint(1, 8), choices.uniform(0, 0.02))
        assert final_files(out).items() <= expected.items()
    assert killed >= 2
    Attempt(system, folder, out).finish()

    assert final_files(out) == expected
    assert not (out / ".work").exists()
    assert not [path for path in out.rglob(".*") if path.is_file()]
