"""Collections of every kind, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ir_datasets
import pytest
from hypothesis import given, strategies as st

from msshift_bench.data import Collection, is_double_encoded, open_collection
from msshift_bench.errors import CollectionError, UsageError
from msshift_bench.records import Passage
from msshift_bench.runs import read_qrels
from tests.conftest import WriteFolder
from tests.support.refusals import check_refusals

READ: dict[str, Callable[[Collection], object]] = {
    "collection": lambda collection: list(collection.passages()),
    "queries": lambda collection: len(collection.queries),
    "qrels": lambda collection: len(collection.qrels),
}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text("q\t1\t1\n")
    return tmp_path / "beir"


def write_beir(folder: Path, corpus: str, queries: str) -> Collection:
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    return open_collection(folder)


def test_tsv_folder_with_trec_qrels_whose_ids_stay_strings(tsv_folder: WriteFolder) -> None:
    collection = open_collection(tsv_folder())
    assert collection.queries == {"q1": "what is one", "q2": "how is another"}
    assert collection.relevant == {"q1": {"d1": 1}, "q2": {"d2": 1}}
    # A passage may have the id of a query.
    assert Passage("q1", "a third") in list(collection.passages())
    given = {"collection": "007\tbond\n7\tseven\n", "queries": "01\twho is it\n"}
    collection = open_collection(tsv_folder("bond", **given, qrels="01\t007\t2\n"))
    assert [p.doc_id for p in collection.passages()] == ["007", "7"]
    assert collection.relevant == {"01": {"007": 2}}


def test_three_column_qrels_gzip_crlf_and_byte_order_mark(tmp_path: Path) -> None:
    files = {
        "collection.tsv.gz": gzip.compress(b"\xef\xbb\xbfd1\tone\r\nd2\ttwo\r\n"),
        "queries.tsv.gz": gzip.compress(b"q1\twhat\n\n"),
        "qrels.tsv": b"q1\td1\t1\r\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    collection = open_collection(tmp_path)
    assert list(collection.passages()) == [Passage("d1", "one"), Passage("d2", "two")]
    assert collection.qrels == {"q1": {"d1": 1}}


def test_beir_folder(beir: Path) -> None:
    corpus = [{"_id": "1", "title": "T", "text": "x"}, {"_id": "q", "title": "", "text": "y"}]
    queries = json.dumps({"_id": "q", "text": "what", "metadata": {}})
    (beir / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\tq\t0\n")
    collection = write_beir(beir, "\n".join(map(json.dumps, corpus)), queries)
    assert list(collection.passages()) == [Passage("1", "T x"), Passage("q", "y")]
    assert collection.qrels == {"q": {"1": 1, "q": 0}}
    plain = write_beir(beir, '{"_id": 1, "title": null, "text": "one"}\n', '{"_id":7,"text":"x"}\n')
    assert list(plain.passages()) == [Passage("1", "one")]
    assert plain.queries == {"7": "x"}


def test_qrels_in_pool_are_preferred_and_another_file_can_be_chosen(
    tsv_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tsv_folder(qrels="q1 0 d1 1\nnobody 0 d2 1\n")
    (folder / "qrels_in_pool.tsv").write_text("q1 0 d1 1\n")
    assert len(open_collection(folder).qrels) == 1
    with pytest.raises(CollectionError, match=r"'nobody'.*\[unknown-query\]"):
        len(open_collection(folder, qrels="qrels.tsv").qrels)
    # A file in two places is asked back.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    with pytest.raises(UsageError, match=r" \./qrels\.tsv"):
        open_collection(folder, qrels="qrels.tsv")
    assert len(open_collection(folder, qrels="./qrels.tsv").qrels) == 2
    assert len(open_collection(folder, qrels=folder / "qrels_in_pool.tsv").qrels) == 1


def test_a_judgement_that_is_repeated_counts_once(
    tsv_folder: WriteFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tsv_folder(qrels="q1 0 d1 1\nq1 0 d2 0\nq1 0 d1 1\nq1 0 d2 0\n")
    assert open_collection(folder).qrels == {"q1": {"d1": 1, "d2": 0}}
    assert "qrels.tsv: 2 lines repeat a judgement; each counts once" in caplog.text
    assert [tuple(qrel) for qrel in read_qrels(folder / "qrels.tsv")] == [
        ("q1", "d1", 1),
        ("q1", "d2", 0),
    ]


VALUES = [
    ('{"_id": "2", "text": null}', "[wrong-type] 'text' null"),
    ('{"_id": null, "text": "two"}', "[wrong-type] '_id' null"),
    ('{"_id": true, "text": "two"}', "[wrong-type] '_id' true"),
    ('{"_id": 2.0, "text": "two"}', "[wrong-type] '_id' 2.0"),
    ('{"_id": "2", "text": ["two"]}', "[wrong-type] 'text' \"two\""),
    (r'{"_id": "d1", "text": "\ud83d cut"}', "[not-utf8] 'text'"),
    (r'{"_id": "q\udc00", "text": "x \ud83d\ude00"}', "[not-utf8] '_id'"),
    ('{"_id": "2", "text": "two", "title": NaN}', "[wrong-type] 'title' NaN"),
]
"""Records of a BEIR file, and the facts of their errors."""

ROWS: list[tuple[str, str | bytes, str]] = [
    ("queries", "q1\twhat\nq2\n", "[field-count] queries.tsv:2 1 fix"),
    ("queries", "q1\twhat\nq2\ta\tb\n", "[field-count] queries.tsv:2 3 fix"),
    ("queries", "q1\twhat\nq1\thow\n", "[repeated-id] queries.tsv:2 'q1'"),
    ("queries", "q1\t \n", "[empty-text] queries.tsv:1 'q1'"),
    ("queries", "\twhat\n", "[empty-id] queries.tsv:1"),
    ("queries", "q1\twhat\n\nq2\thow\n", "[blank-line] queries.tsv:2 fix"),
    ("queries", b"q1\twhat\nq2\tcaf\xe9\n", "[not-utf8] queries.tsv:2 fix"),
    ("queries", gzip.compress(b"q1\twhat\n" * 1000, mtime=0)[:40], "[truncated-input] fix"),
    ("qrels", "q1 0 d1 1\nq9 0 d1 1\n", "[unknown-query] qrels.tsv:2 'q9' fix"),
    ("qrels", "q1 0 d1 1\nq1 0 d1 0\n", "[duplicate-judgement] qrels.tsv:2 'd1' fix"),
    ("qrels", "q1 0 d1 yes\n", "[relevance-not-integer] qrels.tsv:1 'yes'"),
    ("qrels", "q1 d1\n", "[field-count] qrels.tsv:1 2 fix"),
    ("collection", "d1\tone\nd2 two\n", "[field-count] collection.tsv:2 1 fix"),
    ("collection", "d1\tone\nd2\ttwo\nd1\tthree\n", "[repeated-id] collection.tsv:3 'd1'"),
    # No run can hold these ids; only ASCII white space separates the fields of a run.
    (
        "collection",
        "d1\tone\nd 2\ttwo\nd\xa03\tthree\n\x0b\tfour\n",
        "[id-of-words] collection.tsv:2 collection.tsv:4 2 fix",
    ),
    ("collection", "", "[no-passages] collection.tsv"),
]
"""A file of a TSV folder, its content, and the facts of the error."""


def test_what_cannot_be_opened_or_read(
    beir: Path, tsv_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_beir(part: str, record: str) -> None:
        READ[part](write_beir(beir, f"{record}\n", f"{record}\n"))

    def read_rows(number: int, part: str, content: str | bytes) -> None:
        READ[part](open_collection(tsv_folder(f"toy{number}", **{part: content})))

    def without_qrels() -> None:
        (beir / "qrels" / "test.tsv").unlink()
        open_collection(beir)

    def without_library() -> None:
        monkeypatch.setitem(sys.modules, "ir_datasets", None)
        open_collection("some/id")

    (empty := beir.with_name("empty")).mkdir()
    toy = tsv_folder()
    refusals: dict[str, Callable[[], object]] = {
        **{
            f"{number}: CollectionError {file}.jsonl:1 {facts} fix": partial(
                read_beir, part, record
            )
            for number, (record, facts) in enumerate(VALUES)
            for part, file in (("collection", "corpus"), ("queries", "queries"))
            if part == "collection" or "title" not in record
        },
        **{
            f"{number}: CollectionError {facts}": partial(read_rows, number, part, content)
            for number, (part, content, facts) in enumerate(ROWS)
        },
        "NotFoundError empty collection.tsv": partial(open_collection, empty),
        "NotFoundError nowhere 'mini'": partial(open_collection, "./nowhere"),
        "NotFoundError 'mini' corpus.jsonl": partial(open_collection, str(beir / "corpus.jsonl")),
        "NotFoundError 'no-such/dataset' 'mini'": partial(open_collection, "no-such/dataset"),
        "NotFoundError msmarco-passage/train": lambda: READ["queries"](
            open_collection("msmarco-passage")
        ),
        "NotFoundError other.tsv": partial(open_collection, toy, qrels="other.tsv"),
        "UsageError mini": partial(open_collection, "mini", qrels="qrels.tsv"),
        "NotFoundError qrels .tsv": without_qrels,
        "MissingExtraError 'irds'": without_library,
    }
    check_refusals(refusals)


def test_the_order_of_lines_does_not_change_the_provenance(tsv_folder: WriteFolder) -> None:
    forward = open_collection(tsv_folder("a/toy"))
    lines = {
        "queries": "q2\thow is another\nq1\twhat is one\n",
        "qrels": "q2 0 q1 0\nq2 0 d2 1\nq1 0 d1 1\n",
    }
    backward = open_collection(tsv_folder("b/toy", **lines))
    assert forward.provenance() == backward.provenance()


def test_ir_datasets_id(tsv_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tsv_folder()
    files = ("collection.tsv", "queries.tsv", "qrels.tsv")
    toy = ir_datasets.create_dataset(*(str(folder / name) for name in files))
    monkeypatch.setitem(ir_datasets.registry._registered, "msshift-test-toy", toy)
    collection, same = open_collection("msshift-test-toy"), open_collection(folder)
    assert list(collection.passages()) == list(same.passages())
    assert (collection.queries, collection.qrels) == (same.queries, same.qrels)
    assert collection.provenance()["text"] == "raw"
    assert open_collection("msmarco-passage/train").text_variant == "repaired"


def test_mini_is_a_collection() -> None:
    collection = open_collection("mini:500")
    passages = {passage.doc_id for passage in collection.passages()}
    assert len(passages) == 500
    assert set().union(*collection.qrels.values()) <= passages
    assert collection.provenance()["name"] == "mini:500"
    assert repr(collection) == "<Collection mini:500: generated>"
    assert open_collection(collection) is collection
    with pytest.raises(UsageError, match="mini:500"):
        open_collection(collection, qrels="qrels.tsv")


@pytest.mark.extended
@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_every_character_beyond_ascii_whose_bytes_were_read_as_latin_1_is_recognised(
    character: str,
) -> None:
    assert is_double_encoded(f"a {character.encode().decode('latin-1')} b")


@given(st.text(st.characters(max_codepoint=0x7F)) | st.sampled_from(["café", "10 °C ± 2", "ÄÖÜ"]))
def test_other_texts_are_not(text: str) -> None:
    assert not is_double_encoded(text)
