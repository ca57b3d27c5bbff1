"""A manifest that was changed by hand, or by another version, says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import read_manifest
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.plumbing import CHECKSUM
from tests.conftest import Build, WriteFolder

GONE = object()
SPLIT = "configs/length-short/test"
NO_FIELD = "there is no such field; did you mean"

MISSING = "is missing [missing-field]"

WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({f"{SPLIT}/digest": GONE, f"{SPLIT}/digset": "0" * 64}, [
        f"configs.length-short.test.digset: {NO_FIELD} 'digest'? [unknown-field]",
        f"configs.length-short.test.digest: {MISSING}",
    ]),
    ({f"{SPLIT}/files/0/sha256": GONE, f"{SPLIT}/files/0/sha": ""}, [
        f"configs.length-short.test.files[0].sha: {NO_FIELD} 'sha256'? [unknown-field]",
        f"configs.length-short.test.files[0].sha256: {MISSING}",
    ]),
    ({"edition": GONE, "editon": "rebuilt", "files": GONE}, [
        f"editon: {NO_FIELD} 'edition'? [unknown-field]", f"edition: {MISSING}",
        f"files: {MISSING}",
    ]),
    ({f"{SPLIT}/rows": "many", f"{SPLIT}/files": None, "texts": 1, "parameters": []}, [
        "texts: expected true or false, found a number [wrong-type]",
        "parameters: expected an object, found a list [wrong-type]",
        "configs.length-short.test.files: must not be empty [missing-field]",
        "configs.length-short.test.rows: expected a whole number, found a text [wrong-type]",
    ]),
    ({"files": {f"{n}.csv": "0" * 64 for n in range(10_001)}}, [
        "files: 10001 items where at most 10000 may stand [out-of-range]",
    ]),
    ({SPLIT: []}, ["configs.length-short.test: expected an object, found a list [wrong-type]"]),
    ({"shifts/length/rows/short": {"train": -1}, "shifts/length/balanced": GONE,
      "shifts/lenght": {}}, [
        "shifts.length.rows.short.train: Input should be greater than or equal to 0 "
        "(found -1) [out-of-range]",
        f"shifts.length.balanced: {MISSING}",
        "shifts.lenght: unknown shift 'lenght'; did you mean 'length'? [unknown-shift]",
    ]),
    ({"collection/name": GONE, "collection/mine": 1, "collection/queries/rows": True}, [
        f"collection.name: {MISSING}",
        "collection.queries.rows: expected a whole number, found true or false [wrong-type]",
    ]),
    ({"content_digest": "xyz", "written_with/pyarrow": "\ud800"}, ["Invalid JSON: "]),
    ({"content_digest": "xyz", "data_version": "", "collection/licence": "a\nb"}, [
        "content_digest: 'xyz' is not of the form ^[0-9a-f]{64}$ [wrong-form]",
        "data_version: must not be empty [empty-text]",
        "collection.licence: holds a line break [control-character]",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_every_wrong_field_is_named(
    build_once: Build, tmp_path: Path, changes: dict[str, Any], said: list[str]
) -> None:
    raw = json.loads((build_once("mini:500", "length") / "manifest.json").read_bytes())
    for place, value in changes.items():
        *parents, last = place.split("/")
        table = raw
        for part in parents:
            table = table[int(part) if part.isdigit() else part]
        if value is GONE:
            del table[last]
        else:
            table[last] = value
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(IntegrityError) as caught:
        read_manifest(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{path} was changed, or another version wrote it; put it back")
    for line in said:
        assert f"  {path}: {line}" in message


def test_what_is_no_object_or_nests_for_ever_is_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    for content, message in (
        ("[]", "has schema None"),
        ('{"schema": 99}', "has schema 99; this version reads 3"),
        ('{"schema": 2}', "has schema 2; this version reads 3: build .* again"),
        ("{", "is not JSON: Expecting"),
        ("[" * 100_000, "nested too deep"),
    ):
        path.write_text(content)
        with pytest.raises(IntegrityError, match=rf"manifest\.json .*{message}"):
            read_manifest(tmp_path)


def test_a_value_that_was_changed_is_told_by_the_checksum(build_copy: Build) -> None:
    """Another name, seed or version would pass into what is made from the data set."""
    folder = build_copy("mini:300", "length")
    manifest = read_manifest(folder)
    entry = manifest.configs["length-short"]["test"]
    assert (folder / entry.files[0].path).stat().st_size == entry.files[0].bytes
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"seed": ', '"seed": 1'))
    with pytest.raises(IntegrityError, match="was changed: its checksum is another; put it back"):
        read_manifest(folder)
    raw = json.loads(text)
    del raw[CHECKSUM]
    (folder / "manifest.json").write_text(json.dumps(raw))
    assert read_manifest(folder) == manifest  # An earlier version wrote none.


@pytest.mark.parametrize(
    ("name", "said"), [("x" * 201, "201 characters"), ("a\nb", "holds a line break")]
)
def test_a_collection_whose_name_no_manifest_can_hold(
    tsv_folder: WriteFolder, tmp_path: Path, name: str, said: str
) -> None:
    folder = tsv_folder().rename(tmp_path / name)
    with pytest.raises(UsageError, match=f"{said}.*; rename the folder"):
        build_dataset(folder, ["length"], tmp_path / "msshift")
    assert not (tmp_path / "msshift").exists()
