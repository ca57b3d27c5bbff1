"""Training triples: what is in them, how they are kept and written, and what cannot be."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from msshift_bench.cli import app
from msshift_bench.data import (
    Triple,
    TripleStream,
    load_dataset,
    load_triples,
    open_collection,
    read_manifest,
    triples as data_triples,
    verify_dataset,
)
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.negatives import sample_negatives
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import DataError, IntegrityError
from msshift_bench.search import Bm25, bm25
from tests.conftest import Build, WriteFolder
from tests.support.file_bytes import file_bytes
from tests.support.refusals import check_refusals
from tests.support.tsv_files import write_tsv_folder

MINI = open_collection("mini:300")
OPTIONS = {"count": 5, "depth": 20, "seed": 1}
SHORT = "length-short-triples"


@pytest.fixture(scope="session")
def bare(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def built(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(bare, tmp_path_factory.mktemp("built") / "msshift"))
    add_triples(folder, MINI, **OPTIONS)
    return folder


@pytest.fixture
def copy(build_copy: Build) -> Path:
    return build_copy("mini:300", "length", "wh-words")


# ---- what is in them ------------------------------------------------------------------------


def test_every_training_query_gives_as_many_triples_as_negatives(built: Path) -> None:
    index = Bm25(MINI.passages())
    for config in ("length-short", "length-long", "wh-words-wha", "wh-words-how", "wh-words-who"):
        rows = load_dataset(built, config, split="train")
        negatives = sample_negatives(index, list(rows), **OPTIONS)
        expected = [
            Triple(row.query_id, row.relevant_doc_ids[turn % len(row.relevant_doc_ids)], negative)
            for row, chosen in zip(rows, negatives, strict=True)
            for turn, negative in enumerate(chosen)
        ]
        assert list(load_triples(built, f"{config}-triples")) == expected
        assert len(expected) == 5 * len(rows)
        assert any(len(row.relevant_doc_ids) > 1 for row in rows)


def test_the_manifest_says_what_was_done(bare: Path, built: Path) -> None:
    manifest, findings = verify_dataset(built)
    assert findings == []
    assert manifest.content_digest == read_manifest(bare).content_digest
    for shift in ("length", "wh-words"):
        facts = manifest.shifts[shift]["triples"]
        assert (facts["negatives"], facts["seed"]) == (5, 1)
        assert facts["bm25"]["depth"] == 20
        assert facts["passages"]["rows"] == 300
    entry = manifest.configs[SHORT]["train"]
    lines = "".join("\t".join(t) + "\n" for t in load_triples(built, SHORT))
    assert entry.digest == hashlib.sha256(lines.encode()).hexdigest()
    assert [path.name for path in built.parent.iterdir()] == ["msshift"]
    # A stream of any width gives the same lines, to every reader anew.
    triples = load_triples(built, SHORT)
    rows = [row for batch in triples.batches(7) for row in batch.to_pylist()]
    assert [Triple(**row) for row in rows] == list(triples) == list(triples)
    assert max(len(batch) for batch in triples.batches(7)) == 7
    assert TripleStream(triples.files, len(triples)).digest() == triples.digest()


def test_the_datasets_library_streams_them(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    # It would import torch for seconds, and not use it.
    monkeypatch.setattr(datasets.config, "TORCH_AVAILABLE", False)
    config = "wh-words-how-triples"
    given: dict[str, Any] = {"split": "train", "streaming": True, "cache_dir": str(tmp_path)}
    rows = datasets.load_dataset(str(built), config, **given)
    assert [Triple(**row) for row in rows] == list(load_triples(built, config))


# ---- determinism ----------------------------------------------------------------------------


def test_same_bytes_whatever_the_order_and_the_threads(
    built: Path, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tsv_folder(tmp_path / "shuffled", MINI, shuffle=True)
    for threads in (1, 2):
        count = "msshift_bench.plumbing.threads.thread_count"
        monkeypatch.setattr(count, lambda threads=threads: threads)
        monkeypatch.setattr(bm25, "BATCH", 50 * threads)
        add_triples(copy, open_collection(tmp_path / "shuffled"), **OPTIONS)
        assert file_bytes(copy) == file_bytes(built)


def test_shifts_can_be_added_one_after_the_other_and_triples_be_replaced(
    built: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = add_triples(copy, MINI, shifts=["wh-words"], **OPTIONS)
    assert "triples" not in manifest.shifts["length"]
    assert SHORT not in manifest.configs
    assert verify_dataset(copy)[1] == []
    with monkeypatch.context() as patch:
        patch.setattr(builder, "_SHARD_ROWS", 300)
        patch.setattr(builder, "BLOCK_QUERIES", 37)
        manifest = add_triples(copy, MINI, shifts=["length"], **OPTIONS)
    entry = manifest.configs[SHORT]["train"]
    assert len(entry.files) == -(-entry.rows // 300) > 2
    assert {file.rows for file in entry.files[:-1]} == {300}
    assert entry.files[0].path == f"{SHORT}/train-00000-of-{len(entry.files):05}.parquet"
    assert verify_dataset(copy)[1] == []
    # How they are spread over files changes no row.
    assert entry.digest == read_manifest(built).configs[SHORT]["train"].digest
    add_triples(copy, MINI, shifts=["length"], **OPTIONS)
    assert file_bytes(copy) == file_bytes(built)


def test_a_data_set_of_ids_gets_the_same_triples(built: Path, tmp_path: Path) -> None:
    build_dataset(MINI, ["length"], tmp_path / "ids", texts=False)
    manifest = add_triples(tmp_path / "ids", MINI, **OPTIONS)
    for config in (SHORT, "length-long-triples"):
        assert manifest.configs[config] == read_manifest(built).configs[config]


# ---- what cannot be -------------------------------------------------------------------------


def halves(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(1), table.slice(0, 1)])


BYTES = "changed-bytes"


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda table: table.replace_schema_metadata({"another": "file"}), [BYTES]),
        (halves, [BYTES, "changed-rows"]),
        (lambda table: table.slice(1), [BYTES, "changed-count", "changed-rows"]),
        (None, ["missing-file"]),
    ],
)
def test_files_that_are_not_what_was_built_are_found(
    built: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table] | None, codes: list[str]
) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "msshift"))
    path = folder / SHORT / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    path.unlink()  # other copies may be links to the same file
    if change is not None:
        pq.write_table(change(table), path)
    found = [(finding.code, finding.source) for finding in verify_dataset(folder)[1]]
    assert found == [(code, str(path)) for code in codes]
    with pytest.raises(IntegrityError, match=r"was changed after the build|is missing"):
        load_triples(folder, SHORT)


def test_what_cannot_be_leaves_everything_as_it_was(
    built: Path, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_tsv_folder(tmp_path / "toy", MINI)
    (other / "collection.tsv").write_text("".join(f"{n}\tanother {n}\n" for n in range(300)))
    kept = Path(shutil.copytree(built, tmp_path / "kept"))
    before = file_bytes(tmp_path)

    def export(collection: str | Path) -> None:
        texts = open_collection(collection)
        data_triples.export_triples(kept, SHORT, tmp_path / "out.tsv", texts=texts)

    def keep_nothing(*arguments: Any) -> None:
        database: Connection = arguments[3]
        database.execute("CREATE TABLE passages (doc_id TEXT, text TEXT)")

    def export_nothing() -> None:
        monkeypatch.setattr(data_triples, "_store_passages", keep_nothing)
        export("mini:300")

    refusals = {
        "UsageError 'mini:300' 'mini:301' msshift": partial(
            add_triples, copy, open_collection("mini:301")
        ),
        "UnknownNameError 'topics' msshift": partial(add_triples, copy, MINI, shifts=["topics"]),
        "no negatives: UsageError 0 1": partial(add_triples, copy, MINI, count=0),
        "no depth: UsageError 0 1": partial(add_triples, copy, MINI, depth=0),
        "DataError '0' 300": partial(add_triples, copy, MINI, count=300),
        "NotFoundError none build": partial(add_triples, copy / "none", MINI),
        "UnknownNameError 'length-short'": partial(load_triples, built, "length-short"),
        "UnknownNameError 'length-short-triples'": partial(load_triples, copy, SHORT),
        "UsageError length-short-triples load_triples": partial(load_dataset, built, SHORT),
        "UsageError 'mini:300' 'mini:40' kept": partial(export, "mini:40"),
        "UsageError 'toy' kept": partial(export, other),
        "DataError '10'": export_nothing,
    }
    check_refusals(refusals)
    assert file_bytes(tmp_path) == before


@pytest.mark.parametrize(("step", "missing"), [(1, "length-long"), (2, "length-short")])
def test_queries_without_a_passage_at_hand_give_none(
    tsv_folder: WriteFolder, step: int, missing: str
) -> None:
    queries = [f"q{i}\tis thing{i}{' in a long query' * (i % 2)}\n" for i in range(48)]
    passages = [f"d{i}\tthing{i} and others\n" for i in range(0, 40 if step == 1 else 48, step)]
    judged = "".join(f"q{i} 0 d{i} 1\nq{i} 0 absent{i} 1\n" for i in range(48))
    files = {"collection": "".join(passages), "queries": "".join(queries), "qrels": judged}
    collection = open_collection(tsv_folder(**files))
    folder = Path(str(collection.address)) / "msshift"
    build_dataset(collection, ["length"], folder)
    before = (folder / "manifest.json").read_bytes()
    if step == 2:  # no passage of a long query is there, which the config of short trains on
        with pytest.raises(DataError, match=rf"relevant to a training query of {missing};"):
            add_triples(folder, collection, count=3, depth=10)
        assert (folder / "manifest.json").read_bytes() == before
        return
    manifest = add_triples(folder, collection, count=3, depth=10)
    triples = list(load_triples(folder, f"{missing}-triples"))
    rows = load_dataset(folder, missing, split="train")
    expected = {row.query_id for row in rows if int(row.query_id[1:]) < 40}
    assert {triple.query_id for triple in triples} == expected
    assert len(expected) < len(rows)
    assert all(triple.positive_id.startswith("d") for triple in triples)
    assert manifest.configs[f"{missing}-triples"]["train"].rows == 3 * len(expected)


# ---- TSV ------------------------------------------------------------------------------------


def test_tsv_holds_ids_with_the_digest_of_the_split_or_texts(built: Path, tmp_path: Path) -> None:
    entry = read_manifest(built).configs[SHORT]["train"]
    for name, opened in (("t.tsv", Path.open), ("t.tsv.gz", gzip.open), ("a.tsv.gz", gzip.open)):
        count = data_triples.export_triples(built, SHORT, tmp_path / name)
        with opened(tmp_path / name, "rb") as file:
            content = file.read()
        assert count == content.count(b"\n") == entry.rows
        assert hashlib.sha256(content).hexdigest() == entry.digest
    assert (tmp_path / "a.tsv.gz").read_bytes() == (tmp_path / "t.tsv.gz").read_bytes()
    data_triples.export_triples(built, SHORT, tmp_path / "t.tsv", texts=MINI)
    queries, passages = MINI.queries, dict(MINI.passages())
    lines = [tuple(line.split("\t")) for line in (tmp_path / "t.tsv").read_text().splitlines()]
    assert lines == [
        (queries[t.query_id], passages[t.positive_id], passages[t.negative_id])
        for t in load_triples(built, SHORT)
    ]


def test_texts_of_repeated_passages_are_refused(
    tsv_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [f"q{i}\tis thing{i}{' in a long query' * (i % 2)}\n" for i in range(48)]
    passages = [f"d{i}\tthing{i} and others\n" for i in range(48)]
    judged = "".join(f"q{i} 0 d{i} 1\n" for i in range(48))
    collection = open_collection(
        tsv_folder(collection="".join(passages), queries="".join(queries), qrels=judged)
    )
    folder = Path(str(collection.address))
    build_dataset(collection, ["length"], folder / "msshift")
    add_triples(folder / "msshift", collection, count=3, depth=10)
    (folder / "collection.tsv").write_text("".join([*passages, "d1\tanother\n"]))
    out, texts = folder / "out.tsv", open_collection(folder)
    export = partial(data_triples.export_triples, folder / "msshift", SHORT, out, texts=texts)
    check_refusals({"CollectionError [repeated-id] collection.tsv:49 'd1'": export})
    # Not every collection checks its doc_ids.
    monkeypatch.setattr(texts, "passages", lambda: chain(MINI.passages(), MINI.passages()))
    check_refusals({"CollectionError 600 300 unique": export})
    assert not out.exists()


def test_texts_cannot_break_lines(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    passages = [{"_id": f"d{i}", "text": f"a\tpassage\r\nof thing{i}"} for i in range(30)]
    asked = [f"what is\nthing{i}{' in a long query' * (i % 2)}" for i in range(30)]
    queries = [{"_id": f"q{i}", "text": text} for i, text in enumerate(asked)]
    for name, records in (("corpus", passages), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(30))
    (folder / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    collection = open_collection(folder)
    for name, kept in (("full", True), ("ids", False)):
        build_dataset(collection, ["length"], tmp_path / name, texts=kept)
        add_triples(tmp_path / name, collection, count=2, depth=5)
        out = tmp_path / f"{name}.tsv"
        data_triples.export_triples(tmp_path / name, "length-long-triples", out, texts=collection)
        written = [line.split("\t") for line in out.read_text().splitlines()]
        assert len(written) == len(load_triples(tmp_path / name, "length-long-triples"))
        for query, positive, _ in written:
            assert query.startswith("what is thing")
            assert positive.startswith("a passage  of thing")
    assert (tmp_path / "full.tsv").read_bytes() == (tmp_path / "ids.tsv").read_bytes()


# ---- the command ----------------------------------------------------------------------------


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_command(built: Path, copy: Path, tmp_path: Path) -> None:
    done = run("triples", copy, "--negatives", 5, "--depth", 20, "--seed", 1, "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[SHORT]["rows"] == len(load_triples(built, SHORT))
    assert file_bytes(copy) == file_bytes(built)
    done = run("triples", copy, "--shift", "length", "--collection", "mini:300")
    assert done.exit_code == 0, done.output
    assert "length-long-triples" in done.stdout
    out = tmp_path / "out.tsv"
    count = len(load_triples(built, "length-long-triples"))
    for options in ([], ["--text"]):
        done = run("export", "length-long-triples", out, "--data", built, *options)
        assert done.exit_code == 0, done.output
        assert f"{count} triples" in done.stderr
        assert out.read_text().count("\n") == count
