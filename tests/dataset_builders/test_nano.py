"""A small data set is a part of the full one, and obeys the same rules."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.data.manifest import read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import NANO_SIZES
from msshift_bench.records import SPLITS
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build

pytestmark = pytest.mark.slow

# Larger than the small sizes in every split: 12,000 queries.
NAME = "mini:8000"
MINI = open_collection(NAME)
NAMES = ("wh-words", "length")
CONFIGS = [config for name in NAMES for config in SHIFTS[name].configs]


@pytest.fixture(scope="session")
def folders(build_once: Build) -> dict[str, Path]:
    return {
        "full": build_once(NAME, *NAMES),
        "nano": build_once(NAME, *NAMES, nano=True),
    }


@pytest.mark.parametrize(("config", "split"), list(product(CONFIGS, SPLITS)))
def test_every_split_is_a_part_of_the_full_one(
    folders: dict[str, Path], config: str, split: str
) -> None:
    full, nano = (list(load_dataset(folders[n], config, split=split)) for n in ("full", "nano"))
    assert set(nano) < set(full)
    assert nano == sorted(nano)


@pytest.mark.parametrize("name", NAMES)
def test_sizes(folders: dict[str, Path], name: str) -> None:
    full, nano = (read_manifest(folders[n]).shifts[name]["rows"] for n in ("full", "nano"))
    for group in SHIFTS[name].groups:
        for split in ("train", "test"):
            assert full[group][split] > NANO_SIZES[split]
            assert nano[group][split] == NANO_SIZES[split]
    config = next(iter(SHIFTS[name].configs))
    assert len(load_dataset(folders["full"], config, split="validation")) > NANO_SIZES["validation"]
    assert len(load_dataset(folders["nano"], config, split="validation")) == 300


def test_a_split_that_is_small_already_stays_whole(tmp_path: Path) -> None:
    collection = open_collection("mini:500")
    build_dataset(collection, ["length"], tmp_path / "full")
    build_dataset(collection, ["length"], tmp_path / "nano", nano=True)
    for split in SPLITS:
        full, nano = (
            list(load_dataset(tmp_path / n, "length-long", split=split)) for n in ("full", "nano")
        )
        assert full == nano


def test_no_query_is_trained_on_and_tested(folders: dict[str, Path]) -> None:
    for name in NAMES:
        ids = {
            (config, split): {
                r.query_id for r in load_dataset(folders["nano"], config, split=split)
            }
            for config, split in product(SHIFTS[name].configs, SPLITS)
        }
        tested = set().union(*(ids[config, "test"] for config in SHIFTS[name].configs))
        for config in SHIFTS[name].configs:
            assert not tested & ids[config, "train"]
            assert not (tested | ids[config, "train"]) & ids[config, "validation"]


def test_what_the_small_one_trains_on_the_full_one_never_tests(folders: dict[str, Path]) -> None:
    for name in NAMES:
        trained, tested = (
            {
                row.query_id
                for config in SHIFTS[name].configs
                for row in load_dataset(folders[which], config, split=split)
            }
            for which, split in (("nano", "train"), ("full", "test"))
        )
        assert not trained & tested


@pytest.mark.slow
def test_the_same_everywhere(folders: dict[str, Path], tmp_path: Path) -> None:
    build_dataset(MINI, NAMES, tmp_path / "again", nano=True, workers=2)
    build_dataset(MINI, NAMES, tmp_path / "other", nano=True, seed=1)
    first, again, other = map(
        read_manifest, (folders["nano"], tmp_path / "again", tmp_path / "other")
    )
    assert again == first
    assert other.content_digest != first.content_digest


def test_a_shift_does_not_move_what_another_samples(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    build_dataset(MINI, ["length"], tmp_path / "alone", nano=True)
    alone, both = read_manifest(tmp_path / "alone"), read_manifest(folders["nano"])
    for config in ("length", *SHIFTS["length"].configs):
        assert alone.configs[config] == both.configs[config]


def test_it_says_that_it_is_small(folders: dict[str, Path]) -> None:
    full, nano = read_manifest(folders["full"]), read_manifest(folders["nano"])
    assert (full.parameters["nano"], nano.parameters["nano"]) == (False, True)
    assert nano.shifts["length"]["parameters"]["nano"] == dict(NANO_SIZES)
    assert full.content_digest != nano.content_digest
    assert "nano true" in (folders["nano"] / "README.md").read_text()
    assert verify_dataset(folders["nano"])[1] == []
