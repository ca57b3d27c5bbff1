from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import RunError, UsageError
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run
from msshift_bench.runs.reading import parquet

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


def places(run: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.stack(run.hits, axis=1).tolist()}


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
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_neither_order_nor_batches_matter(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, order: Any, batch_rows: int
) -> None:
    monkeypatch.setattr(parquet, "_BATCH_ROWS", batch_rows)
    table = pa.table(COLUMNS).take(order)
    assert places(judge_run(write(table, row_group_size=2), JUDGEMENTS)) == EXPECTED


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


def test_odd_ranks_are_warnings(write: Callable[..., Path]) -> None:
    run = judge_run(write(COLUMNS | {"rank": [0, 1, 2, 2**40]}), JUDGEMENTS)
    assert run.report.warning_counts == {"rank-gap": 1, "rank-zero-based": 1}


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
