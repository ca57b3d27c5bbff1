"""Runs in Parquet files, and runs given as values: tables, mappings and records."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import RunError, UsageError
from msshift_bench.runs import Judgements, judge_run, read_run
from tests.runs.conftest import JUDGEMENTS, MAPPING, PLACES, Write, codes, places, refused

COLUMNS = {"query_id": ["1", "1", "1", "2"], "doc_id": ["11", "12", "14", "11"]}
COLUMNS |= {"score": [3.0, 2.0, 2.0, 1.0]}
OF_COLUMNS = Judgements.from_qrels({"1": {"12": 1, "14": 2}, "2": {"11": 1}})
EXPECTED = {(0, 1, 3, 1, 2), (0, 2, 2, 1, 2), (1, 1, 1, 0, 1)}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_table(table: pa.Table | dict[str, Any], **options: Any) -> Path:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(table), path, **options)
        return path

    return write_table


@pytest.mark.parametrize("ids", [pa.string(), pa.large_string(), pa.int64(), pa.int32()])
@pytest.mark.parametrize("score", [pa.float32(), pa.float64(), pa.int16()])
@pytest.mark.parametrize("ranked", [False, True])
def test_ids_are_strings_or_integers_and_scores_are_numbers(
    write: Write, ids: pa.DataType, score: pa.DataType, ranked: bool
) -> None:
    table = pa.table(COLUMNS)
    for column, (name, kind) in enumerate(zip(COLUMNS, (ids, ids, score), strict=True)):
        table = table.set_column(column, name, table[name].cast(kind))
    if ranked:
        table = table.append_column("rank", pa.array([1, 2, 3, 1]))
    run = judge_run(write(table), OF_COLUMNS)
    assert places(run) == EXPECTED
    assert (run.report.lines, run.report.warning_counts) == (4, {})


def test_neither_the_names_nor_the_order_of_columns_and_rows_matter(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = {
        "docno": pa.array(COLUMNS["doc_id"]).dictionary_encode(),
        "text": ["", "", "", ""],
        "qid": pa.array(COLUMNS["query_id"]).dictionary_encode(),
        "score": COLUMNS["score"],
    }
    assert places(judge_run(write(renamed), OF_COLUMNS)) == EXPECTED
    for order in ([3, 2, 1, 0], [0, 3, 1, 2]):
        table = pa.table(COLUMNS).take(order)
        assert places(judge_run(write(table, row_group_size=2), OF_COLUMNS)) == EXPECTED
    with write(COLUMNS).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        assert places(judge_run("-", OF_COLUMNS)) == EXPECTED


def test_more_rows_than_are_read_at_once(write: Write) -> None:
    run = {f"q{query}": {f"d{doc}": float(-doc) for doc in range(50_000)} for query in range(5)}
    rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
    table = pa.table(list(zip(*rows, strict=True)), ["query_id", "doc_id", "score"])
    judgements = Judgements.from_qrels({query: {"d2": 1, "d49999": 1} for query in run})
    expected = {(query, 1, at, at - 1, 1) for query in range(5) for at in (3, 50_000)}
    for source in (write(table), run, rows, table):
        assert places(judge_run(source, judgements)) == expected


def test_findings_have_row_numbers(write: Write) -> None:
    table = {
        "query_id": ["1", "1", None, "1", "1", "2", "2"],
        "doc_id": ["11", "11", "12", "13", "14", "11", ""],
        "score": [3.0, 2.5, 2.0, None, float("nan"), 1e300, 0.0],
    }
    assert codes(refused(write(table))) == [
        ("duplicate-document", 2), ("id-invalid", 3), ("score-not-number", 4), ("score-nan", 5),
        ("score-infinite", 6), ("id-invalid", 7),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_odd_ranks_are_warnings(write: Write, kind: pa.DataType) -> None:
    ranks = pa.array([0, 3, 2, 2**40], kind)
    warnings = judge_run(write(COLUMNS | {"rank": ranks}), OF_COLUMNS).report.warnings
    assert codes(warnings) == [
        ("rank-zero-based", 1), ("rank-gap", 3), ("rank-order", 3), ("rank-gap", 4),
    ]  # fmt: skip
    assert warnings[1].message == "query '1': rank 2 where 1 was expected"


def test_the_rank_policy_takes_the_rank_column(write: Write) -> None:
    run = judge_run(write(COLUMNS | {"rank": [3, 1, 2, 1]}), OF_COLUMNS, tie_policy="rank")
    assert places(run) == {(0, 1, 1, 0, 1), (0, 2, 2, 1, 1), (1, 1, 1, 0, 1)}
    with pytest.raises(UsageError, match="has no ranks"):
        judge_run(write(COLUMNS), OF_COLUMNS, tie_policy="rank")


def test_missing_columns_and_what_is_no_parquet_are_findings(write: Write) -> None:
    path = write({"a": [1], "b": [2]})
    assert "the columns are a, b" in str(refused(path))
    path.write_text("1 Q0 11 1 1 t\n")
    assert codes(refused(path, format="parquet")) == [("truncated-input", 0)]


RECORDS = [(query, doc, score) for query, docs in MAPPING.items() for doc, score in docs.items()]


class Scored(NamedTuple):
    query_id: str
    doc_id: str
    score: float


@pytest.mark.parametrize(
    "source",
    [
        MAPPING,
        pd.DataFrame(RECORDS, columns=["query_id", "doc_id", "score"]),
        pd.DataFrame(RECORDS, columns=["qid", "docno", "score"]).sample(frac=1, random_state=1),
        RECORDS,
        [Scored(query, doc, np.float32(score)) for query, doc, score in RECORDS],
        ({"qid": query, "docno": doc, "score": score} for query, doc, score in RECORDS),
    ],
    ids=["mapping", "table", "PyTerrier", "tuples", "named tuples", "mappings"],
)
def test_reads_runs_in_memory(source: Any) -> None:
    run = judge_run(source, JUDGEMENTS)
    assert (places(run), run.report.digest) == (PLACES, "")


def test_integer_ids_in_memory_stand_for_their_digits() -> None:
    table = pa.table({"query_id": ["q1", "q1"], "doc_id": [7, 8], "score": [2.0, 1.0]})
    frame = pd.DataFrame({"qid": ["q1", "q1"], "docno": [7, 8], "score": [2.0, 1.0]})
    assert read_run(table) == read_run(frame) == {"q1": {"7": 2.0, "8": 1.0}}
    with pytest.raises(UsageError, match="the table has no column doc_id or docno"):
        read_run(table.drop_columns("doc_id"))


def test_malformed_values_in_memory_are_findings() -> None:
    records: dict[Any, str] = {
        ("q1", 1.5, 1.0): "id-invalid",
        ("q1", "", 1.0): "id-invalid",
        (None, "d", 1.0): "id-invalid",
        ("q1", "a", "high"): "score-not-number",
        ("q1", "b", float("nan")): "score-nan",
        ("q1", "c", 1e300): "score-infinite",
        ("q1", "e", True): "score-not-number",
        ("q1", "d\udc80", 1.0): "id-invalid",
        ("q1", "f", 10**400): "score-infinite",
    }
    assert codes(refused(list(records))) == [
        (code, n) for n, code in enumerate(records.values(), 1)
    ]
    with pytest.raises(RunError, match="is not a whole number from 0"):
        judge_run([("q1", "d1", 1.0, 10**400)], JUDGEMENTS, tie_policy="rank")


def test_an_id_longer_than_any_line_is_refused(write: Write) -> None:
    long = "x" * (1 << 20)
    sound = Judgements.from_qrels({long: {long: 1}})
    assert judge_run({long: {long: 1.0, long[1:]: 2.0}}, sound).hits.rank.tolist() == [2]
    for query, doc in (("q1", long + "x"), (long + "x", "d1")):
        table = {"query_id": [query], "doc_id": [doc], "score": [1.0]}
        for source in ([(query, doc, 1.0)], write(table)):
            error = refused(source)
            assert codes(error) == [("id-invalid", 1)]
            assert len(str(error)) < 500


@pytest.mark.parametrize("source", [3, {"q1": {"d": 1.0}}, [("q", "d")], pd.DataFrame({"qid": []})])
def test_what_cannot_be_a_run_by_rank_is_a_usage_error(source: Any) -> None:
    with pytest.raises(UsageError):
        judge_run(source, JUDGEMENTS, tie_policy="rank")


def test_a_mapping_that_holds_no_mappings_is_named() -> None:
    assert read_run({"q1": pd.Series({"d1": 2.0})}) == {"q1": {"d1": 2.0}}
    for wrong in (["d1", "d2"], None, 1.0):
        with pytest.raises(UsageError, match=r"query id -> doc id -> score, and query 'q1' has "):
            read_run({"q1": wrong})
