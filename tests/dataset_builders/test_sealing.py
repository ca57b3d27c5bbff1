from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.manifest import Manifest, read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders.audit import add_split_leakage
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.dataset_builders.write import hydrate_dataset
from msshift_bench.errors import UsageError
from tests.conftest import Build
from tests.support.file_bytes import file_bytes

NAME = "mini:300"
MINI = open_collection(NAME)

AMENDING: dict[str, Callable[[Path], Manifest]] = {
    "hydrate": lambda folder: hydrate_dataset(folder, MINI),
    "triples": lambda folder: add_triples(folder, MINI, count=1, depth=5),
    "leakage": lambda folder: add_split_leakage(folder),
}


@pytest.mark.parametrize("what", AMENDING)
def test_files_beside_a_data_set_become_no_part_of_it(build_copy: Build, what: str) -> None:
    folder = build_copy(NAME, "length", texts=what != "hydrate")
    (folder / "runs").mkdir()
    (folder / "runs" / "own.run").write_text("q Q0 d 1 1 own\n")
    manifest = AMENDING[what](folder)
    assert manifest == read_manifest(folder)
    assert sorted(manifest.files) == ["README.md", "croissant.json"]
    assert [(f.code, f.source) for f in verify_dataset(folder)[1]] == [
        ("extra-file", str(folder / "runs" / "own.run"))
    ]
    assert (folder / "runs" / "own.run").read_text() == "q Q0 d 1 1 own\n"


@pytest.mark.parametrize("what", AMENDING)
def test_a_data_set_of_links_becomes_one_of_files(
    build_copy: Build, tmp_path: Path, what: str
) -> None:
    """huggingface_hub's cache keeps a download as links to its blobs."""
    folder = build_copy(NAME, "length", texts=what != "hydrate")
    kept = tmp_path / "blobs"
    kept.mkdir()
    for number, file in enumerate(sorted(folder.rglob("*.*"))):
        file.rename(kept / str(number))
        file.symlink_to(f"{'../' * len(file.relative_to(tmp_path).parents[1:])}blobs/{number}")
    before = file_bytes(kept)
    assert AMENDING[what](folder) == read_manifest(folder)
    assert verify_dataset(folder)[1] == []
    assert file_bytes(kept) == before


def test_a_data_set_on_another_disk_gets_triples(
    build_copy: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_copy(NAME, "length")
    link = os.link

    def refuse(source: str, target: Path) -> None:
        if ".triples" in str(source):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, str(target))
        link(source, target)

    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "msshift").symlink_to(folder)
    monkeypatch.setattr(os, "link", refuse)
    add_triples(tmp_path / "here" / "msshift", MINI, count=1, depth=5)
    assert verify_dataset(folder)[1] == []
    assert list((tmp_path / "here").iterdir()) == [tmp_path / "here" / "msshift"]


def test_counts_of_an_earlier_build_are_not_put_into_a_later_one(build_copy: Build) -> None:
    folder = build_copy(NAME, "length")

    def rebuild(stage: str, done: int, total: int) -> None:
        if "length-long" in stage and read_manifest(folder).parameters["seed"] == 0:
            build_dataset(MINI, ["length"], folder, seed=1)

    with pytest.raises(UsageError, match="was built anew while its test queries were compared"):
        add_split_leakage(folder, progress=rebuild)
    assert "near_duplicates" not in read_manifest(folder).shifts["length"]


def test_a_link_to_a_folder_beside_a_data_set_stays(build_copy: Build, tmp_path: Path) -> None:
    folder = build_copy(NAME, "length")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "own.run").touch()
    (folder / "runs").symlink_to("../runs")
    add_split_leakage(folder)
    assert [path.name for path in (folder / "runs").iterdir()] == ["own.run"]
    assert "runs" not in read_manifest(folder).files
    with pytest.raises(UsageError, match="also holds runs, which no build wrote"):
        build_dataset(MINI, ["length"], folder)
