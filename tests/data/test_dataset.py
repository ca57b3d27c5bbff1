from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import SplitRows, load_dataset, locate, open_dataset
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.manifest import read_manifest
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.errors import (
    DataError,
    IntegrityError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.plumbing import with_checksum
from msshift_bench.records import OTHERS
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, WriteFolder
from tests.support.official_checkout import write_checkout


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "msshift"))


def load(folder: Path, config: str, split: str) -> SplitRows:
    return load_dataset(folder, config, split=split)


def test_a_config_holds_its_group_out(built: Path) -> None:
    for shift in ("length", "wh-words"):
        groups = set(SHIFTS[shift].groups)
        for config, held_out in SHIFTS[shift].configs.items():
            assert {row.group for row in load(built, config, "train")} == groups - {held_out}
            assert {row.group for row in load(built, config, "test")} == {held_out}
            assert {row.group for row in load(built, config, "validation")} <= groups | {OTHERS}


def test_no_query_is_trained_on_and_tested(built: Path) -> None:
    for shift in ("length", "wh-words"):
        tested = {
            row.query_id for config in SHIFTS[shift].configs for row in load(built, config, "test")
        }
        for config in SHIFTS[shift].configs:
            for split in ("train", "validation"):
                assert not tested & {row.query_id for row in load(built, config, split)}


def test_all_shifts_share_the_validation_queries(built: Path) -> None:
    ids = {
        tuple(row.query_id for row in load(built, config, "validation"))
        for shift in ("length", "wh-words")
        for config in SHIFTS[shift].configs
    }
    assert len(ids) == 1


def test_the_whole_shift_has_its_splits(built: Path) -> None:
    table = load(built, "length", "queries").table
    counts = read_manifest(built).shifts["length"]["rows"]
    splits = table["split"].to_pylist()
    for split in ("train", "test"):
        assert splits.count(split) == sum(counts[group][split] for group in counts)


def test_rows_are_a_sequence(built: Path) -> None:
    rows = load(built, "length-short", "test")
    everything = list(rows)
    assert rows[0] == everything[0]
    assert rows[-1] == everything[-1]
    assert list(rows[2:5]) == everything[2:5]
    assert len(rows) == len(everything)
    with pytest.raises(IndexError):
        rows[len(rows)]


def test_names_are_checked(built: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'length-short'"):
        load_dataset(built, "length-shrt")
    with pytest.raises(UnknownNameError, match="split of length-short 'dev'"):
        load_dataset(built, "length-short", split="dev")
    with pytest.raises(UnknownNameError, match="'topics'"):
        open_dataset(built).test_sets(SHIFTS["topics"])


def test_an_open_data_set_is_not_opened_again(copy: Path) -> None:
    dataset = open_dataset(str(copy))
    (copy / "manifest.json").rename(copy.with_name("aside"))
    assert open_dataset(dataset) is dataset
    assert repr(dataset).startswith(f"<Dataset {copy}: length, wh-words of mini:500")
    assert list(load_dataset(dataset, "length-short")) == ["train", "validation", "test"]
    tests = dataset.test_sets(SHIFTS["length"])
    assert {group: {row.group for row in rows} for group, rows in tests.items()} == {
        "short": {"short"},
        "long": {"long"},
    }
    assert dataset.info.training["length"].queries.keys() == tests.keys()
    with pytest.raises(NotFoundError, match="no built data set"):
        open_dataset(copy)


def test_the_collection_it_was_built_from_is_told_by_its_queries(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(copy)
    mini = open_collection("mini:500")
    digests: list[object] = []
    once = ContentDigest.of
    monkeypatch.setattr(ContentDigest, "of", lambda rows: digests.append(rows) or once(rows))
    dataset.check_built_from(mini)
    dataset.check_built_from(mini)
    assert digests == [mini.queries]
    with pytest.raises(UsageError, match="was built from the collection 'mini:500' with the q"):
        dataset.check_built_from(open_collection("mini:400"))


def test_an_import_without_a_collection_reads_the_queries_of_none(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path / "checkout")
    import_official([checkout], tmp_path / "msshift", shifts=["topics"])
    # It has passages alone, which is what the test queries are searched in.
    open_dataset(tmp_path / "msshift").check_built_from(open_collection("msmarco-passage"))


def test_where_the_data_set_is_looked_for(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MSSHIFT_HOME", raising=False)
    with pytest.raises(NotFoundError, match="make one with 'msshift build'"):
        load_dataset("msshift", "length-short")
    monkeypatch.setenv("MSSHIFT_HOME", str(built))
    assert locate() == built
    load_dataset("msshift", "length-short")
    monkeypatch.delenv("MSSHIFT_HOME")
    monkeypatch.chdir(built.parent)
    load_dataset("msshift", "length-short")


@pytest.mark.slow
def test_the_datasets_library_reads_the_same_rows(built: Path, tmp_path: Path) -> None:
    # In a process of its own: the library reads its environment once, when it is imported.
    script = (
        "import datasets, json\n"
        "d = datasets.load_dataset('msshift', 'length-short')\n"
        "print(json.dumps([d.num_rows, list(d['test'])[:3]]))\n"
        "print(json.dumps(datasets.get_dataset_config_names('msshift')))\n"
    )
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=built.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    import json

    first, second = map(json.loads, done.stdout.splitlines())
    splits = load_dataset(built, "length-short")
    assert first[0] == {split: len(rows) for split, rows in dict(splits).items()}
    expected = [row._asdict() for row in load(built, "length-short", "test")[:3]]
    lists = ("relevant_doc_ids", "relevances")
    assert first[1] == [{**row, **{name: list(row[name]) for name in lists}} for row in expected]
    assert set(second) == set(read_manifest(built).configs)


@pytest.mark.slow
def test_the_datasets_library_sees_a_rebuild(tmp_path: Path) -> None:
    import datasets

    def first_query(seed: int) -> str:
        build_dataset(open_collection("mini:500"), ["length"], tmp_path / "msshift", seed=seed)
        loaded = datasets.load_dataset(
            str(tmp_path / "msshift"), "length-short", cache_dir=str(tmp_path / "cache")
        )
        return str(loaded["test"]["query_id"][:20])

    assert first_query(0) != first_query(1)


def test_verify_finds_nothing_wrong_with_a_build(built: Path) -> None:
    assert verify_dataset(built)[1] == []


def test_verify_names_what_differs(copy: Path) -> None:
    flipped = copy / "length-short" / "test.parquet"
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    (copy / "length-long" / "test.parquet").unlink()
    other = copy / "wh-words-how" / "train.parquet"
    pq.write_table(pq.read_table(other).slice(1), other)
    (copy / "notes.txt").write_text("mine")
    (copy / "README.md").write_text("changed")
    found = {(Path(f.source).relative_to(copy).as_posix(), f.code) for f in verify_dataset(copy)[1]}
    assert ("length-short/test.parquet", "changed-bytes") in found
    assert ("length-long/test.parquet", "missing-file") in found
    assert {("wh-words-how/train.parquet", c) for c in ("changed-count", "changed-rows")} <= found
    assert ("notes.txt", "extra-file") in found
    assert ("README.md", "changed-card") in found
    assert not {source for source, _ in found} & {"length-short/train.parquet", "manifest.json"}


def test_a_changed_file_is_not_loaded(copy: Path) -> None:
    path = copy / "length-short" / "test.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(IntegrityError, match="has changed since it was built"):
        load_dataset(copy, "length-short")
    path.unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        load_dataset(copy, "length-short")
    load_dataset(copy, "length-long")


def test_a_broken_manifest_is_named(copy: Path) -> None:
    path = copy / "manifest.json"
    original = path.read_text()
    for broken in ("{", "[]", '{"schema": 99}', original.replace('"edition"', '"editon"')):
        path.write_text(broken)
        with pytest.raises(IntegrityError, match=r"manifest\.json"):
            read_manifest(copy)


def test_other_things_are_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "msshift"
    target.mkdir()
    (target / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="not a data set built by msshift"):
        build_dataset(open_collection("mini:500"), ["length"], target)
    assert (target / "thesis.tex").read_text() == "precious"


def test_a_rebuild_does_not_lose_shifts(copy: Path) -> None:
    collection = open_collection("mini:500")
    with pytest.raises(UsageError, match="also holds wh-words"):
        build_dataset(collection, ["length"], copy)
    build_dataset(collection, ["length"], copy, overwrite=True)
    assert set(read_manifest(copy).shifts) == {"length"}
    assert verify_dataset(copy)[1] == []


def test_a_rebuild_does_not_lose_what_lies_beside_the_data(copy: Path) -> None:
    collection, shifts = open_collection("mini:500"), ["length", "wh-words"]
    run = copy / "bm25" / "length.run"
    run.parent.mkdir()
    (copy / ".DS_Store").touch()
    build_dataset(collection, shifts, copy)
    run.parent.mkdir()
    run.write_text("precious")
    with pytest.raises(UsageError, match=r"also holds bm25/length\.run, which no build wrote"):
        build_dataset(collection, shifts, copy)
    (copy / "notes.txt").write_text("precious, too")
    with pytest.raises(UsageError, match=r"bm25/length\.run and 1 more, which"):
        build_dataset(collection, shifts, copy)
    assert run.read_text() == "precious"
    build_dataset(collection, shifts, copy, overwrite=True)
    assert verify_dataset(copy)[1] == []


def test_a_rebuild_does_not_replace_another_collection_s_data_set(copy: Path) -> None:
    collection = open_collection("mini:400")
    said = "is built from 'mini:500', and this build is from 'mini:400'; choose another --out"
    with pytest.raises(UsageError, match=said):
        build_dataset(collection, ["length", "wh-words"], copy)
    assert read_manifest(copy).collection["name"] == "mini:500"
    build_dataset(collection, ["length", "wh-words"], copy, overwrite=True)
    assert read_manifest(copy).collection["name"] == "mini:400"


def test_a_rebuild_does_not_lose_triples(copy: Path) -> None:
    collection = open_collection("mini:500")
    path = copy / "manifest.json"
    text = path.read_text().replace('"wh-words-who":', '"length-short-triples":')
    path.write_text(json.dumps(with_checksum(json.loads(text))))
    with pytest.raises(UsageError, match=r"training triples \(length-short-triples\)"):
        build_dataset(collection, ["length", "wh-words"], copy)
    build_dataset(collection, ["length", "wh-words"], copy, overwrite=True)
    assert "length-short-triples" not in read_manifest(copy).configs


def test_a_shift_that_a_collection_cannot_make_is_left_out(tsv_folder: WriteFolder) -> None:
    folder = tsv_folder(
        queries="".join(f"q{i}\twas kostet Haus {i}\n" for i in range(40)),
        qrels="".join(f"q{i} 0 d1 1\n" for i in range(40)),
    )
    with pytest.raises(DataError, match=r"'wha' \(.*definition.*\) has 0 .*build topics length'"):
        build_dataset(open_collection(folder), ["wh-words"], folder / "built")


def test_only_queries_with_a_relevant_passage_take_part(tsv_folder: WriteFolder) -> None:
    texts = [f"q{i}\twhat is number {'x ' * (i % 4)}{i}" for i in range(40)]
    folder = tsv_folder(
        queries="\n".join(texts) + "\n",
        qrels="".join(f"q{i} 0 d{i % 2 + 1} {int(i < 30)}\n" for i in range(40)),
    )
    manifest = build_dataset(open_collection(folder), ["length"], folder.parent / "msshift")
    assert manifest.collection["queries_without_relevant_passage"] == 10
    rows = manifest.shifts["length"]["rows"]
    assert sum(count for group in rows.values() for count in group.values()) == 30


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_manifest_of_another_program_makes_no_data_set(tmp_path: Path, overwrite: bool) -> None:
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"manifest_version": 3, "name": "an extension"}')
    (folder / "code.js").write_text("//")
    with pytest.raises(UsageError, match="not a data set built by msshift"):
        build_dataset("mini:300", ["length"], folder, overwrite=overwrite)
    assert (folder / "code.js").exists()


def test_requests_that_make_no_sense(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    collection = open_collection("mini:500")
    with pytest.raises(UsageError, match="options are given for wh-words"):
        build_dataset(
            collection, ["length"], tmp_path / "x", options={"wh-words": {"rule": "word"}}
        )
    with pytest.raises(UsageError, match="give restrain's, not restrain-9's"):
        build_dataset(
            collection,
            ["restrain-9"],
            tmp_path / "x",
            options={"restrain": {"test_sets": ["dl19"]}, "restrain-9": {"rule": "nearest"}},
        )
    with pytest.raises(DataError, match="no query of toy has a relevant passage"):
        build_dataset(open_collection(tsv_folder(qrels="q1 0 d1 0\n")), ["length"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
