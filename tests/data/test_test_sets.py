"""Extra test sets: their queries, judgements and variants, and what cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench import data
from msshift_bench.errors import CollectionError, DataError
from tests.conftest import WriteFolder
from tests.support.refusals import check_refusals


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "typed.tsv"
    odd = data.Variant("1", "che\x85ap \u2028 flights\x0c", "a")
    data.write_variants(path, [odd])
    assert data.read_variants(path) == (odd,)


def test_a_file_or_a_folder_of_variants_is_a_test_set(tmp_path: Path) -> None:
    path, folder = tmp_path / "typed.tsv", tmp_path / "dl19"
    data.write_variants(path, [data.Variant("1", "cheap", "a")])
    (of_file,) = data.read_extra_tests({"typed": path})
    assert (of_file.needs_shift, len(of_file.variants)) == (True, 1)
    assert repr(of_file) == "<TestSet typed: 0 queries, 1 variants>"
    folder.mkdir()
    (folder / "queries.tsv").write_text("2\twhat\n")
    (folder / "qrels.tsv").write_text("2 0 d 1\n")
    path.rename(folder / "variants.tsv")
    with pytest.raises(CollectionError, match=r"variants\.tsv:1: .*'1'"):
        data.read_extra_tests({"dl19": folder})
    data.write_variants(folder / "variants.tsv", [data.Variant("2", "waht", "a")])
    (of_folder,) = data.read_extra_tests({"dl19": folder})
    assert not of_folder.needs_shift
    assert {query: dict(docs) for query, docs in of_folder.judged.items()} == {
        "2": {"d": 1}, "2#a": {"d": 1},
    }  # fmt: skip


WRONG = [
    ("1\n", "1 d1\n", "[field-count] queries.tsv:1 qrels.tsv:1 1 2 fix"),
    ("1\n", "7 0 d1 1\n", "[field-count] queries.tsv:1 1 fix"),  # 7 may be the broken line's id.
    ("1\ta\n1\tb\n", "1 0 d1 x\n",
     "[repeated-id] [relevance-not-integer] queries.tsv:2 qrels.tsv:1 '1' 'x'"),
    ("", "1 0 d1 1\n", "[no-queries] queries.tsv"),
    ("1\ta\n", "7 0 d1 1\n", "[unknown-query] qrels.tsv:1 '7' fix"),
    ("1\ta\n", "", "[no-judgement] qrels.tsv fix"),
]  # fmt: skip
"""Queries, judgements, and the facts of the error."""

VARIANTS = "1\tcheap\ta\n1\tchaep\ta\n2\t \ta\n3\tx\ttwo words\n4\tx\ta#b\n5\tx\n"


def test_what_is_wrong_is_said_at_once(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    def read(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        data.read_variants(tmp_path / name)

    codes = "CollectionError [repeated-id] [empty-text] [bad-method] [field-count]"
    broken = data.Variant("1", "cheap\nflights", "a")
    refusals = {
        f"{codes} typed.tsv:2 typed.tsv:3 typed.tsv:5 '1' '2'": partial(
            read, "typed.tsv", VARIANTS
        ),
        "CollectionError [no-variants] empty.tsv": partial(read, "empty.tsv", ""),
        "DataError '1'": partial(data.write_variants, tmp_path / "x.tsv", [broken]),
    }
    for number, (queries, qrels, facts) in enumerate(WRONG):
        folder = tsv_folder(f"{number}", queries=queries, qrels=qrels)
        alone = tsv_folder(f"alone-{number}", queries=queries, qrels=qrels)
        (alone / "collection.tsv").unlink()
        refusals[f"test set {number}: CollectionError {facts}"] = partial(
            data.read_extra_tests, {"dl19": alone}
        )
        if queries and qrels:
            collection = data.open_collection(folder)
            refusals[f"collection {number}: CollectionError {facts}"] = partial(
                getattr, collection, "qrels"
            )
    check_refusals(refusals)


def test_judgements_of_another_collection(tsv_folder: WriteFolder) -> None:
    dl19 = tsv_folder("dl19", queries="1\ta\n2\tb\n")
    (dl19 / "collection.tsv").unlink()
    searched = data.open_collection(tsv_folder("searched"))

    for qrels in ("1 0 foreign 2\n2 0 d2 1\n", "1 0 foreign 0\n"):
        (dl19 / "qrels.tsv").write_text(qrels)
        assert data.read_extra_tests({"dl19": dl19}, searched)
    (dl19 / "qrels.tsv").write_text("1 0 d01 2\n2 0 foreign 1\n2 0 d2 0\n")
    with pytest.raises(DataError, match=r"searched .* 2 .*'d01'"):
        data.read_extra_tests({"dl19": dl19}, searched)


def test_a_test_set_with_a_corpus_of_its_own(tsv_folder: WriteFolder) -> None:
    searched = data.open_collection(tsv_folder("searched"))
    (tsv,) = data.read_extra_tests({"toy": tsv_folder("toy")}, searched)
    assert tsv.collection is not None
    assert tsv.collection.name == "toy"
    assert tsv.judged == {"q1": {"d1": 1}, "q2": {"d2": 1, "q1": 0}}
    # One of two relevant passages may lack, and not two of three, although one has the same id.
    qrels = "q1 0 d1 1\nq1 0 d7 1\n"
    (lacking,) = data.read_extra_tests({"a": tsv_folder("a", qrels=qrels)}, searched)
    assert lacking.judged == {"q1": {"d1": 1, "d7": 1}}
    other = tsv_folder("b", qrels=qrels + "q2 0 d8 2\n")
    with pytest.raises(DataError, match=r"b lacks 2 of the 3 .*'d7'; give the collection"):
        data.read_extra_tests({"b": other}, searched)
    for qrels, code in (("", "no-judgement"), ("q9 0 d1 1\n", "unknown-query")):
        (other / "qrels.tsv").write_text(qrels)
        with pytest.raises(CollectionError, match=f"{code}|not among the queries|has a judgement"):
            data.read_extra_tests({"b": other}, searched)
    (by_id,) = data.read_extra_tests({"other": "mini:300"}, searched)
    assert (by_id.collection is not None, len(by_id.judged)) == (True, 450)


@pytest.mark.parametrize("read", [data.read_queries, data.read_variants])
def test_a_parquet_file_is_never_decoded_for_lines(
    tmp_path: Path, read: Callable[..., object]
) -> None:
    """A dictionary of one long text makes gigabytes of a few bytes."""
    path = tmp_path / "bomb.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 20_000])
    pq.write_table(pa.table({"query_id": text, "text": text}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(CollectionError) as caught:
        read(path)
    assert caught.value.findings[0].line == 1
