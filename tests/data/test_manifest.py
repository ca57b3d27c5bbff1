"""A manifest that was changed by hand, or by another version, says what is wrong with it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import read_manifest
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.plumbing import CHECKSUM
from tests.conftest import Build, WriteFolder
from tests.support.refusals import check_refusals

GONE = object()
SPLIT = "configs/length-short/test"

WRONG: dict[str, dict[str, Any]] = {
    "[missing-field] [unknown-field] length-short.test.digset 'digest'":
        {f"{SPLIT}/digest": GONE, f"{SPLIT}/digset": "0" * 64},
    "[missing-field] [unknown-field] test.files[0].sha 'sha256'":
        {f"{SPLIT}/files/0/sha256": GONE, f"{SPLIT}/files/0/sha": ""},
    "[missing-field] [unknown-field] edition files editon 'edition'":
        {"edition": GONE, "editon": "rebuilt", "files": GONE},
    "[wrong-type] [missing-field] texts parameters test.rows test.files":
        {f"{SPLIT}/rows": "many", f"{SPLIT}/files": None, "texts": 1, "parameters": []},
    "[out-of-range] files 10001": {"files": {f"{n}.csv": "0" * 64 for n in range(10_001)}},
    "[wrong-type] configs.length-short.test": {SPLIT: []},
    "[out-of-range] [missing-field] [unknown-shift] rows.short.train -1 balanced 'lenght'":
        {"shifts/length/rows/short": {"train": -1}, "shifts/length/balanced": GONE,
         "shifts/lenght": {}},
    "[missing-field] [wrong-type] collection.name collection.queries.rows":
        {"collection/name": GONE, "collection/mine": 1, "collection/queries/rows": True},
    "[empty-text] [wrong-form] [control-character] data_version 'xyz' collection.licence":
        {"content_digest": "xyz", "data_version": "", "collection/licence": "a\nb"},
}  # fmt: skip
"""Codes and facts of an error -> place in the manifest -> its value there."""

TEXTS = {
    "[]": "None 3 --overwrite",
    '{"schema": 99}': "99 3 --overwrite",
    '{"schema": 2}': "2 3 --overwrite",
    "{": "JSON",
    "[" * 100_000: "JSON deep",
}


def test_every_wrong_field_is_named(build_once: Build, tmp_path: Path) -> None:
    built = (build_once("mini:500", "length") / "manifest.json").read_bytes()

    def read(text: str) -> None:
        (tmp_path / "manifest.json").write_text(text)
        read_manifest(tmp_path)

    def read_changed(changes: dict[str, Any]) -> None:
        raw = json.loads(built)
        for place, value in changes.items():
            *parents, last = place.split("/")
            table = raw
            for part in parents:
                table = table[int(part) if part.isdigit() else part]
            table[last] = value
            if value is GONE:
                del table[last]
        read(json.dumps(raw))

    refusals = {
        **{
            f"{place}: IntegrityError {facts} --overwrite": partial(read_changed, changes)
            for place, (facts, changes) in enumerate(WRONG.items())
        },
        **{
            f"{text[:9]}: IntegrityError manifest.json {facts}": partial(read, text)
            for text, facts in TEXTS.items()
        },
    }
    check_refusals(refusals)
    # Where half of a character stands, pydantic says.
    with pytest.raises(IntegrityError, match=r"manifest\.json: .*JSON"):
        read_changed({"content_digest": "xyz", "written_with/pyarrow": "\ud800"})


def test_a_value_that_was_changed_is_told_by_the_checksum(build_copy: Build) -> None:
    """Another name, seed or version would pass into what is made from the data set."""
    folder = build_copy("mini:300", "length")
    manifest = read_manifest(folder)
    entry = manifest.configs["length-short"]["test"]
    assert (folder / entry.files[0].path).stat().st_size == entry.files[0].bytes
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"seed": ', '"seed": 1'))
    with pytest.raises(IntegrityError, match="checksum"):
        read_manifest(folder)
    raw = json.loads(text)
    del raw[CHECKSUM]
    (folder / "manifest.json").write_text(json.dumps(raw))
    assert read_manifest(folder) == manifest  # An earlier version wrote none.


@pytest.mark.parametrize(
    ("name", "said"), [("x" * 201, "201 characters"), ("a\nb", "contains a line break")]
)
def test_a_collection_whose_name_no_manifest_can_hold(
    tsv_folder: WriteFolder, tmp_path: Path, name: str, said: str
) -> None:
    folder = tsv_folder().rename(tmp_path / name)
    with pytest.raises(UsageError, match=f"{said}.*rename"):
        build_dataset(folder, ["length"], tmp_path / "msshift")
    assert not (tmp_path / "msshift").exists()
