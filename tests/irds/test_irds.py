"""Every split of a built data set has an entry in ir_datasets."""

from __future__ import annotations

import html
import subprocess
import sys
from pathlib import Path
from typing import Any

import ir_datasets
import pyarrow as pa
import pytest

from msshift_bench import irds
from msshift_bench.data import (
    Dataset,
    load_dataset,
    load_triples,
    open_collection,
    open_dataset,
    read_manifest,
)
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import CollectionError, MissingExtraError, NotFoundError, UsageError
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, WriteFolder
from tests.support.run_files import write_test_set

TOY_QUERIES = "".join(f"q{i}\twhat is number {'x ' * (i % 4)}{i}\n" for i in range(40))
TOY_QRELS = "".join(f"q{i} 0 d{i % 2 + 1} 1\nq{i} 0 q1 {i % 2}\n" for i in range(40))


@pytest.fixture(scope="session")
def built(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture(autouse=True)
def _own_cache_and_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)
    monkeypatch.setattr(ir_datasets.registry, "_registered", dict(ir_datasets.registry._registered))


@pytest.fixture
def toy(tsv_folder: WriteFolder) -> Path:
    return tsv_folder(queries=TOY_QUERIES, qrels=TOY_QRELS)


@pytest.fixture
def built_from_toy(toy: Path) -> Path:
    build_dataset(toy, ["length"], toy.parent / "msshift")
    return toy.parent / "msshift"


def load(name: str) -> Any:
    return ir_datasets.load(f"msshift/{name}")


def registered() -> set[str]:
    return {name for name in ir_datasets.registry if name.startswith("msshift/")}


def register_toy(name: str, toy: Path, queries: str = TOY_QUERIES) -> Any:
    """Register a collection of ir_datasets' own with toy's passages."""
    (toy / "qrels.trec").write_text(TOY_QRELS)
    (toy / f"{name}.tsv").write_text(queries)
    source = ir_datasets.create_dataset(
        *(str(toy / file) for file in ("collection.tsv", f"{name}.tsv", "qrels.trec"))
    )
    ir_datasets.registry.register(name, source)
    return source


def test_nothing_is_registered_by_an_import() -> None:
    script = (
        "import msshift_bench, msshift_bench.irds, sys\n"
        "assert 'ir_datasets' not in sys.modules\n"
        "import ir_datasets\n"
        "assert not [name for name in ir_datasets.registry if name.startswith('msshift')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_experiment_has_an_id_and_registering_again_replaces(
    built: Path, built_from_toy: Path
) -> None:
    ids = irds.register(built)
    expected = {
        f"msshift/{shift}/{group}/{split}"
        for shift in ("length", "wh-words")
        for group in SHIFTS[shift].groups
        for split in ("train", "test", "validation")
    }
    expected |= {"msshift/length", "msshift/wh-words"}
    assert set(ids) == registered() == expected
    assert len(ids) == len(expected)
    assert irds.register(built) == ids
    irds.register(built_from_toy)
    assert registered() == {name for name in ids if name.startswith("msshift/length")}
    assert len(load("length").queries) == 40


@pytest.mark.parametrize("split", ["train", "test", "validation"])
def test_an_entry_holds_the_rows_of_its_config(built: Path, split: str) -> None:
    irds.register(built)
    rows = list(load_dataset(built, "wh-words-how", split=split))
    dataset = load(f"wh-words/how/{split}")
    assert [tuple(query) for query in dataset.queries_iter()] == [row[:2] for row in rows]
    assert list(dataset.qrels_iter()) == [
        (row.query_id, doc_id, 1, "0") for row in rows for doc_id in row.relevant_doc_ids
    ]
    assert dataset.qrels_defs().keys() == {1}
    assert len(dataset.queries) == dataset.queries_count() == len(rows)
    relevant = sum(len(row.relevant_doc_ids) for row in rows)
    assert len(dataset.qrels) == dataset.qrels_count() == relevant
    for store in (dataset.queries.lookup, dataset.queries_store().get):
        assert store(rows[3].query_id).default_text() == rows[3].text
        with pytest.raises(KeyError):
            store("no such query")
    assert dataset.qrels.asdict()[rows[3].query_id] == dict.fromkeys(rows[3].relevant_doc_ids, 1)
    assert not dataset.has_docpairs()
    assert not dataset.has_scoreddocs()


def test_a_whole_shift_names_group_and_split(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    irds.register(built)
    dataset = load("length")
    rows = load_dataset(built, "length", split="queries")
    splits = open_dataset(built).table("length", "queries")["split"].to_pylist()
    queries, qrels = list(dataset.queries_iter()), list(dataset.qrels_iter())
    assert [tuple(query) for query in queries] == [
        (*row[:3], split) for row, split in zip(rows, splits, strict=True)
    ]
    assert queries[0]._fields == ("query_id", "text", "group", "split")
    assert queries[0].default_text() == rows[0].text
    assert len(dataset.queries) == len(rows)

    # A query of two groups stands in it once.
    read = Dataset.table

    def twice(of: Dataset, config: str, split: str) -> pa.Table:
        table = read(of, config, split)
        again = table.set_column(2, "group", pa.array(["short"] * len(table)))
        return pa.concat_tables([table, again]).sort_by("query_id")

    monkeypatch.setattr(Dataset, "table", twice)
    assert [q.query_id for q in dataset.queries_iter()] == [q.query_id for q in queries]
    assert sorted(dataset.qrels_iter()) == sorted(qrels)
    assert dataset.queries_count() == len(queries)


def test_passages_of_the_generated_collection(
    built: Path, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSHIFT_COLLECTION", str(toy))  # It needs none.
    irds.register(built)
    dataset = load("length/short/test")
    passages = [tuple(passage) for passage in open_collection("mini:500").passages()]
    assert [tuple(doc) for doc in dataset.docs_iter()] == passages
    assert dataset.docs_count() == len(dataset.docs) == len(passages) == 500
    assert [tuple(doc) for doc in dataset.docs_iter()[10:13]] == passages[10:13]
    # From here on the passages come from the store.
    assert [tuple(doc) for doc in dataset.docs_iter()] == passages
    assert dataset.docs_iter()[-1].doc_id == passages[-1][0]
    store = dataset.docs_store()
    assert store.get(passages[7][0]) == passages[7]
    assert store.get_many(["3", "5"]).keys() == {"3", "5"}
    assert store.get_many(["300", "300000", "nothing"]).keys() == {"300"}
    with pytest.raises(KeyError):
        store.get("300000")
    assert dataset.docs.type._fields == ("doc_id", "text")
    assert ir_datasets.docs_parent_id("msshift/length/short/test") == "msshift/length"


def test_without_passages_everything_else_works(built_from_toy: Path) -> None:
    irds.register(built_from_toy)
    dataset = load("length/short/test")
    assert len(dataset.queries) == sum(1 for _ in dataset.queries_iter())
    assert len(dataset.qrels) == sum(1 for _ in dataset.qrels_iter())
    assert dataset.metadata()["docs"] == {}
    for ask in (dataset.docs_iter, dataset.docs_store, dataset.docs_count, dataset.docs.__len__):
        with pytest.raises(NotFoundError, match=r"'toy'.*MSSHIFT_COLLECTION=FOLDER"):
            next(iter(ask()))


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_passages_of_a_folder(
    built_from_toy: Path, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "variable":
        monkeypatch.setenv("MSSHIFT_COLLECTION", str(toy))
    collection = toy if by == "argument" else None
    irds.register(built_from_toy, collection)
    dataset = load("length/long/train")
    assert [doc.doc_id for doc in dataset.docs_iter()] == ["d1", "d2", "q1"]
    assert dataset.docs.lookup("d2").text == "another passage"
    # A collection that changes gets another store, and a store is whole or not there.
    stores = tmp_path / "cache" / "passages"
    before = len(list(stores.iterdir()))
    (toy / "collection.tsv").write_text("d1\tquite another text\nd2\tx\nq1\ty\n")
    irds.register(built_from_toy, collection)
    assert load("length").docs.lookup("d1").text == "quite another text"
    (toy / "collection.tsv").write_text("d1\tone passage\nd1\ttwice\n")
    irds.register(built_from_toy, collection)
    with pytest.raises(CollectionError, match="'d1' is repeated"):
        load("length").docs_store().get("d1")
    assert len(list(stores.iterdir())) == before + 1


def test_passages_of_another_collection_are_refused(built: Path, toy: Path) -> None:
    irds.register(built, toy)
    with pytest.raises(UsageError, match="mini:500"):
        load("length").docs_store()
    with pytest.raises(UsageError, match="'toy'"):
        next(iter(load("length").docs_iter()))
    with pytest.raises(NotFoundError, match="nowhere"):
        irds.register(built, toy / "nowhere")


def test_passages_of_a_data_set_of_ir_datasets(
    built: Path, built_from_toy: Path, toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = register_toy("toy-source", toy)
    register_toy("other-source", toy, TOY_QUERIES.replace("what", "who"))
    part = ir_datasets.Dataset(source.docs_handler())
    ir_datasets.registry.register("toy-source/passages", part)
    folder = tmp_path / "from-source"
    build_dataset("toy-source", ["length"], folder)

    irds.register(folder)
    dataset = load("length/short/test")
    assert not hasattr(dataset.docs_handler(), "queries_iter")
    assert list(dataset.docs_iter()) == list(source.docs_iter())
    assert dataset.docs_store().get("q1") == source.docs_store().get("q1")
    assert dataset.docs_cls() is source.docs_cls()
    assert dataset.docs_count() == dataset.metadata()["docs"].get("count", 3) == 3
    assert dataset.docs.lang is None
    assert not dataset.has_scoreddocs()
    irds.register(folder, "toy-source/passages")
    assert len(list(load("length").docs_iter())) == 3
    monkeypatch.setenv("MSSHIFT_COLLECTION", "other-source")
    irds.register(folder)
    assert len(list(load("length").docs_iter())) == 3

    # Those of another id are refused, once they are asked for.
    for data, collection, said in (
        (folder, "other-source", "'toy-source', but 'other-source' has other passages"),
        (built_from_toy, None, "queries of 'other-source' have"),
        (built, "toy-source", "queries of 'toy-source' have"),
    ):
        irds.register(data, collection)
        assert load("length").queries_count() > 0
        for name in ("docs_iter", "docs_store", "docs_count"):
            with pytest.raises(UsageError, match=said):
                next(iter(getattr(load("length"), name)()))


def test_training_triples_are_docpairs(build_copy: Build) -> None:
    folder = build_copy("mini:500", "length", "wh-words")
    add_triples(folder, "mini:500", shifts=["length"], count=2, depth=20)
    irds.register(folder)
    for name in ("length", "length/short/test", "length/short/validation"):
        assert not load(name).has_docpairs()
    dataset = load("length/short/train")
    triples = load_triples(folder, "length-short-triples")
    assert [tuple(pair) for pair in dataset.docpairs_iter()] == list(map(tuple, triples))
    assert dataset.docpairs_cls()._fields == ("query_id", "doc_id_a", "doc_id_b")
    pair = next(dataset.docpairs_iter())
    assert dataset.qrels.asdict()[pair.query_id][pair.doc_id_a] == 1
    assert pair.doc_id_b not in dataset.qrels.asdict()[pair.query_id]
    assert len(dataset.docpairs) == dataset.docpairs_count() == len(triples) > 0
    assert dataset.metadata()["docpairs"] == {"count": len(triples)}


def test_levels_of_relevance_are_named(tsv_folder: WriteFolder, tmp_path: Path) -> None:
    graded = tsv_folder(queries=TOY_QUERIES, qrels=TOY_QRELS.replace(" d1 1", " d1 3"))
    build_dataset(graded, ["length"], tmp_path / "graded")
    irds.register(tmp_path / "graded")
    dataset = load("length")
    counts = dataset.metadata()["qrels"]["fields"]["relevance"]["counts_by_value"]
    assert counts == {"1": 40, "3": 20}
    assert [words.split(",")[1] for words in dataset.qrels_defs().values()] == [
        f" at level {level}" for level in (1, 3)
    ]


def test_ids_alone_have_no_queries(toy: Path, tmp_path: Path) -> None:
    build_dataset(
        toy, ["length"], tmp_path / "ids", samples=SampleSizes(validation_size=0), texts=False
    )
    irds.register(tmp_path / "ids", toy)
    dataset = load("length/short/test")
    assert len(dataset.queries) == len({qrel.query_id for qrel in dataset.qrels_iter()})
    with pytest.raises(NotFoundError, match="msshift import"):
        next(iter(dataset.queries_iter()))


def test_the_documentation_says_what_it_is(built: Path) -> None:
    irds.register(built)
    manifest = read_manifest(built)
    for dataset_id in registered():
        page = ir_datasets.load(dataset_id).documentation()
        assert dataset_id.removeprefix("msshift/") in page["pretty_name"]
        for fact in (manifest.edition, manifest.data_version, manifest.content_digest, "mini:500"):
            assert fact in page["desc"]
        assert page["bibtex_ids"] == ["Lupart2023MsShift"]
        assert "{Lupart2023MsShift," in page["bibtex"]
    dataset = load("length")
    qrels = {"relevance": {"counts_by_value": {"1": dataset.qrels_count()}}}
    assert dataset.metadata() == {
        "docs": {"count": 500},
        "queries": {"count": dataset.queries_count()},
        "qrels": dataset.qrels_calc_metadata(verbose=False) | {"fields": qrels},
    }


def test_the_documentation_of_a_shift_by_size(tmp_path: Path) -> None:
    collection = open_collection("mini:300")
    judged = {f"t{key}": next(iter(ids)) for key, ids in list(collection.relevant.items())[:6]}
    write_test_set(tmp_path / "dl", {key: collection.queries[key[1:]] for key in judged}, judged)
    options = {"restrain": {"test_sets": [tmp_path / "dl"]}}
    build_dataset(collection, ["restrain-20"], tmp_path / "sized", options=options)
    irds.register(tmp_path / "sized")
    groups = read_manifest(tmp_path / "sized").describe_groups("restrain-20")
    assert groups.keys() == {"interpolation", "extrapolation"}
    for group, words in groups.items():
        for split, expected in (
            ("train", f", {group}: {words}."),
            ("test", f"a model that was trained on the {group} set."),
        ):
            desc = load(f"restrain-20/{group}/{split}").documentation()["desc"]
            assert html.unescape(desc).count(expected) == 1


def test_what_is_missing_is_named(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        irds.register(built.parent / "nowhere")
    monkeypatch.setenv("MSSHIFT_HOME", str(built))
    assert irds.register()
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingExtraError, match="'irds'"):
        irds.register(built)
