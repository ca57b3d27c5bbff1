from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_triples, open_dataset
from msshift_bench.data.manifest import DATA_VERSION, read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.describe import PUBLISHED, render_croissant
from msshift_bench.dataset_builders.provenance import TITLES
from msshift_bench.errors import IntegrityError

MINI = open_collection("mini:500")

pytestmark = [
    pytest.mark.slow,
    # What the library itself calls in rdflib and pandas; nothing of ours.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with triples, whose files are several to a split."""
    folder = tmp_path_factory.mktemp("built") / "msshift"
    build_dataset(MINI, ["length", "wh-words"], folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_SHARD_ROWS", 500)
        builder.add_triples(folder, MINI, shifts=["length"], count=3, depth=20)
    assert len(read_manifest(folder).configs["length-short-triples"]["train"].files) > 1
    return folder


def records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield a record set as mlcroissant reads it, values as strings."""

    def text(value: Any) -> Any:
        if isinstance(value, list):
            return [text(v) for v in value]
        return value.decode() if isinstance(value, bytes) else value

    for record in mlc.Dataset(str(folder / "croissant.json")).records(name):
        yield {key.removeprefix(f"{name}/"): text(value) for key, value in record.items()}


def test_mlcroissant_finds_nothing_to_say(
    built: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = mlc.Dataset(str(built / "croissant.json"))
    issues = dataset.metadata.ctx.issues
    assert (set(issues.errors), set(issues.warnings)) == (set(), set())
    assert caplog.text + capfd.readouterr().err == ""
    # The library reads the responsible-AI fields, and the card says the same.
    assert dataset.metadata.data_collection.startswith("A program of msshift-bench invented")
    said = json.loads((built / "croissant.json").read_bytes())
    fields = {key.removeprefix("rai:"): said[key] for key in said if key.startswith("rai:")}
    assert list(fields) == list(TITLES)
    card = (built / "README.md").read_text()
    for field, text in fields.items():
        assert f"- **{TITLES[field]}**: {text}\n" in card
        assert hasattr(mlc.Metadata, re.sub("(?=[A-Z])", "_", field).lower()), field
    assert verify_dataset(built)[1] == []


@pytest.mark.parametrize(
    ("config", "split"),
    [
        ("length-short", "train"),
        ("wh-words-how", "test"),
        ("wh-words-wha", "validation"),
        ("length", "queries"),
        ("length-short-triples", "train"),
    ],
)
def test_mlcroissant_reads_our_rows(built: Path, config: str, split: str) -> None:
    if config.endswith("-triples"):
        expected = [triple._asdict() for triple in load_triples(built, config)]
    else:
        expected = open_dataset(built).table(config, split).to_pylist()
    assert expected
    assert list(records(built, f"{config}/{split}")) == expected


def test_texts_are_left_out_where_the_rows_hold_none(tmp_path: Path) -> None:
    folder = tmp_path / "msshift"
    build_dataset(MINI, ["length"], folder, texts=False)
    rows = open_dataset(folder).table("length-long", "test").to_pylist()
    assert list(records(folder, "length-long/test")) == rows
    assert "text" not in rows[0]


def test_mlcroissant_refuses_what_was_changed_or_left_out(built: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(built, tmp_path / "msshift"))
    path = copy / "length-short" / "test.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(mlc.GenerationError, match=r"length-short/test\.parquet") as caught:
        list(records(copy, "length-short/test"))
    assert "is not identical with the reference" in str(caught.value.__cause__)
    raw = json.loads((built / "croissant.json").read_bytes())
    del raw["license"]
    (tmp_path / "croissant.json").write_text(json.dumps(raw))
    assert mlc.Dataset(str(tmp_path / "croissant.json")).metadata.ctx.issues.warnings
    del raw["distribution"][0]["sha256"]
    (tmp_path / "croissant.json").write_text(json.dumps(raw))
    with pytest.raises(mlc.ValidationError, match="sha256"):
        mlc.Dataset(str(tmp_path / "croissant.json"))
    manifest = replace(read_manifest(built), data_version="99.0.0")
    with pytest.raises(IntegrityError, match=r"data version 99\.0\.0 is not known"):
        render_croissant(manifest)


def test_every_split_and_file_is_described(built: Path) -> None:
    manifest = read_manifest(built)
    raw = json.loads((built / "croissant.json").read_bytes())
    assert raw == render_croissant(manifest)
    assert [record_set["@id"] for record_set in raw["recordSet"]] == [
        f"{config}/{split}" for config, splits in manifest.configs.items() for split in splits
    ]
    described = {
        node["contentUrl"]: (node["sha256"], node["contentSize"])
        for node in raw["distribution"]
        if node["@type"] == "cr:FileObject"
    }
    assert described == {
        file.path: (file.sha256, f"{file.bytes} B")
        for splits in manifest.configs.values()
        for entry in splits.values()
        for file in entry.files
    }
    assert (raw["version"], raw["datePublished"]) == (DATA_VERSION, PUBLISHED[DATA_VERSION])
