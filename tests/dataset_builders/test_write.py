"""Data sets that are changed: texts put back, files linked, and what stands beside them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.data import (
    Collection,
    Dataset,
    Manifest,
    load_dataset,
    open_collection,
    read_manifest,
    verify_dataset,
)
from msshift_bench.dataset_builders import triples as builder, write
from msshift_bench.dataset_builders.audit import add_split_leakage
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.dataset_builders.write import hydrate_dataset
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.plumbing import reporting
from tests.conftest import Build
from tests.support.file_bytes import file_bytes
from tests.support.refusals import check_refusals
from tests.support.tsv_files import qrel_lines, query_lines

NAME = "mini:500"
SHIFTS = ["topics", "wh-words", "length"]
MINI = open_collection(NAME)


@pytest.fixture
def copy(build_copy: Build) -> Path:
    return build_copy(NAME, *SHIFTS, texts=False)


def collection_with(folder: Path, queries: Mapping[str, str]) -> Collection:
    """Write a collection with the judgements of MINI, for these queries."""
    folder.mkdir()
    judged = {query_id: of for query_id, of in MINI.qrels.items() if query_id in queries}
    (folder / "collection.tsv").write_text("1\ta passage\n")
    (folder / "queries.tsv").write_text("".join(query_lines(queries)))
    (folder / "qrels.tsv").write_text("".join(qrel_lines(judged)))
    return open_collection(folder)


@pytest.mark.extended
def test_hydrated_is_byte_for_byte_what_a_build_with_texts_is(
    copy: Path, build_once: Build
) -> None:
    query = next(iter(MINI.queries.values())).encode()
    assert not any(query in data for data in file_bytes(copy).values())
    assert {row.text for row in load_dataset(copy, "topics-C2", split="test")} == {""}
    assert verify_dataset(copy)[1] == []
    whole = build_once(NAME, *SHIFTS)
    told: list[tuple[str, int, int]] = []
    with reporting(lambda *args: told.append(args)):
        manifest = hydrate_dataset(copy, MINI)
    assert manifest == read_manifest(whole)
    assert file_bytes(copy) == file_bytes(whole)
    assert verify_dataset(copy)[1] == []
    splits = sum(map(len, manifest.configs.values()))
    assert told == [("splits", number, splits) for number in range(1, splits + 1)]


def test_a_data_set_with_its_texts_is_left_alone(copy: Path) -> None:
    manifest = hydrate_dataset(copy, MINI)

    def written() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in copy.rglob("*")}

    before = written()
    # A collection that holds none of the queries is not even looked at.
    assert hydrate_dataset(copy, open_collection("mini:10")) == manifest
    assert written() == before


def test_another_process_may_put_the_texts_back_first(
    copy: Path, build_once: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    amend = write.amend_dataset

    def late(dataset: Dataset, change: Callable[[Path, Manifest], Manifest]) -> Manifest:
        monkeypatch.setattr(write, "amend_dataset", amend)
        hydrate_dataset(copy, MINI)
        return amend(dataset, change)

    monkeypatch.setattr(write, "amend_dataset", late)
    hydrate_dataset(copy, MINI)
    assert file_bytes(copy) == file_bytes(build_once(NAME, *SHIFTS))


def test_other_queries_and_texts_are_refused(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = load_dataset(copy, "length-short", split="test")[0].query_id
    queries = {**MINI.queries, changed: f"{MINI.queries[changed]}?"}
    other = collection_with(tmp_path / "other", queries)
    smaller = collection_with(tmp_path / "smaller", dict(sorted(MINI.queries.items())[7:]))
    before = file_bytes(tmp_path)

    def hydrate_repaired() -> None:
        monkeypatch.setattr(other, "text_variant", "repaired")
        hydrate_dataset(copy, other)

    refusals = {
        "NotFoundError nothing": partial(hydrate_dataset, copy / "nothing", MINI),
        "DataError msshift 7 750": partial(hydrate_dataset, copy, smaller),
        "another text: DataError [changed-texts] queries train": partial(
            hydrate_dataset, copy, other
        ),
        "repaired texts: DataError [changed-texts] queries train": hydrate_repaired,
    }
    check_refusals(refusals)
    assert file_bytes(tmp_path) == before


def test_triples_stay_as_they_are_and_changed_files_too(copy: Path) -> None:
    builder.add_triples(copy, MINI, shifts=["length"], count=2, depth=10)
    before = read_manifest(copy).configs["length-short-triples"]
    path = copy / "length-short" / "test.parquet"
    content = path.read_bytes()
    path.write_bytes(content + b"x")
    with pytest.raises(IntegrityError, match="was changed after the build"):
        hydrate_dataset(copy, MINI)
    assert not read_manifest(copy).texts
    path.write_bytes(content)
    assert hydrate_dataset(copy, MINI).configs["length-short-triples"] == before
    assert verify_dataset(copy)[1] == []


def test_the_command(copy: Path) -> None:
    for options, said in (
        (["--format", "json"], f"{copy} has its texts now (content "),
        (["--collection", NAME], "has its texts already; nothing was changed"),
    ):
        done = CliRunner().invoke(app, ["import", str(copy), *options])
        assert done.exit_code == 0
        assert said in done.stderr
        assert not done.stdout or json.loads(done.stdout)["texts"] is True


SMALL = "mini:300"
SMALLER = open_collection(SMALL)

AMENDING: dict[str, Callable[[Path], Manifest]] = {
    "hydrate": lambda folder: hydrate_dataset(folder, SMALLER),
    "triples": lambda folder: add_triples(folder, SMALLER, count=1, depth=5),
    "leakage": lambda folder: add_split_leakage(folder),
}


@pytest.mark.parametrize("what", AMENDING)
def test_what_stands_beside_a_data_set_becomes_no_part_of_it(
    build_copy: Build, tmp_path: Path, what: str
) -> None:
    folder = build_copy(SMALL, "length", texts=what != "hydrate")
    (folder / "own").mkdir()
    (folder / "own" / "own.run").write_text("q Q0 d 1 1 own\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "own.run").touch()
    (folder / "runs").symlink_to("../runs")
    manifest = AMENDING[what](folder)
    assert manifest == read_manifest(folder)
    assert sorted(manifest.files) == ["README.md", "croissant.json"]
    found = [(finding.code, finding.source) for finding in verify_dataset(folder)[1]]
    assert ("extra-file", str(folder / "own" / "own.run")) in found
    assert (folder / "own" / "own.run").read_text() == "q Q0 d 1 1 own\n"
    assert [path.name for path in (folder / "runs").iterdir()] == ["own.run"]
    (folder / "own" / "own.run").unlink()
    with pytest.raises(UsageError, match=r"also holds (other files \(runs\)|training tri)"):
        build_dataset(SMALLER, ["length"], folder)


@pytest.mark.parametrize("what", AMENDING)
def test_a_data_set_of_links_becomes_one_of_files(
    build_copy: Build, tmp_path: Path, what: str
) -> None:
    """huggingface_hub's cache keeps a download as links to its blobs."""
    folder = build_copy(SMALL, "length", texts=what != "hydrate")
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
    folder = build_copy(SMALL, "length")
    link = os.link

    def refuse(source: str, target: Path) -> None:
        if ".triples" in str(source):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, str(target))
        link(source, target)

    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "msshift").symlink_to(folder)
    monkeypatch.setattr(os, "link", refuse)
    add_triples(tmp_path / "here" / "msshift", SMALLER, count=1, depth=5)
    assert verify_dataset(folder)[1] == []
    assert list((tmp_path / "here").iterdir()) == [tmp_path / "here" / "msshift"]


@pytest.mark.parametrize(
    ("what", "done"), [("leakage", "test queries were compared"), ("triples", "triples were made")]
)
def test_what_was_made_of_an_earlier_build_is_not_put_into_a_later_one(
    build_copy: Build, what: str, done: str
) -> None:
    folder = build_copy(SMALL, "length")

    def rebuild(stage: str, done: int, total: int) -> None:
        if "length-long" in stage and read_manifest(folder).parameters["seed"] == 0:
            with reporting(None):
                build_dataset(SMALLER, ["length"], folder, samples=SampleSizes(seed=1))

    with reporting(rebuild), pytest.raises(UsageError, match=f"was rebuilt while its {done}"):
        AMENDING[what](folder)
    assert read_manifest(folder).shifts["length"].keys().isdisjoint(("near_duplicates", "triples"))
    assert verify_dataset(folder)[1] == []
