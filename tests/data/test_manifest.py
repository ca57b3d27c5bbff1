"""A manifest that was changed by hand, or by another version, says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import read_manifest
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.plumbing import CHECKSUM
from tests.conftest import Build, WriteFolder


def rename(table: dict[str, Any], old: str, new: str) -> None:
    table[new] = table.pop(old)


def split(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["configs"]["length-short"]["test"]
    return found


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], list[str]]] = {
    "a key of a split": (
        lambda raw: rename(split(raw), "digest", "digset"),
        [
            "configs.length-short.test.digset: there is no such field; did you mean 'digest'? "
            "[unknown-field]",
            "configs.length-short.test.digest: is missing [missing-field]",
        ],
    ),
    "a key of a file": (
        lambda raw: split(raw)["files"][0].pop("sha256"),
        ["configs.length-short.test.files[0].sha256: is missing [missing-field]"],
    ),
    "a key of the whole": (
        lambda raw: rename(raw, "edition", "editon"),
        [
            "editon: there is no such field; did you mean 'edition'? [unknown-field]",
            "edition: is missing [missing-field]",
        ],
    ),
    "values": (
        lambda raw: (split(raw).update(rows="many", files=None), raw.update(texts=1)),
        [
            "texts: expected true or false, found a number [wrong-type]",
            "configs.length-short.test.files: must not be empty [missing-field]",
            "configs.length-short.test.rows: expected a whole number, found a text [wrong-type]",
        ],
    ),
    "a split that is no object": (
        lambda raw: raw["configs"]["length-short"].update(test=[]),
        ["configs.length-short.test: expected an object, found a list [wrong-type]"],
    ),
    "facts on a shift": (
        lambda raw: (
            raw["shifts"]["length"]["rows"].update(short={"train": -1}),
            raw["shifts"]["length"].pop("balanced"),
            raw["shifts"].update(lenght={}),
        ),
        [
            "shifts.length.rows.short.train: Input should be greater than or equal to 0 (found -1) "
            "[out-of-range]",
            "shifts.length.balanced: is missing [missing-field]",
            "shifts.lenght: unknown shift 'lenght'; did you mean 'length'? [unknown-shift]",
        ],
    ),
    "the collection": (
        lambda raw: (raw["collection"].pop("name"), raw["collection"].update(mine=1)),
        ["collection.name: is missing [missing-field]"],
    ),
}


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG)
def test_every_wrong_field_is_named(
    build_once: Build,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    said: list[str],
) -> None:
    raw = json.loads((build_once("mini:500", "length") / "manifest.json").read_bytes())
    change(raw)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(IntegrityError) as caught:
        read_manifest(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{path} was changed, or another version wrote it; put it back")
    for line in said:
        assert f"  {path}: {line}" in message
    assert "__init__" not in message


def test_what_is_no_object_or_nests_for_ever_is_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    for content, message in (("[]", "has schema None"), ("[" * 100_000, "nested too deep")):
        path.write_text(content)
        with pytest.raises(IntegrityError, match=rf"manifest\.json .*{message}"):
            read_manifest(tmp_path)


def test_a_manifest_comes_back_as_it_was_written(build_once: Build) -> None:
    folder = build_once("mini:500", "length")
    manifest = read_manifest(folder)
    entry = manifest.configs["length-short"]["test"]
    assert isinstance(entry.files, tuple)
    assert (folder / entry.files[0].path).stat().st_size == entry.files[0].bytes


def test_a_value_that_was_changed_is_told_by_the_checksum(
    build_copy: Build, tmp_path: Path
) -> None:
    """Another name, seed or version would pass into what is made from the data set."""
    path = build_copy("mini:300", "length") / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"seed": ', '"seed": 1'))
    with pytest.raises(IntegrityError, match="was changed: its checksum is another; put it back"):
        read_manifest(tmp_path / "msshift")
    raw = json.loads(text)
    del raw[CHECKSUM]
    path.write_text(json.dumps(raw))
    assert read_manifest(tmp_path / "msshift").texts  # An earlier version wrote none.


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
