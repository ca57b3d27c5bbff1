"""Columns of ids: which are the same."""

from __future__ import annotations

import pytest

from msshift_bench.runs.hashes import IdColumn
from msshift_bench.runs.qrels import Judgements

LONG = b"a passage id of more than eight bytes"


@pytest.mark.parametrize(
    "other", [b"", b"1", b"12", b"1234567", b"12345678", b"123456789", LONG, LONG[:-1], LONG + b"!"]
)
def test_only_the_same_id_is_equal(other: bytes) -> None:
    ids = [b"", b"1", b"12", b"1234567", b"12345678", b"123456789", LONG, LONG[:-1], LONG + b"!"]
    same = IdColumn.join(ids).equals(IdColumn.join([other] * len(ids)))
    assert same.tolist() == [one == other for one in ids]


def test_positions_of_queries_that_count_and_of_others() -> None:
    queries = ["2", "30", LONG.decode(), "é"]
    judgements = Judgements({query: {"d": 1} for query in queries})
    asked = IdColumn.join([LONG, b"3", "é".encode(), b"2", b"30", LONG[:-1], b"\xff"])
    assert judgements.positions(asked, asked.hashes()).tolist() == [2, -1, 3, 0, 1, -1, -1]
    nobody = Judgements({}).positions(asked, asked.hashes())
    assert nobody.tolist() == [-1] * 7
