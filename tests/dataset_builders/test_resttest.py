"""Importing ReSTTest's buckets: small ones, in their exact format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.zhan import read_resttest
from msshift_bench.errors import CollectionError, DataError, NotFoundError
from msshift_bench.records import Row
from tests.conftest import WriteFolder
from tests.support.cut_rows import cut_rows

Checkout = Callable[..., Path]

GROUPS = ("1", "2", "3", "4", "5")
# Bucket n holds query n; bucket 2 holds a second one, with two relevant passages.
EXTRAPOLATE = {g: f"{g}\t0\td{g}\t1\n" for g in GROUPS}
EXTRAPOLATE["2"] += "10\t0\td9\t1\n10\t0\td10\t1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    def write(changed: dict[tuple[str, str], str] | None = None) -> Path:
        for group in GROUPS:
            others = "".join(text for g, text in EXTRAPOLATE.items() if g != group)
            for regime, text in (("extrapolate", EXTRAPOLATE[group]), ("interpolate", others)):
                bucket = tmp_path / f"resttest_files/msmarco-passage/bucket-{group}"
                bucket.mkdir(parents=True, exist_ok=True)
                path = bucket / f"{regime}.dev-qrel.txt"
                path.write_text((changed or {}).get((group, regime), text))
        return tmp_path

    return write


def test_buckets_are_groups(checkout: Checkout, tsv_folder: WriteFolder) -> None:
    queries = "".join(f"{number}\tquery {number}\n" for number in (5, 4, 3, 2, 1, 10, 77))
    collection = open_collection(tsv_folder(queries=queries, qrels="1 0 d1 1\n"))
    cut, report = read_resttest(checkout(), collection)
    assert set(cut.table["split"].to_pylist()) == {"test"}
    assert cut_rows(cut, "test") == [
        Row("1", "query 1", "1", ("d1",), (1,)),
        Row("10", "query 10", "2", ("d10", "d9"), (1, 1)),
        *(Row(g, f"query {g}", g, (f"d{g}",), (1,)) for g in GROUPS[1:]),
    ]
    assert cut.shift.name == "resttest"
    assert {group: counts["test"] for group, counts in cut.counts().items()} == {
        "1": 1,
        "2": 2,
        "3": 1,
        "4": 1,
        "5": 1,
    }
    assert report["collection"] == "toy"


def test_without_a_collection_there_are_no_texts(checkout: Checkout) -> None:
    cut, report = read_resttest(checkout())
    assert {row.text for row in cut_rows(cut, "test")} == {""}
    assert report["collection"] is None


def test_a_collection_that_lacks_queries(checkout: Checkout, tsv_folder: WriteFolder) -> None:
    collection = open_collection(tsv_folder(queries="1\tone\n", qrels="1 0 d1 1\n"))
    with pytest.raises(DataError, match=r"toy lacks 5 of the 6 queries: 10, 2, 3, 4, 5; give"):
        read_resttest(checkout(), collection)


def test_a_folder_that_is_no_checkout(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"lacks 10 of 10 files .*jingtaozhan/extrapolate-eval"):
        read_resttest(tmp_path)
    folder = checkout()
    (folder / "resttest_files/msmarco-passage/bucket-4/interpolate.dev-qrel.txt").unlink()
    with pytest.raises(NotFoundError, match=r"lacks 1 of 10 files \(.*bucket-4/interpolate.dev"):
        read_resttest(folder)


@pytest.mark.parametrize(
    ("group", "regime", "text", "message"),
    [
        ("3", "extrapolate", "3 0 d3 1\n1 0 d1 1\n", r"bucket-3/extrap.*query '1' is in bucket 1"),
        ("3", "extrapolate", "3 0 d3 1\n6 0 d1 1\n", r"bucket-1/interp.*: 1 judgements, of 6, of "),
        ("3", "extrapolate", "3 0 d4 1\n", r"1 judgements, of 3, are of no other bucket"),
        ("3", "extrapolate", "3 0 d3 0\n", r"bucket-3/extrap.*: 3 with a passage that is not rel"),
        ("1", "interpolate", "2 0 d2 1\n", r"5 judgements, of 10, 3, 4, 5, of the other buckets"),
    ],
)
def test_buckets_that_are_no_partition(
    checkout: Checkout, group: str, regime: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_resttest(checkout({(group, regime): text}))
    assert "are no partition of the queries" in str(caught.value)


def test_malformed_lines_are_named(checkout: Checkout) -> None:
    with pytest.raises(CollectionError, match=r"bucket-5/extrapolate.dev-qrel.txt:1: found 2"):
        read_resttest(checkout({("5", "extrapolate"): "5 d5\n"}))
