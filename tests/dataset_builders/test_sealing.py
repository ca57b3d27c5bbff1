from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.manifest import Manifest, read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders.hydrate import hydrate_dataset
from msshift_bench.dataset_builders.split_leakage import add_split_leakage
from msshift_bench.dataset_builders.triple_builder import add_triples
from tests.conftest import Build

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
