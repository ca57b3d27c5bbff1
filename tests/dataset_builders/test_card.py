"""The card as the libraries of the Hub read it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard, DatasetCardData

from msshift_bench.data import load_dataset, read_manifest
from msshift_bench.dataset_builders.describe import _topics_section
from msshift_bench.records import PLACES
from msshift_bench.shifts import SHIFTS, parse_config
from msshift_bench.stats import detectable_rel_loss
from tests.conftest import Build
from tests.support.forking import run_forked
from tests.support.hub_server.client import client_environment

SHIFTS_BUILT = ("topics", "wh-words", "length")
VARIANTS: dict[str, dict[str, bool]] = {
    "full": {},
    "nano": {"nano": True},
    "ids": {"texts": False},
    "nano-ids": {"nano": True, "texts": False},
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
    done = run_forked(
        LOAD_EVERYTHING, ["-c", str(built)], tmp_path, client_environment(tmp_path, None)
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    expected = {}
    for config, splits in manifest.configs.items():
        for split, entry in splits.items():
            rows = list(load_dataset(built, config, split=split).table.to_pylist())
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
    told = ("license", "language", "task_categories", "pretty_name")
    values = ["apache-2.0", ["en"], ["text-retrieval"], "MS-Shift"]
    assert [data.pop(name) for name in told] == values
    assert data.keys() == {"configs", "dataset_info"}
    assert [config["config_name"] for config in data["configs"]] == list(manifest.configs)
    for config in data["configs"]:
        files = {entry["split"]: entry["path"] for entry in config["data_files"]}
        entries = manifest.configs[config["config_name"]]
        assert files == {split: entry.files[0].path for split, entry in entries.items()}
    # The library checks the counts of rows and bytes as it loads them.
    for info in data["dataset_info"]:
        entries = manifest.configs[info["config_name"]].values()
        assert info["download_size"] == sum(entry.files[0].bytes for entry in entries)
        assert info["dataset_size"] == sum(entry.arrow_bytes for entry in entries)
        assert all(entry.digest in info["description"] for entry in entries)


def test_its_tables_hold_the_manifest_s_counts(built: Path, card: DatasetCard) -> None:
    manifest = read_manifest(built)
    for name, facts in manifest.shifts.items():
        section = card.text.split(f"(`{name}`)\n")[1].split("\n### ")[0]
        cells = r"^\| (\S+) \|[^|]*" + r"\| (\d+) " * 4 + r"\| (\S+) \|$"
        rows = re.findall(cells, section, re.MULTILINE)
        printed = {group: (*map(int, counts), found) for group, *counts, found in rows}
        assert printed.keys() == facts["rows"].keys()
        for group, counts in facts["rows"].items():
            detected = f"{detectable_rel_loss(counts['test']):.1%}"
            assert printed[group] == (*(counts[place] for place in PLACES), detected)
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
