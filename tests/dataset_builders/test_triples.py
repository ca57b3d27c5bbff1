from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from msshift_bench.cli import triples as command
from msshift_bench.data import triples_export
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset, load_triples
from msshift_bench.data.manifest import Manifest, read_manifest
from msshift_bench.data.triples import Triple, TripleStream
from msshift_bench.data.verification import verify_dataset
from msshift_bench.dataset_builders import triples as builder
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.negatives import sample_negatives
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import (
    DataError,
    IntegrityError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.search import bm25
from msshift_bench.search.bm25 import Bm25
from tests.conftest import Build, WriteFolder
from tests.support.file_bytes import file_bytes

MINI = open_collection("mini:300")
OPTIONS = {"count": 5, "depth": 20, "seed": 1}


@pytest.fixture(scope="session")
def bare(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def built(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(bare, tmp_path_factory.mktemp("built") / "msshift"))
    add_triples(folder, MINI, **OPTIONS)
    return folder


@pytest.fixture
def copy(bare: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bare, tmp_path / "msshift"))


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
        triples = load_triples(built, f"{config}-triples")
        assert list(triples) == expected
        assert len(triples) == 5 * len(rows)
        positives = {row.query_id: set(row.relevant_doc_ids) for row in rows}
        assert not any(t.negative_id in positives[t.query_id] for t in triples)
        assert {(t.query_id, t.positive_id) for t in triples} == {
            (query_id, doc_id) for query_id, doc_ids in positives.items() for doc_id in doc_ids
        }
    assert any(len(doc_ids) > 1 for doc_ids in positives.values())


def test_the_manifest_says_what_was_done(bare: Path, built: Path) -> None:
    manifest, findings = verify_dataset(built)
    assert findings == []
    assert manifest.content_digest == read_manifest(bare).content_digest
    for shift in ("length", "wh-words"):
        facts = manifest.shifts[shift]["triples"]
        assert (facts["negatives"], facts["seed"]) == (5, 1)
        assert facts["bm25"]["depth"] == 20
        assert facts["passages"]["rows"] == 300
    entry = manifest.configs["length-short-triples"]["train"]
    lines = "".join("\t".join(t) + "\n" for t in load_triples(built, "length-short-triples"))
    assert entry.digest == hashlib.sha256(lines.encode()).hexdigest()
    assert [path.name for path in built.parent.iterdir()] == ["msshift"]


def test_a_stream_of_any_width_gives_the_same_lines(built: Path) -> None:
    triples = load_triples(built, "length-long-triples")
    rows = [row for batch in triples.batches(7) for row in batch.to_pylist()]
    assert [Triple(**row) for row in rows] == list(triples)
    assert max(len(batch) for batch in triples.batches(7)) == 7


@pytest.mark.slow
def test_the_datasets_library_reads_them(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    expected = list(load_triples(built, "wh-words-how-triples"))
    for streaming in (False, True):
        rows = datasets.load_dataset(
            str(built),
            "wh-words-how-triples",
            split="train",
            streaming=streaming,
            cache_dir=str(tmp_path),
        )
        assert [Triple(**row) for row in rows] == expected


def test_queries_without_a_passage_at_hand_give_none(tsv_folder: WriteFolder) -> None:
    names = ["what", "how", "who"]
    queries = [f"q{i}\t{names[i % 3]} is thing{i}{' in a long query' * (i % 2)}" for i in range(48)]
    collection = open_collection(
        tsv_folder(
            collection="".join(f"d{i}\tthing{i} and others\n" for i in range(40)),
            queries="\n".join(queries) + "\n",
            qrels="".join(f"q{i} 0 d{i} 1\nq{i} 0 absent{i} 1\n" for i in range(48)),
        )
    )
    folder = Path(collection.collection_file).parent / "msshift"  # type: ignore[attr-defined]
    build_dataset(collection, ["length"], folder)
    manifest = add_triples(folder, collection, count=3, depth=10)
    triples = list(load_triples(folder, "length-long-triples"))
    rows = load_dataset(folder, "length-long", split="train")
    expected = {row.query_id for row in rows if int(row.query_id[1:]) < 40}
    assert {triple.query_id for triple in triples} == expected
    assert len(expected) < len(rows)
    assert all(triple.positive_id.startswith("d") for triple in triples)
    assert manifest.configs["length-long-triples"]["train"].rows == 3 * len(expected)


# ---- determinism ----------------------------------------------------------------------------


@pytest.mark.slow
def test_same_bytes_whatever_the_order_and_the_threads(
    bare: Path, built: Path, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {
        "collection": [f"{p.doc_id}\t{p.text}" for p in MINI.passages()],
        "queries": [f"{q.query_id}\t{q.text}" for q in MINI.queries],
        "qrels": [f"{q.query_id}\t0\t{q.doc_id}\t{q.relevance}" for q in MINI.qrels],
    }
    (tmp_path / "shuffled").mkdir()
    for name, lines in tables.items():
        lines.sort(key=lambda line: hashlib.md5(line.encode()).digest())
        (tmp_path / "shuffled" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    for threads in (1, 2):
        monkeypatch.setattr(
            "msshift_bench.plumbing.batching.thread_count", lambda threads=threads: threads
        )
        monkeypatch.setattr(bm25, "BATCH", 50 * threads)
        add_triples(copy, open_collection(tmp_path / "shuffled"), **OPTIONS)
        assert file_bytes(copy) == file_bytes(built)


@pytest.mark.slow
def test_shifts_can_be_added_one_after_the_other(built: Path, copy: Path) -> None:
    manifest = add_triples(copy, MINI, shifts=["wh-words"], **OPTIONS)
    assert "triples" not in manifest.shifts["length"]
    assert "length-short-triples" not in manifest.configs
    assert verify_dataset(copy)[1] == []
    add_triples(copy, MINI, shifts=["length"], **OPTIONS)
    assert file_bytes(copy) == file_bytes(built)


@pytest.mark.slow
def test_triples_are_replaced(built: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(builder, "_SHARD_ROWS", 300)
        patch.setattr(builder, "BLOCK_QUERIES", 37)
        manifest = add_triples(copy, MINI, **OPTIONS)
    entry = manifest.configs["length-short-triples"]["train"]
    assert len(entry.files) == -(-entry.rows // 300) > 2
    assert {file.rows for file in entry.files[:-1]} == {300}
    assert entry.files[0].path == (
        f"length-short-triples/train-00000-of-{len(entry.files):05}.parquet"
    )
    assert verify_dataset(copy)[1] == []
    # How they are spread over files changes no row.
    assert entry.digest == read_manifest(built).configs["length-short-triples"]["train"].digest
    add_triples(copy, MINI, **OPTIONS)
    assert file_bytes(copy) == file_bytes(built)


def test_a_data_set_of_ids_gets_the_same_triples(built: Path, tmp_path: Path) -> None:
    build_dataset(MINI, ["length"], tmp_path / "ids", texts=False)
    manifest = add_triples(tmp_path / "ids", MINI, **OPTIONS)
    for config in ("length-short-triples", "length-long-triples"):
        assert manifest.configs[config] == read_manifest(built).configs[config]


# ---- what is not what was built -------------------------------------------------------------


def corrupt(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # other copies may be links to the same file
    path.write_bytes(data)


def test_a_flipped_byte_is_found(built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "msshift"))
    path = folder / "length-short-triples" / "train-00000-of-00001.parquet"
    corrupt(path)
    _, findings = verify_dataset(folder)
    assert {finding.source for finding in findings} == {str(path)}
    assert findings[0].code == "changed-bytes"
    with pytest.raises(IntegrityError, match="has changed since it was built"):
        load_triples(folder, "length-short-triples")


def test_swapped_rows_are_found(built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "msshift"))
    path = folder / "length-short-triples" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(0, 1)]), path)
    assert [finding.code for finding in verify_dataset(folder)[1]] == [
        "changed-bytes", "changed-rows",
    ]  # fmt: skip
    pq.write_table(table.slice(1), path)
    assert [finding.code for finding in verify_dataset(folder)[1]] == [
        "changed-bytes", "changed-count", "changed-rows",
    ]  # fmt: skip
    path.unlink()
    assert [finding.code for finding in verify_dataset(folder)[1]] == ["missing-file"]


# ---- what cannot be -------------------------------------------------------------------------


def test_what_cannot_be_leaves_everything_as_it_was(copy: Path) -> None:
    before = file_bytes(copy)
    with pytest.raises(UsageError, match="give the collection it was built from"):
        add_triples(copy, open_collection("mini:301"))
    with pytest.raises(UnknownNameError, match=r"unknown shift in .* 'topics'"):
        add_triples(copy, MINI, shifts=["topics"])
    with pytest.raises(UsageError, match="0 negatives per query; at least 1 is needed"):
        add_triples(copy, MINI, count=0)
    with pytest.raises(UsageError, match="depth is 0"):
        add_triples(copy, MINI, depth=0)
    with pytest.raises(DataError, match=r"300 passages are too few to give query .* 300 negatives"):
        add_triples(copy, MINI, count=300)
    with pytest.raises(NotFoundError, match="no built data set"):
        add_triples(copy / "none", MINI)
    assert file_bytes(copy.parent) == {f"msshift/{name}": data for name, data in before.items()}
    assert [path.name for path in copy.parent.iterdir()] == ["msshift"]


def test_names_that_do_not_exist(bare: Path, built: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'length-short-triples'"):
        load_triples(built, "length-short")
    with pytest.raises(UnknownNameError, match="valid are none"):
        load_triples(bare, "length-short-triples")
    with pytest.raises(UsageError, match="load_triples streams them"):
        load_dataset(built, "length-short-triples")


@pytest.mark.slow
def test_a_data_set_that_is_replaced_meanwhile_is_left_alone(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_another(*arguments: object) -> Manifest:
        build_dataset(MINI, ["length", "wh-words"], copy, seed=9)
        return add(*arguments)  # type: ignore[arg-type]

    add = builder._add
    monkeypatch.setattr(builder, "_add", build_another)
    with pytest.raises(UsageError, match="was built anew while its triples were made"):
        add_triples(copy, MINI, **OPTIONS)
    assert read_manifest(copy).parameters["seed"] == 9
    assert verify_dataset(copy)[1] == []


# ---- TSV ------------------------------------------------------------------------------------


def test_ids_as_tsv_have_the_digest_of_the_split(built: Path, tmp_path: Path) -> None:
    entry = read_manifest(built).configs["length-short-triples"]["train"]
    for name, opened in (("t.tsv", Path.open), ("t.tsv.gz", gzip.open)):
        count = triples_export.export_triples(built, "length-short-triples", tmp_path / name)
        with opened(tmp_path / name, "rb") as file:
            content = file.read()
        assert count == content.count(b"\n") == entry.rows
        assert hashlib.sha256(content).hexdigest() == entry.digest
    again = tmp_path / "again.tsv.gz"
    triples_export.export_triples(built, "length-short-triples", again)
    assert again.read_bytes() == (tmp_path / "t.tsv.gz").read_bytes()


def test_texts_as_tsv(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "texts.tsv"
    triples_export.export_triples(built, "length-short-triples", out, texts=MINI)
    queries, passages = dict(MINI.queries), dict(MINI.passages())
    expected = [
        (queries[t.query_id], passages[t.positive_id], passages[t.negative_id])
        for t in load_triples(built, "length-short-triples")
    ]
    assert [tuple(line.split("\t")) for line in out.read_text().splitlines()] == expected


def test_texts_cannot_break_lines(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    texts = {f"d{i}": f"a\tpassage\r\nof thing{i}" for i in range(30)}
    write = {
        "corpus.jsonl": [{"_id": name, "text": text} for name, text in texts.items()],
        "queries.jsonl": [
            {"_id": f"q{i}", "text": f"what is\nthing{i}{' in a long query' * (i % 2)}"}
            for i in range(30)
        ],
    }
    for name, records in write.items():
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(30))
    (folder / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    collection = open_collection(folder)
    for name, kept in (("full", True), ("ids", False)):
        build_dataset(collection, ["length"], tmp_path / name, texts=kept)
        add_triples(tmp_path / name, collection, count=2, depth=5)
        out = tmp_path / f"{name}.tsv"
        triples_export.export_triples(tmp_path / name, "length-long-triples", out, texts=collection)
        lines = out.read_text().splitlines()
        assert len(lines) == len(load_triples(tmp_path / name, "length-long-triples"))
        for line in lines:
            query, positive, _ = line.split("\t")
            assert query.startswith("what is thing")
            assert positive.startswith("a passage  of thing")
    assert (tmp_path / "full.tsv").read_bytes() == (tmp_path / "ids.tsv").read_bytes()


def test_texts_that_are_missing(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triples_export, "_keep", create_empty_table)
    with pytest.raises(DataError, match=r"mini:300 holds no passage '[0-9]+', which the triples"):
        triples_export.export_triples(
            built, "length-short-triples", tmp_path / "out.tsv", texts=MINI
        )
    with pytest.raises(UsageError, match="give the collection it was built from"):
        triples_export.export_triples(
            built, "length-short-triples", tmp_path / "out.tsv", texts=open_collection("mini:40")
        )
    assert list(tmp_path.iterdir()) == []


def create_empty_table(passages: object, database: object, progress: object) -> None:
    assert list(passages)  # type: ignore[call-overload]
    database.execute("CREATE TABLE passages (doc_id TEXT, text TEXT)")  # type: ignore[attr-defined]


# ---- the command ----------------------------------------------------------------------------


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    command.register(app)
    return app


@pytest.mark.slow
def test_the_command(app: typer.Typer, built: Path, copy: Path, tmp_path: Path) -> None:
    arguments = ["--negatives", "5", "--depth", "20", "--seed", "1"]
    done = CliRunner().invoke(app, ["triples", "build", str(copy), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["length-short-triples"]["rows"] == len(
        load_triples(built, "length-short-triples")
    )
    assert file_bytes(copy) == file_bytes(built)
    done = CliRunner().invoke(
        app, ["triples", "build", str(copy), "--shift", "length", "--collection", "mini:300"]
    )
    assert done.exit_code == 0, done.output
    assert "length-long-triples" in done.stdout
    for options in ([], ["--text"]):
        out = tmp_path / "out.tsv"
        done = CliRunner().invoke(
            app,
            ["triples", "export", "length-long-triples", str(out), "--data", str(built), *options],
        )
        assert done.exit_code == 0, done.output
        count = len(load_triples(built, "length-long-triples"))
        assert f"{count} triples" in done.stderr
        assert out.read_text().count("\n") == count


def test_a_collection_for_ids_is_a_mistake(app: typer.Typer, built: Path) -> None:
    done = CliRunner().invoke(
        app, ["triples", "export", "x", "out.tsv", "--data", str(built), "--collection", "mini"]
    )
    assert isinstance(done.exception, UsageError)
    assert "--collection is read for the texts only" in str(done.exception)


@pytest.mark.parametrize("named", ["~/toy", "toy"])
def test_no_file_of_the_collection_is_overwritten(
    app: typer.Typer,
    built: Path,
    tsv_folder: WriteFolder,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
) -> None:
    queries = tsv_folder() / "queries.tsv"
    monkeypatch.setenv("HOME", str(queries.parent.parent))
    monkeypatch.chdir(queries.parent.parent)
    before = queries.read_bytes()
    where = ["--data", str(built), "--collection", named]
    done = CliRunner().invoke(
        app, ["triples", "export", "length-long-triples", str(queries), "--text", *where]
    )
    assert isinstance(done.exception, UsageError)
    assert "is read, and would be overwritten" in str(done.exception)
    assert queries.read_bytes() == before


def test_every_reader_starts_anew(built: Path) -> None:
    loaded = load_triples(built, "length-short-triples")
    assert TripleStream(loaded.files, len(loaded)).digest() == loaded.digest()
    first, second = iter(loaded), iter(loaded)
    assert next(first) == next(second)
    assert next(first) != next(iter(loaded))
