"""Runs as mappings: what is read, and that it is written again as it was."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from msshift_bench.errors import RunError, UnknownNameError, UsageError
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run, read_run
from msshift_bench.runs.writing import write_run

RUN = "q1 Q0 d1 1 9.5 tag\nq2 Q0 d1 1 -3.0 tag\nq2 Q0 d2 2 -4.0 tag\n"
READ = {"q1": {"d1": 9.5}, "q2": {"d1": -3.0, "d2": -4.0}}


def test_a_run_is_read_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text(RUN)
    assert read_run(str(path)) == READ == read_run(READ)
    write_run(str(tmp_path / "b.run"), read_run(path), "tag")
    assert (tmp_path / "b.run").read_text() == RUN


def test_several_files_are_one_run_and_queries_may_be_interleaved(tmp_path: Path) -> None:
    lines = RUN.splitlines(keepends=True)
    (tmp_path / "a.run").write_text(lines[2] + lines[0])
    (tmp_path / "b.run").write_text(lines[1])
    assert read_run([tmp_path / "a.run", str(tmp_path / "b.run")]) == READ


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RUN.encode())))
    assert read_run("-") == READ


def test_without_scores_a_better_rank_is_a_higher_score(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q a 2\nq b 1\n")
    assert read_run(tmp_path / "a.run") == {"q": {"a": -2.0, "b": -1.0}}


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "empty-file"), ("q Q0 d 1\n", "field-count"), (RUN + RUN, "duplicate-document")],
)
def test_what_is_malformed_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "a.run").write_text(text)
    with pytest.raises(RunError, match=error):
        read_run(tmp_path / "a.run")


def test_what_is_odd_is_refused_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q Q0 d 7 1 t\n")
    assert read_run(tmp_path / "a.run") == {"q": {"d": 1.0}}
    with pytest.raises(RunError, match="rank-gap"):
        read_run(tmp_path / "a.run", strict=True)


def test_an_arrow_table_is_a_table() -> None:
    table = pa.table({"query_id": ["q1", "q1"], "doc_id": [7, 8], "score": [2.0, 1.0]})
    assert read_run(table) == {"q1": {"7": 2.0, "8": 1.0}}
    with pytest.raises(UsageError, match="the table has no column doc_id or docno"):
        read_run(table.drop_columns("doc_id"))


def test_a_mapping_that_holds_no_mappings_is_named() -> None:
    assert read_run({"q1": pd.Series({"d1": 2.0})}) == {"q1": {"d1": 2.0}}
    for wrong in (["d1", "d2"], None, 1.0):
        with pytest.raises(UsageError, match=r"query id -> doc id -> score, and query 'q1' has "):
            read_run({"q1": wrong})


def test_a_number_that_no_float_holds_is_a_finding() -> None:
    with pytest.raises(RunError, match="infinite as a 32-bit float"):
        read_run({"q1": {"d1": 10**400}})
    with pytest.raises(RunError, match="is not a whole number from 0"):
        judge_run([("q1", "d1", 1.0, 10**400)], Judgements({}), tie_policy="rank")


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="run format"):
        read_run(tmp_path / "a.run", format="csv")
    with pytest.raises(UsageError, match="a run is a path"):
        read_run(7)
