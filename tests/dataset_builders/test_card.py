"""The card as the libraries of the Hub read it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard, DatasetCardData

from msshift_bench.data.dataset import open_dataset
from msshift_bench.data.manifest import read_manifest
from msshift_bench.dataset_builders.cut import Samples
from msshift_bench.dataset_builders.describe import _topics_section
from msshift_bench.records import PLACES
from msshift_bench.shifts import SHIFTS, parse_config
from msshift_bench.stats import detectable_rel_loss
from tests.conftest import Build
from tests.support.forking import run_forked

SHIFTS_BUILT = ("topics", "wh-words", "length")
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "nano": {"samples": Samples(nano=True)},
    "ids": {"texts": False},
    "nano-ids": {"samples": Samples(nano=True), "texts": False},
}

# In a process of its own: the library reads its environment once, when it is imported.
LOAD_EVERYTHING = """
import datasets, hashlib, json, sys
found = {}
for config in datasets.get_dataset_config_names(sys.argv[1]):
    for split, rows in datasets.load_dataset(sys.argv[1], config).items():
        digest = hashlib.sha256(json.dumps(rows.to_list(), sort_keys=True).encode()).hexdigest()
        size = rows.info.splits[split].num_bytes
        found[f"{config}/{split}"] = [rows.column_names, len(rows), size, digest]
print(json.dumps(found))
"""


@pytest.fixture(scope="module", params=VARIANTS)
def built(request: pytest.FixtureRequest, build_once: Build) -> Path:
    return build_once("mini:500", *SHIFTS_BUILT, **VARIANTS[request.param])


@pytest.fixture
def card(built: Path) -> DatasetCard:
    return DatasetCard.load(built / "README.md")


@pytest.mark.slow
def test_datasets_loads_every_config_and_split(built: Path, tmp_path: Path) -> None:
    manifest = read_manifest(built)
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    done = run_forked(LOAD_EVERYTHING, ["-c", str(built)], tmp_path, environment)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    expected = {}
    for config, splits in manifest.configs.items():
        for split, entry in splits.items():
            rows = open_dataset(built).table(config, split).to_pylist()
            digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
            columns = ["query_id", "text", "group", "split", "relevant_doc_ids", "relevances"]
            if not manifest.texts:
                columns.remove("text")
            if parse_config(config)[1] is not None:
                columns.remove("split")
            expected[f"{config}/{split}"] = [columns, entry.rows, entry.arrow_bytes, digest]
    assert found == expected
    assert len(found) == sum(1 + 3 * len(SHIFTS[name].groups) for name in SHIFTS_BUILT)


def test_its_front_matter_names_every_file_and_count(built: Path, card: DatasetCard) -> None:
    manifest = read_manifest(built)
    assert isinstance(card.data, DatasetCardData)
    data = card.data.to_dict()
    of_the_hub = {key: data[key] for key in data if key not in ("configs", "dataset_info")}
    assert of_the_hub == {
        "license": "apache-2.0",
        "language": ["en"],
        "task_categories": ["text-retrieval"],
        "pretty_name": "MS-Shift",
    }
    assert [config["config_name"] for config in data["configs"]] == list(manifest.configs)
    for config in data["configs"]:
        files = {entry["split"]: entry["path"] for entry in config["data_files"]}
        entries = manifest.configs[config["config_name"]]
        assert files == {split: entry.files[0].path for split, entry in entries.items()}
    for info in data["dataset_info"]:
        entries = manifest.configs[info["config_name"]]
        assert {s["name"]: (s["num_examples"], s["num_bytes"]) for s in info["splits"]} == {
            split: (entry.rows, entry.arrow_bytes) for split, entry in entries.items()
        }
        assert info["download_size"] == sum(e.files[0].bytes for e in entries.values())
        assert info["dataset_size"] == sum(e.arrow_bytes for e in entries.values())
        for entry in entries.values():
            assert entry.digest in info["description"]


def test_its_tables_hold_the_manifest_s_counts(built: Path, card: DatasetCard) -> None:
    manifest = read_manifest(built)
    for name, facts in manifest.shifts.items():
        section = card.text.split(f"(`{name}`)\n")[1].split("\n### ")[0]
        cells = r"^\| (\S+) \|[^|]*" + r"\| (\d+) " * 4 + r"\| (\S+) \|$"
        rows = re.findall(cells, section, re.MULTILINE)
        assert {group: (*map(int, counts), found) for group, *counts, found in rows} == {
            group: (
                *(counts[place] for place in PLACES),
                f"{detectable_rel_loss(counts['test']):.1%}",
            )
            for group, counts in facts["rows"].items()
        }
        for group, counts in facts["rows"].items():
            assert counts["test"] == manifest.configs[f"{name}-{group}"]["test"].rows


def test_it_says_what_a_reader_must_know(built: Path, card: DatasetCard) -> None:
    manifest = read_manifest(built)
    assert manifest.content_digest in card.text
    assert f"data version {manifest.data_version}, edition `rebuilt`" in card.text
    assert "collection `mini:500` (text: raw)" in card.text
    assert "- `detects`: the smallest Rel Loss that a two-sided test at 5% finds" in card.text
    assert ("This copy holds ids only" in card.text) is not manifest.texts
    for heading in ("# MS-Shift", "## Load", "## What is in it", "## Origin", "## Licence"):
        assert f"\n{heading}" in f"\n{card.text}"


def test_line_breaks_of_queries_do_not_break_its_lists() -> None:
    found = {"terms": {"C0": ("fern",)}, "examples": {"C0": ("1", "2")}, "margins": {}}
    texts = {"1": "what is\r\n\n## Load", "2": "a  fern"}
    first = _topics_section(found, texts)[0]
    assert first == "- **C0**: fern. For example: what is  ## Load; a  fern"
