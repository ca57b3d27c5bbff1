"""What describes a data set: its card, its metadata as Croissant, and whose terms it carries."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard, DatasetCardData

from msshift_bench.data import load_triples, open_collection, open_dataset, verify_dataset
from msshift_bench.data.manifest import DATA_VERSION, Manifest, read_manifest
from msshift_bench.dataset_builders import describe, provenance, triples as builder
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.topics import replay_topics
from msshift_bench.dataset_builders.write import hydrate_dataset
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.libraries import Library
from msshift_bench.mini.generator import qrels, queries
from msshift_bench.records import PLACES
from msshift_bench.shifts import SHIFTS, parse_config
from msshift_bench.stats import detectable_rel_loss
from tests.conftest import Build, Command, WriteFolder
from tests.support.command_line import run_python
from tests.support.hub_server.client import client_environment

pytestmark = [
    # What mlcroissant itself calls in rdflib and pandas; nothing of ours.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]

# ---- the card as the libraries of the Hub read it -------------------------------------------

SHIFTS_BUILT = ("topics", "length")
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "nano-ids": {"samples": SampleSizes(nano=True), "texts": False},
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


@pytest.mark.extended
def test_datasets_loads_every_config_and_split(built: Path, tmp_path: Path) -> None:
    manifest = read_manifest(built)
    environment = client_environment(tmp_path, None)
    done = run_python(LOAD_EVERYTHING, tmp_path, environment, [built])
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


@pytest.mark.extended
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
        assert files == {split: [f.path for f in e.files] for split, e in entries.items()}
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


def test_it_holds_digest_version_collection_and_licence(built: Path, card: DatasetCard) -> None:
    manifest = read_manifest(built)
    for fact in (manifest.content_digest, manifest.data_version, "`rebuilt`", "`mini:500`"):
        assert fact in card.text
    assert ("holds ids only" in card.text) is not manifest.texts
    assert "MS MARCO" not in before_the_citation(card)
    # A data set from before says what is known.
    older = {name: value for name, value in manifest.collection.items() if name != "licence"}
    assert provenance.licence_of(replace(manifest, collection=older)) == "apache-2.0"


def test_groups_are_named_that_are_too_small_to_show_a_loss() -> None:
    counts = {"short": {"test": 6000}, "long": {"test": 60}}
    _, said = describe.explain_detectable({"length": {"rows": counts}}, "detects")
    assert said.endswith("test queries): length long")
    counts["long"] = counts["short"]
    assert len(describe.explain_detectable({"length": {"rows": counts}}, "detects")) == 1


def test_line_breaks_of_queries_do_not_break_its_lists() -> None:
    found = {"terms": {"C0": ("fern",)}, "examples": {"C0": ("1", "2")}, "margins": {}}
    texts = {"1": "what is\r\n\n## Load", "2": "a  fern"}
    first = describe._topics_section(found, texts)[0]
    assert first == "- **C0**: fern. For example: what is  ## Load; a  fern"


# ---- Croissant ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with triples, whose files are several to a split."""
    folder = tmp_path_factory.mktemp("built") / "msshift"
    build_dataset("mini:500", ["length", "wh-words"], folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_SHARD_ROWS", 500)
        builder.add_triples(folder, "mini:500", shifts=["length"], count=3, depth=20)
    assert len(read_manifest(folder).configs["length-short-triples"]["train"].files) > 1
    return folder


mlc: Any = Library("mlcroissant", "dev")


@cache
def described_to_mlcroissant(path: str) -> Any:
    """Return a description as mlcroissant reads it."""
    return mlc.Dataset(path)


def records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield a record set as mlcroissant reads it, values as strings."""

    def text(value: Any) -> Any:
        if isinstance(value, list):
            return [text(v) for v in value]
        return value.decode() if isinstance(value, bytes) else value

    for record in described_to_mlcroissant(str(folder / "croissant.json")).records(name):
        yield {key.removeprefix(f"{name}/"): text(value) for key, value in record.items()}


@pytest.mark.extended
def test_mlcroissant_finds_nothing_to_say(
    with_triples: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = mlc.Dataset(str(with_triples / "croissant.json"))
    issues = dataset.metadata.ctx.issues
    assert (set(issues.errors), set(issues.warnings)) == (set(), set())
    assert caplog.text + capfd.readouterr().err == ""
    # The library reads the responsible-AI fields, and the card says the same.
    assert dataset.metadata.data_collection.startswith("A program of msshift-bench invented")
    said = json.loads((with_triples / "croissant.json").read_bytes())
    fields = {key.removeprefix("rai:"): said[key] for key in said if key.startswith("rai:")}
    assert list(fields) == list(provenance.TITLES)
    card = (with_triples / "README.md").read_text()
    for field, text in fields.items():
        assert f"- **{provenance.TITLES[field]}**: {text}\n" in card
        assert hasattr(mlc.Metadata, re.sub("(?=[A-Z])", "_", field).lower()), field
    assert verify_dataset(with_triples)[1] == []


@pytest.mark.parametrize(
    "place",
    ["length-short/train", "wh-words-how/test", "wh-words-wha/validation", "length/queries",
     "length-short-triples/train", "ids/length-long/test"],
)  # fmt: skip
@pytest.mark.extended
def test_mlcroissant_reads_our_rows(with_triples: Path, build_once: Build, place: str) -> None:
    folder, config, split = with_triples, *place.split("/")[-2:]
    if place.startswith("ids/"):
        folder = build_once("mini:300", "length", texts=False)
    if config.endswith("-triples"):
        expected = [triple._asdict() for triple in load_triples(folder, config)]
    else:
        expected = open_dataset(folder).table(config, split).to_pylist()
    assert expected
    assert list(records(folder, f"{config}/{split}")) == expected


@pytest.mark.extended
def test_every_split_and_file_is_described(with_triples: Path) -> None:
    manifest = read_manifest(with_triples)
    with pytest.raises(IntegrityError, match=r"99\.0\.0"):
        describe.render_croissant(replace(manifest, data_version="99.0.0"))
    raw = json.loads((with_triples / "croissant.json").read_bytes())
    assert raw == describe.render_croissant(manifest)
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
    assert (raw["version"], raw["datePublished"]) == (
        DATA_VERSION,
        describe.PUBLISHED[DATA_VERSION],
    )


# ---- the licence ----------------------------------------------------------------------------

MS_MARCO_TERMS = ("MS MARCO", "non-commercial", "CC BY-NC-SA", "cc-by-nc-sa")
OWN = 'Ask the archive, room 7: "no copies"'


@pytest.fixture
def foreign(tsv_folder: WriteFolder) -> Path:
    """A collection of one's own, which happens to hold mini's queries."""
    judged = (f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels(300))
    return tsv_folder(
        "archive",
        queries="".join(f"{one.query_id}\t{one.text}\n" for one in queries(300)),
        qrels="".join(judged),
    )


def before_the_citation(card: DatasetCard) -> str:
    """The card without the title of the paper, which names MS MARCO."""
    return str(card.text.partition("```bibtex")[0])


@pytest.mark.parametrize(
    ("told", "licence", "front", "address"),
    [
        (None, "unknown", {"license": "unknown"}, "unknown"),
        ("CC BY 4.0", "cc-by-4.0", {"license": "cc-by-4.0"}, provenance.LICENCES["cc-by-4.0"]),
        (OWN, OWN, {"license": "other", "license_name": OWN}, OWN),
    ],
    ids=["unsaid", "id", "text"],
)
def test_a_collection_of_one_s_own_carries_its_own_terms(
    foreign: Path,
    msshift: Command,
    tmp_path: Path,
    told: str | None,
    licence: str,
    front: dict[str, str],
    address: str,
) -> None:
    given = [] if told is None else ["--licence", told]
    done = msshift("build", "length", "--collection", foreign, *given)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "msshift"
    assert read_manifest(built).collection["licence"] == licence
    card = DatasetCard.load(built / "README.md")
    data = card.data.to_dict()
    assert {name: data[name] for name in data if name.startswith("license")} == front
    assert (licence if told else "is unknown") in card.text
    assert json.loads((built / "croissant.json").read_bytes())["license"] == address
    issues = mlc.Dataset(str(built / "croissant.json")).metadata.ctx.issues
    assert (set(issues.errors), set(issues.warnings)) == (set(), set())
    for file in ("README.md", "croissant.json", "manifest.json"):
        for term in MS_MARCO_TERMS[1:]:
            assert term not in (built / file).read_text(encoding="utf-8")
    assert MS_MARCO_TERMS[0] not in before_the_citation(card)


def test_what_is_added_to_a_data_set_leaves_its_licence(foreign: Path, tmp_path: Path) -> None:
    opened = open_collection(foreign)
    folder = tmp_path / "msshift"
    given: Any = {"licence": OWN, "texts": False, "options": {"topics": {"encoder": "terms"}}}
    build_dataset(opened, ["topics", "length"], folder, **given)
    assert provenance.licence_of(hydrate_dataset(folder, opened)) == OWN
    again, differing = replay_topics(folder, opened, tmp_path / "again")
    assert (provenance.licence_of(again), differing) == (OWN, [])


@pytest.mark.parametrize(
    ("layout", "name", "edition", "theirs"),
    [
        ("ir_datasets", "msmarco-passage/train", "rebuilt", True),
        ("ir_datasets", "beir/msmarco/train", "rebuilt", True),
        ("ir_datasets", "mmarco/de/train", "rebuilt", True),
        ("ir_datasets", "neumarco/fa/train", "rebuilt", True),
        ("tsv", "my-copy", "official-2022", True),
        ("ir_datasets", "beir/nfcorpus/train", "rebuilt", False),
        ("ir_datasets", "my-msmarco", "rebuilt", False),
        ("ir_datasets", "antique/train", "rebuilt", False),
        # A folder says nothing by its name.
        ("tsv", "msmarco-passage", "rebuilt", False),
        ("beir", "msmarco-passage", "rebuilt", False),
    ],
)
def test_what_came_from_ms_marco_carries_its_terms(
    layout: str, name: str, edition: str, theirs: bool
) -> None:
    collection = {"name": name, "layout": layout, "text": "raw"}
    manifest = Manifest("2.0.0", edition, "", True, collection, {}, {}, {}, {}, {})
    assert provenance.licence_of(manifest) == ("cc-by-nc-sa-4.0" if theirs else "unknown")
    for term in MS_MARCO_TERMS[:3]:
        assert (term in provenance.licence_terms(manifest)) is theirs


@pytest.mark.parametrize("told", ["", "  ", "two\nlines", "x" * 201])
def test_a_licence_is_a_line(told: str) -> None:
    with pytest.raises(UsageError, match="200"):
        provenance.decide_licence({"name": "mine", "layout": "tsv"}, told)
