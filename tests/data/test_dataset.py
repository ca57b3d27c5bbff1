"""Built data sets: what is in them, where they are found, and that damage is seen."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import datasets
import pytest

from msshift_bench import data, errors
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.dataset_builders.cut import SampleSizes, cut_table
from msshift_bench.dataset_builders.write import hydrate_dataset
from msshift_bench.plumbing import with_checksum
from msshift_bench.records import OTHERS, Row
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, WriteFolder
from tests.support.file_bytes import file_bytes
from tests.support.official_checkout import write_checkout

ROWS = [
    Row("1", 'what is a "gondola"', "wha", ("d1", "d2"), (1, 3)),
    Row("2", "tab\t, newline\n, NUL\0, DEL\x7f, back\\slash, slash/", "how", (), ()),
    Row("3", "caf\N{LATIN SMALL LETTER E WITH ACUTE} \u2028 \U0001f6f6", "who", ("é",), (2,)),
    Row("4", "", "others", ("",), (1,)),
]


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture
def copy(build_copy: Build) -> Path:
    return build_copy("mini:500", "length", "wh-words")


def load(folder: Path, config: str, split: str) -> list[Row]:
    return data.load_dataset(folder, config, split=split)


@pytest.mark.parametrize("shift", ["length", "wh-words"])
def test_a_config_holds_its_group_out(built: Path, shift: str) -> None:
    groups, configs = set(SHIFTS[shift].groups), SHIFTS[shift].configs
    tested = {row.query_id for config in configs for row in load(built, config, "test")}
    for config, held_out in configs.items():
        rows = data.load_dataset(built, config)
        assert {row.group for row in rows["train"]} == groups - {held_out}
        assert {row.group for row in rows["test"]} == {held_out}
        assert {row.group for row in rows["validation"]} <= groups | {OTHERS}
        for split in ("train", "validation"):
            assert not tested & {row.query_id for row in rows[split]}
        # All shifts share the validation queries.
        shared = load(built, "length-short", "validation")
        assert [row.query_id for row in rows["validation"]] == [row.query_id for row in shared]


def test_names_are_checked(built: Path) -> None:
    dataset = data.open_dataset(built)
    for ask, said in (
        (lambda: data.load_dataset(built, "length-shrt"), "did you mean 'length-short'"),
        (lambda: load(built, "length-short", "dev"), "split of length-short 'dev'"),
        (lambda: dataset.test_sets(SHIFTS["topics"]), "'topics'"),
        (lambda: dataset.triples("length-short-triples"), "config of triples 'length-short-tr"),
    ):
        with pytest.raises(errors.UnknownNameError, match=said):
            ask()


def test_an_open_data_set_is_not_opened_again(copy: Path) -> None:
    dataset = data.open_dataset(str(copy))
    (copy / "manifest.json").rename(copy.with_name("aside"))
    assert data.open_dataset(dataset) is dataset
    assert repr(dataset).startswith(f"<Dataset {copy}: length, wh-words of mini:500")
    assert list(data.load_dataset(dataset, "length-short")) == ["train", "validation", "test"]
    tests = dataset.test_sets(SHIFTS["length"])
    groups = {group: {row.group for row in rows} for group, rows in tests.items()}
    assert groups == {"short": {"short"}, "long": {"long"}}
    assert dataset.info.training["length"]["queries"].keys() == tests.keys()
    with pytest.raises(errors.NotFoundError, match="build"):
        data.open_dataset(copy)


def test_the_collection_it_was_built_from(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, mini = data.open_dataset(copy), data.open_collection("mini:500")
    digests: list[object] = []
    once = data.ContentDigest.of
    monkeypatch.setattr(data.ContentDigest, "of", lambda rows: digests.append(rows) or once(rows))
    dataset.check_built_from(mini)
    dataset.check_built_from(mini)
    assert digests == [mini.queries.items()]
    with pytest.raises(errors.UsageError, match=r"'mini:500'.*'mini:400'"):
        dataset.check_built_from(data.open_collection("mini:400"))
    assert data.open_source(dataset, None).name == "mini:500"
    # An import without a collection reads the queries of none: msmarco-passage has passages alone,
    # which is what the test queries are searched in.
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)
    import_official([write_checkout(tmp_path / "checkout")], tmp_path / "rel", shifts=["topics"])
    release = data.open_dataset(tmp_path / "rel")
    release.check_built_from(data.open_collection("msmarco-passage"))
    with pytest.raises(errors.UsageError, match="--collection"):
        data.open_source(release, None)


def test_the_folder_that_a_build_read_is_found_again(
    tsv_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    queries = "".join(f"q{i}\twhat is {'x ' * (i % 4)}{i}\n" for i in range(40))
    given = {"queries": queries, "qrels": "".join(f"q{i} 0 d1 1\n" for i in range(40))}
    toys = [tsv_folder("a/toy", **given), tsv_folder("b/toy", collection="d1\tone\n", **given)]
    datasets = []
    for number, toy in enumerate(toys):
        folder = tmp_path / f"msshift-{number}"
        build_dataset(toy, ["length"], folder, licence="cc-by-4.0", texts=number == 0)
        datasets.append(data.open_dataset(folder))
        assert str(tmp_path) not in (folder / "manifest.json").read_text("utf-8")
    # Both have the same name and queries, and other passages.
    assert [data.open_source(one, None).address for one in datasets] == [*map(str, toys)]
    monkeypatch.setenv("MSSHIFT_COLLECTION", str(toys[0]))
    assert data.open_source(datasets[1], None).address == str(toys[0])
    monkeypatch.setenv("MSSHIFT_COLLECTION", "")
    moved = toys[1].rename(tmp_path / "moved")
    with pytest.raises(errors.UsageError, match=rf"'toy', but .*{toys[1]} .* --collection"):
        data.open_source(datasets[1], None)
    # Texts that are put back from its new place are from there.
    hydrate_dataset(datasets[1], moved)
    assert data.open_source(datasets[1], None).address == str(moved)
    # A cache that cannot be written, or was emptied, is as if nothing had been noted.
    monkeypatch.setenv("MSSHIFT_CACHE", str(toys[0] / "queries.tsv"))
    build_dataset(toys[0], ["length"], tmp_path / "again", licence="cc-by-4.0")
    with pytest.raises(errors.UsageError, match=r"built from 'toy'; give .* --coll"):
        data.open_source(data.open_dataset(tmp_path / "again"), None)


def test_where_the_data_set_is_looked_for(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MSSHIFT_HOME", raising=False)
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(errors.NotFoundError, match="msshift build"):
        data.load_dataset("msshift", "length-short")
    installed = shutil.copytree(built, tmp_path / "cache" / "data" / "msshift")
    assert data.find_dataset_folder() == installed
    monkeypatch.setenv("MSSHIFT_HOME", str(built))
    assert data.find_dataset_folder() == built
    monkeypatch.delenv("MSSHIFT_HOME")
    monkeypatch.chdir(built.parent)
    assert data.find_dataset_folder() == Path("msshift")
    data.load_dataset("msshift", "length-short")


def test_the_datasets_library_sees_a_rebuild(tmp_path: Path) -> None:
    def first_query(seed: int) -> str:
        folder, cache = tmp_path / "msshift", str(tmp_path / "cache")
        build_dataset("mini:500", ["length"], folder, samples=SampleSizes(seed=seed))
        loaded = datasets.load_dataset(str(folder), "length-short", cache_dir=cache)
        return str(loaded["test"]["query_id"][:20])

    assert first_query(0) != first_query(1)


def test_a_file_that_was_changed_or_lost_is_not_read(copy: Path) -> None:
    (copy / "length-short" / "test.parquet").write_bytes(b"no Parquet file")
    (copy / "length-long" / "test.parquet").unlink()
    for config, words in (("length-short", "was changed"), ("length-long", "is missing")):
        with pytest.raises(errors.IntegrityError, match=words):
            load(copy, config, "test")
    data.load_dataset(copy, "wh-words-who")
    found = {
        (Path(f.source).relative_to(copy).as_posix(), f.code) for f in data.verify_dataset(copy)[1]
    }
    unread = ("changed-bytes", "unreadable")
    expected = {("length-short/test.parquet", code) for code in unread}
    assert found == expected | {("length-long/test.parquet", "missing-file")}


def add_files(copy: Path, names: list[str]) -> None:
    (copy / ".DS_Store").touch()
    (copy / "bm25").mkdir()
    for name in names:
        (copy / name).write_text("precious")


RUN = "bm25/length.run"
BOTH = ["length", "wh-words"]


def add_triples(copy: Path) -> None:
    path = copy / "manifest.json"
    text = path.read_text().replace('"wh-words-who":', '"length-short-triples":')
    path.write_text(json.dumps(with_checksum(json.loads(text))))


def test_a_rebuild_of_the_same_replaces_it(copy: Path) -> None:
    before = file_bytes(copy)
    build_dataset("mini:500", BOTH, copy)
    assert file_bytes(copy) == before


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("change", "collection", "shifts", "said"),
    [
        (Path.exists, "mini:500", ["length"], "also holds wh-words"),
        (partial(add_files, names=[RUN]), "mini:500", BOTH, r"length\.run\), which this build"),
        (partial(add_files, names=[RUN, "a.txt"]), "mini:500", BOTH, r"a\.txt and 1 more\), which"),
        (add_triples, "mini:500", BOTH, r"triples \(length-short-triples\)"),
        (Path.exists, "mini:400", BOTH, "'mini:500', .* is from 'mini:400'; choose another --out"),
    ],
)
def test_a_rebuild_loses_nothing_unless_it_is_to_overwrite(
    copy: Path, change: Callable[[Path], object], collection: str, shifts: list[str], said: str
) -> None:
    change(copy)
    before = file_bytes(copy)
    with pytest.raises(errors.UsageError, match=said):
        build_dataset(collection, shifts, copy)
    assert file_bytes(copy) == before
    build_dataset(collection, shifts, copy, overwrite=True)
    manifest, findings = data.verify_dataset(copy)
    assert (list(manifest.shifts), manifest.collection["name"]) == (shifts, collection)
    assert findings == []


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["manifest.json", "thesis.tex"])
def test_other_things_are_not_replaced(tmp_path: Path, name: str, overwrite: bool) -> None:
    """Other programs have files of the manifest's name, too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text('{"manifest_version": 3, "name": "an extension"}')
    with pytest.raises(errors.UsageError, match=re.escape(str(tmp_path / "mine"))):
        build_dataset("mini:300", ["length"], tmp_path / "mine", overwrite=overwrite)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [name]


def test_only_queries_with_a_relevant_passage_take_part(
    tsv_folder: WriteFolder, tmp_path: Path
) -> None:
    folder = tsv_folder(
        queries="".join(f"q{i}\twhat is number {'x ' * (i % 4)}{i}\n" for i in range(40)),
        qrels="".join(f"q{i} 0 d{i % 2 + 1} {int(i < 30)}\n" for i in range(40)),
    )
    manifest = build_dataset(data.open_collection(folder), ["length"], folder.parent / "msshift")
    assert manifest.collection["queries_without_relevant_passage"] == 10
    rows = manifest.shifts["length"]["rows"]
    assert sum(count for group in rows.values() for count in group.values()) == 30
    (folder / "qrels.tsv").write_text("q1 0 d1 0\n")
    with pytest.raises(errors.DataError, match="toy"):
        build_dataset(folder, ["length"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_canonical_form_of_a_row_is_json() -> None:
    def reference(rows: list[tuple[object, ...]]) -> str:
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()

    splits = ["train", "test", "test", "validation"]
    by_split: dict[str, list[Row]] = {}
    for row, split in zip(ROWS, splits, strict=True):
        by_split.setdefault(split, []).append(row)
    table = cut_table(by_split)
    assert data.rows_digest(table.drop_columns("split")) == reference(list(ROWS))
    with_splits: list[tuple[object, ...]] = [(*r, s) for r, s in zip(ROWS, splits, strict=True)]
    assert data.rows_digest(table) == reference(with_splits)
