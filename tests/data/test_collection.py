from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.errors import CollectionError, MissingExtraError, NotFoundError, UsageError
from msshift_bench.records import Passage, Qrel, Query
from tests.conftest import WriteFolder


def test_tsv_folder_with_trec_qrels(tsv_folder: WriteFolder) -> None:
    collection = open_collection(tsv_folder())
    assert list(collection.queries) == [Query("q1", "what is one"), Query("q2", "how is another")]
    assert next(iter(collection.qrels)) == Qrel("q1", "d1", 1)
    assert collection.qrels.relevant() == {"q1": ("d1",), "q2": ("d2",)}


def test_a_passage_whose_id_equals_a_query_id_is_kept(tsv_folder: WriteFolder) -> None:
    assert Passage("q1", "a third") in list(open_collection(tsv_folder()).passages())


def test_ids_stay_strings(tsv_folder: WriteFolder) -> None:
    folder = tsv_folder(
        collection="007\tbond\n7\tseven\n", queries="01\twho is it\n", qrels="01\t007\t2\n"
    )
    collection = open_collection(folder)
    assert [p.doc_id for p in collection.passages()] == ["007", "7"]
    assert collection.qrels.relevant() == {"01": ("007",)}


def test_three_column_qrels_gzip_crlf_and_byte_order_mark(tmp_path: Path) -> None:
    folder = tmp_path / "zipped"
    folder.mkdir()
    (folder / "collection.tsv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfd1\tone\r\nd2\ttwo\r\n"))
    (folder / "queries.tsv.gz").write_bytes(gzip.compress(b"q1\twhat\n\n"))
    (folder / "qrels.tsv").write_bytes(b"q1\td1\t1\r\n")
    collection = open_collection(folder)
    assert list(collection.passages()) == [Passage("d1", "one"), Passage("d2", "two")]
    assert list(collection.qrels) == [Qrel("q1", "d1", 1)]


def test_beir_folder(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "1", "title": "T", "text": "x"}, {"_id": "q", "title": "", "text": "y"}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "what", "metadata": {}}))
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "test.tsv").write_text(f"{header}q\t1\t1\n")
    (folder / "qrels" / "dev.tsv").write_text(f"{header}q\tq\t0\n")
    collection = open_collection(folder)
    assert list(collection.passages()) == [Passage("1", "T x"), Passage("q", "y")]
    assert sorted(collection.qrels) == [Qrel("q", "1", 1), Qrel("q", "q", 0)]


def test_values_of_a_beir_folder_that_are_no_strings(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("7 1 1\n")
    (tmp_path / "corpus.jsonl").write_text('{"_id": 1, "title": null, "text": "one"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": 7, "text": "what"}\n')
    collection = open_collection(tmp_path)
    assert list(collection.passages()) == [Passage("1", "one")]
    assert list(collection.queries) == [Query("7", "what")]
    for record, said in (
        ('{"_id": "2", "text": null}', "'text' is null, and no string"),
        ('{"_id": null, "text": "two"}', "'_id' is null, and no string"),
        ('{"_id": true, "text": "two"}', "'_id' is true, and no string"),
        ('{"_id": 2.0, "text": "two"}', "'_id' is 2.0, and no string"),
        ('{"_id": "2", "text": "two", "title": NaN}', "'title' is NaN, and no string"),
        ('{"_id": "2", "text": ["two"]}', "'text' is [\"two\"], and no string"),
    ):
        (tmp_path / "corpus.jsonl").write_text(f"{record}\n")
        with pytest.raises(CollectionError, match=re.escape(f"corpus.jsonl:1: {said}")):
            list(collection.passages())


def test_half_a_character_in_a_beir_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q1\td1\t1\n")
    (tmp_path / "corpus.jsonl").write_text(r'{"_id": "d1", "text": "\ud83d cut"}' + "\n")
    (tmp_path / "queries.jsonl").write_text(
        r'{"_id": "q1", "text": "whole \ud83d\ude00"}' + "\n" + r'{"_id": "q\udc00", "text": "x"}'
    )
    collection = open_collection(tmp_path)
    with pytest.raises(CollectionError, match=r"corpus.jsonl:1: 'text' holds half of a character"):
        list(collection.passages())
    with pytest.raises(CollectionError, match=r"queries.jsonl:2: '_id' holds half of a character"):
        len(collection.queries)


def test_qrels_in_pool_are_preferred_and_another_file_can_be_chosen(
    tsv_folder: WriteFolder,
) -> None:
    folder = tsv_folder(qrels="q1 0 d1 1\nnobody 0 d2 1\n")
    (folder / "qrels_in_pool.tsv").write_text("q1 0 d1 1\n")
    assert len(open_collection(folder).qrels) == 1
    with pytest.raises(CollectionError, match="'nobody' is not among the queries"):
        len(open_collection(folder, qrels="qrels.tsv").qrels)
    with pytest.raises(NotFoundError, match=r"no qrels file other\.tsv"):
        open_collection(folder, qrels="other.tsv")
    with pytest.raises(UsageError, match="mini is none"):
        open_collection("mini", qrels="qrels.tsv")


def test_a_qrels_file_in_two_places_is_asked_back(
    tsv_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tsv_folder(qrels="q1 0 d1 1\nq2 0 d2 1\n")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "qrels.tsv").write_text("q1 0 d1 1\n")
    with pytest.raises(UsageError, match=r"and in the working directory; write .*\./qrels\.tsv"):
        open_collection(folder, qrels="qrels.tsv")
    assert len(open_collection(folder, qrels="./qrels.tsv").qrels) == 1
    assert len(open_collection(folder, qrels=folder / "qrels.tsv").qrels) == 2


@pytest.mark.parametrize(
    ("files", "part", "code", "line"),
    [
        ({"queries": "q1\twhat\nq2\n"}, "queries", "field-count", 2),
        ({"queries": "q1\twhat\nq2\ta\tb\n"}, "queries", "field-count", 2),
        ({"queries": "q1\twhat\nq1\thow\n"}, "queries", "repeated-id", 2),
        ({"queries": "q1\t \n"}, "queries", "empty-text", 1),
        ({"queries": "\twhat\n"}, "queries", "empty-id", 1),
        ({"queries": "q1\twhat\n\nq2\thow\n"}, "queries", "blank-line", 2),
        ({"queries": b"q1\twhat\nq2\tcaf\xe9\n"}, "queries", "not-utf8", 2),
        ({"qrels": "q1 0 d1 1\nq9 0 d1 1\n"}, "qrels", "unknown-query", 2),
        ({"qrels": "q1 0 d1 1\nq1 0 d1 0\n"}, "qrels", "duplicate-judgement", 2),
        ({"qrels": "q1 0 d1 yes\n"}, "qrels", "relevance-not-integer", 1),
        ({"qrels": "q1 d1\n"}, "qrels", "field-count", 1),
        ({"collection": "d1\tone\nd2 two\n"}, "collection", "field-count", 2),
        ({"collection": "d1\tone\nd2\ttwo\nd1\tthree\n"}, "collection", "repeated-id", 3),
    ],
)
def test_bad_rows_name_file_and_line(
    tsv_folder: WriteFolder, files: dict[str, str | bytes], part: str, code: str, line: int
) -> None:
    collection = open_collection(tsv_folder(**files))
    with pytest.raises(CollectionError) as caught:
        if part == "collection":
            list(collection.passages())
        else:
            getattr(collection, part)
    finding = caught.value.findings[0]
    assert (finding.code, finding.line) == (code, line)
    assert finding.source.endswith(f"{part}.tsv")


def test_all_bad_rows_are_reported_at_once(tsv_folder: WriteFolder) -> None:
    collection = open_collection(tsv_folder(queries="one\n" * 3 + "q1\twhat\n" + "two\n" * 30))
    with pytest.raises(CollectionError) as caught:
        len(collection.queries)
    assert [f.line for f in caught.value.findings] == [1, 2, 3, *range(5, 22)]
    assert caught.value.total == 33


def test_truncated_gzip_is_an_error(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    folder = tsv_folder()
    (folder / "queries.tsv").unlink()
    whole = gzip.compress(b"q1\twhat\n" * 1000)
    (folder / "queries.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CollectionError, match="truncated-input"):
        len(open_collection(folder).queries)


def test_passages_whose_ids_no_run_can_hold(tsv_folder: WriteFolder) -> None:
    folder = tsv_folder(collection="d1\tone\nd 2\ttwo\nd\xa03\tthree\n\x0b\tfour\n")
    with pytest.raises(CollectionError) as caught:
        list(open_collection(folder).passages())
    found = [(finding.code, finding.line) for finding in caught.value.findings]
    assert found == [("id-of-words", 2), ("id-of-words", 4)]


def test_a_collection_without_passages_cannot_be_searched(tsv_folder: WriteFolder) -> None:
    folder = tsv_folder(collection="")
    with pytest.raises(CollectionError, match=r"collection\.tsv: the file holds no passage"):
        list(open_collection(folder).passages())
    (folder / "collection.tsv").write_text("d1 one\n")
    with pytest.raises(CollectionError) as caught:
        list(open_collection(folder).passages())
    assert [finding.code for finding in caught.value.findings] == ["field-count"]


def test_missing_things_say_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match=r"holds no collection\.tsv"):
        open_collection(tmp_path / "empty")
    with pytest.raises(NotFoundError, match="give a folder, an ir_datasets id, or 'mini'"):
        open_collection("./nowhere")
    with pytest.raises(NotFoundError, match="ir_datasets has no id 'no-such/dataset'"):
        open_collection("no-such/dataset")
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / "beir" / name).touch()
    with pytest.raises(NotFoundError, match=r"beir/qrels holds no \.tsv file"):
        open_collection(tmp_path / "beir")
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingExtraError, match=r"no folder some/id; to read it as an .*\[irds\]"):
        open_collection("some/id")


def test_the_order_of_lines_does_not_change_the_provenance(tsv_folder: WriteFolder) -> None:
    forward = open_collection(tsv_folder("a/toy"))
    backward = open_collection(
        tsv_folder(
            "b/toy",
            queries="q2\thow is another\nq1\twhat is one\n",
            qrels="q2 0 q1 0\nq2 0 d2 1\nq1 0 d1 1\n",
        )
    )
    assert forward.provenance() == backward.provenance()


def test_ir_datasets_id(tsv_folder: WriteFolder) -> None:
    import ir_datasets

    folder = tsv_folder()
    toy = ir_datasets.create_dataset(
        docs_tsv=str(folder / "collection.tsv"),
        queries_tsv=str(folder / "queries.tsv"),
        qrels_trec=str(folder / "qrels.tsv"),
    )
    ir_datasets.registry.register("msshift-test-toy", toy)
    collection, same = open_collection("msshift-test-toy"), open_collection(folder)
    assert list(collection.passages()) == list(same.passages())
    assert collection.queries == same.queries
    assert collection.qrels == same.qrels
    assert collection.provenance()["text"] == "raw"
    assert open_collection("msmarco-passage/train").text_variant == "repaired"


def test_a_part_of_ir_datasets_without_queries_is_named() -> None:
    passages = open_collection("msmarco-passage")
    with pytest.raises(NotFoundError, match="msmarco-passage has no queries in ir_datasets"):
        len(passages.queries)


def test_mini_is_a_collection() -> None:
    collection = open_collection("mini:500")
    passages = {passage.doc_id for passage in collection.passages()}
    assert len(passages) == 500
    assert {qrel.doc_id for qrel in collection.qrels} <= passages
    assert collection.provenance()["name"] == "mini:500"
    assert repr(collection) == "<Collection mini:500: generated>"


def test_an_open_collection_is_not_opened_again() -> None:
    collection = open_collection("mini:500")
    assert open_collection(collection) is collection
    with pytest.raises(UsageError, match="mini:500 is open already, with its own qrels"):
        open_collection(collection, qrels="qrels.tsv")
