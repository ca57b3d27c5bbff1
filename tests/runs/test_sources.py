"""Runs in Parquet files, and runs given as values: tables, mappings and records."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import RunError, UsageError
from msshift_bench.runs import Judgements, judge_run, read_run
from tests.runs.conftest import codes, places

JUDGEMENTS = Judgements.from_qrels({"1": {"12": 1, "14": 2}, "2": {"11": 1}})
COLUMNS = {
    "query_id": ["1", "1", "1", "2"],
    "doc_id": ["11", "12", "14", "11"],
    "score": [3.0, 2.0, 2.0, 1.0],
}
EXPECTED = {(0, 1, 3, 1, 2), (0, 2, 2, 1, 2), (1, 1, 1, 0, 1)}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_table(table: pa.Table | dict, **options: Any) -> Any:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(table), path, **options)
        return path

    return write_table


@pytest.mark.parametrize("ids", [pa.string(), pa.large_string(), pa.int64(), pa.int32()])
@pytest.mark.parametrize("score", [pa.float32(), pa.float64(), pa.int16()])
@pytest.mark.parametrize("ranked", [False, True])
def test_ids_are_strings_or_integers_and_scores_are_numbers(
    write: Callable[..., Path], ids: Any, score: Any, ranked: Any
) -> None:
    table = pa.table(COLUMNS).set_column(2, "score", pa.array(COLUMNS["score"]).cast(score))
    for column, name in enumerate(("query_id", "doc_id")):
        table = table.set_column(column, name, table[name].cast(ids))
    if ranked:
        table = table.append_column("rank", pa.array([1, 2, 3, 1]))
    run = judge_run(write(table), JUDGEMENTS)
    assert places(run) == EXPECTED
    assert run.report.lines == 4
    assert run.report.warning_counts == {}


def test_dictionaries_other_names_and_other_columns_are_understood(
    write: Callable[..., Path],
) -> None:
    table = {
        "docno": pa.array(COLUMNS["doc_id"]).dictionary_encode(),
        "text": ["", "", "", ""],
        "qid": pa.array(COLUMNS["query_id"]).dictionary_encode(),
        "score": COLUMNS["score"],
    }
    assert places(judge_run(write(table), JUDGEMENTS)) == EXPECTED


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [0, 3, 1, 2]])
def test_the_order_of_rows_does_not_matter(write: Callable[..., Path], order: Any) -> None:
    table = pa.table(COLUMNS).take(order)
    assert places(judge_run(write(table, row_group_size=2), JUDGEMENTS)) == EXPECTED


def test_more_rows_than_are_read_at_once(write: Callable[..., Path]) -> None:
    run = {f"q{query}": {f"d{doc}": float(-doc) for doc in range(50_000)} for query in range(5)}
    rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
    table = pa.table(list(zip(*rows, strict=True)), ["query_id", "doc_id", "score"])
    judgements = Judgements.from_qrels({query: {"d2": 1, "d49999": 1} for query in run})
    expected = {(query, 1, at, at - 1, 1) for query in range(5) for at in (3, 50_000)}
    for source in (write(table), run, rows, table):
        assert places(judge_run(source, judgements)) == expected


def test_reads_standard_input(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with write(COLUMNS).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        assert places(judge_run("-", JUDGEMENTS)) == EXPECTED


def test_findings_have_row_numbers(write: Callable[..., Path]) -> None:
    table = {
        "query_id": ["1", "1", None, "1", "1", "2", "2"],
        "doc_id": ["11", "11", "12", "13", "14", "11", ""],
        "score": [3.0, 2.5, 2.0, None, float("nan"), 1e300, 0.0],
    }
    with pytest.raises(RunError) as caught:
        judge_run(write(table), JUDGEMENTS)
    assert [(finding.code, finding.line) for finding in caught.value.findings] == [
        ("duplicate-document", 2),
        ("id-invalid", 3),
        ("score-not-number", 4),
        ("score-nan", 5),
        ("score-infinite", 6),
        ("id-invalid", 7),
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"query_id": [1.0, 1.0, 1.0, 2.0]}, "id-invalid"),
        ({"query_id": ["1", "1", "", "2"]}, "id-invalid"),
        ({"doc_id": ["11", "", "14", "11"]}, "id-invalid"),
        ({"score": ["a", "b", "c", "d"]}, "score-not-number"),
        ({"rank": [1.5, 2.0, 3.0, 1.0]}, "rank-not-integer"),
        ({"rank": [1, 2, None, 1]}, "rank-not-integer"),
    ],
)
def test_columns_of_other_types_are_findings(
    write: Callable[..., Path], changes: Any, code: str
) -> None:
    with pytest.raises(RunError, match=code):
        judge_run(write(COLUMNS | changes), JUDGEMENTS)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_odd_ranks_are_warnings(write: Callable[..., Path], kind: pa.DataType) -> None:
    ranks = pa.array([0, 3, 2, 2**40], kind)
    run = judge_run(write(COLUMNS | {"rank": ranks}), JUDGEMENTS)
    assert [(warning.code, warning.line) for warning in run.report.warnings] == [
        ("rank-zero-based", 1),
        ("rank-gap", 3),
        ("rank-order", 3),
        ("rank-gap", 4),
    ]
    assert run.report.warnings[1].message == "query '1': rank 2 where 1 was expected"


def test_the_rank_policy_takes_the_rank_column(write: Callable[..., Path]) -> None:
    run = judge_run(write(COLUMNS | {"rank": [3, 1, 2, 1]}), JUDGEMENTS, tie_policy="rank")
    assert places(run) == {(0, 1, 1, 0, 1), (0, 2, 2, 1, 1), (1, 1, 1, 0, 1)}
    with pytest.raises(UsageError, match="has no ranks"):
        judge_run(write(COLUMNS), JUDGEMENTS, tie_policy="rank")


def test_missing_columns_empty_and_damaged_files_are_findings(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="the columns are a, b"):
        judge_run(write({"a": [1], "b": [2]}), JUDGEMENTS)
    empty = {"query_id": pa.array([], pa.string()), "doc_id": pa.array([], pa.string())}
    with pytest.raises(RunError, match="empty-file"):
        judge_run(write(empty | {"score": pa.array([], pa.float64())}), JUDGEMENTS)
    path = write(COLUMNS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RunError, match="truncated-input"):
        judge_run(path, JUDGEMENTS)
    path.write_text("1 Q0 11 1 1 t\n")
    with pytest.raises(RunError, match="truncated-input"):
        judge_run(path, JUDGEMENTS, format="parquet")


RUN = {"q1": {"d1": 9.5, "d2": 9.5, "d3": 9.5, "d4": 1}, "q2": {"d1": -3}}
RECORDS = [(query, doc, score) for query, docs in RUN.items() for doc, score in docs.items()]
OF_RUN = Judgements.from_qrels({"q1": {"d2": 1, "d4": 2}, "q2": {"d1": 1}, "q3": {"d9": 1}})


class Scored(NamedTuple):
    query_id: str
    doc_id: str
    score: float


@pytest.mark.parametrize(
    "source",
    [
        RUN,
        pd.DataFrame(RECORDS, columns=["query_id", "doc_id", "score"]),
        pd.DataFrame(RECORDS, columns=["qid", "docno", "score"]).sample(frac=1, random_state=1),
        RECORDS,
        [Scored(query, doc, np.float32(score)) for query, doc, score in RECORDS],
        ({"qid": query, "docno": doc, "score": score} for query, doc, score in RECORDS),
    ],
    ids=["mapping", "table", "PyTerrier", "tuples", "named tuples", "mappings"],
)
def test_reads_runs_in_memory(source: Any) -> None:
    run = judge_run(source, OF_RUN)
    assert places(run) == {(0, 1, 2, 0, 3), (0, 2, 4, 3, 1), (1, 1, 1, 0, 1)}
    assert run.report.digest == ""


def test_integer_ids_in_memory_stand_for_their_digits() -> None:
    table = pa.table({"query_id": ["q1", "q1"], "doc_id": [7, 8], "score": [2.0, 1.0]})
    frame = pd.DataFrame({"qid": ["q1", "q1"], "docno": [7, 8], "score": [2.0, 1.0]})
    assert read_run(table) == read_run(frame) == {"q1": {"7": 2.0, "8": 1.0}}
    with pytest.raises(UsageError, match="the table has no column doc_id or docno"):
        read_run(table.drop_columns("doc_id"))


def test_malformed_values_in_memory_are_findings() -> None:
    records = [
        ("q1", 1.5, 1.0),
        ("q1", "", 1.0),
        (None, "d", 1.0),
        ("q1", "a", "high"),
        ("q1", "b", float("nan")),
        ("q1", "c", 1e300),
        ("q1", "e", True),
        ("q1", "d\udc80", 1.0),
        ("q1", "f", 10**400),
    ]
    with pytest.raises(RunError) as caught:
        judge_run(records, OF_RUN)
    assert codes(caught.value) == [
        ("id-invalid", 1),
        ("id-invalid", 2),
        ("id-invalid", 3),
        ("score-not-number", 4),
        ("score-nan", 5),
        ("score-infinite", 6),
        ("score-not-number", 7),
        ("id-invalid", 8),
        ("score-infinite", 9),
    ]
    with pytest.raises(RunError, match="is not a whole number from 0"):
        judge_run([("q1", "d1", 1.0, 10**400)], OF_RUN, tie_policy="rank")


def test_an_id_longer_than_any_line_is_refused(write: Callable[..., Path]) -> None:
    long = "x" * (1 << 20)
    sound = Judgements.from_qrels({long: {long: 1}})
    assert judge_run({long: {long: 1.0, long[1:]: 2.0}}, sound).hits.rank.tolist() == [2]
    for query, doc in (("q1", long + "x"), (long + "x", "d1")):
        table = {"query_id": [query], "doc_id": [doc], "score": [1.0]}
        for source in ([(query, doc, 1.0)], write(table)):
            with pytest.raises(RunError) as caught:
                judge_run(source, OF_RUN)
            assert codes(caught.value) == [("id-invalid", 1)]
            assert len(str(caught.value)) < 500


@pytest.mark.parametrize("source", [3, {"q1": {"d": 1.0}}, [("q", "d")], pd.DataFrame({"qid": []})])
def test_what_cannot_be_a_run_by_rank_is_a_usage_error(source: Any) -> None:
    with pytest.raises(UsageError):
        judge_run(source, OF_RUN, tie_policy="rank")


def test_a_mapping_that_holds_no_mappings_is_named() -> None:
    assert read_run({"q1": pd.Series({"d1": 2.0})}) == {"q1": {"d1": 2.0}}
    for wrong in (["d1", "d2"], None, 1.0):
        with pytest.raises(UsageError, match=r"query id -> doc id -> score, and query 'q1' has "):
            read_run({"q1": wrong})
