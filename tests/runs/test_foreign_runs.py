"""Runs and qrels as other people's tools write them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import ir_measures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import msshift_bench as ms
from msshift_bench.errors import CollectionError, RunError, UsageError
from msshift_bench.evaluation import Settings
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements
from tests.runs.conftest import Write, codes

RUN = {"#1": {"d1": 2.0, "d2": 1.0}, "2": {"d1": 2.0, "d2": 1.0}}


def mean_rr(qrels: Path) -> float:
    """Return the mean RR of `RUN` by our reader."""
    return float(
        ms.score_runs([RUN], qrels, Settings("RR")).figures.first(figure="score").value or 0
    )


def by_ir_measures(qrels: Mapping[str, Mapping[str, int]]) -> float:
    return float(ir_measures.calc_aggregate([ir_measures.RR], qrels, RUN)[ir_measures.RR])


def test_a_query_id_may_begin_with_a_number_sign(write: Write) -> None:
    """trec_eval withdrew its rule of comments (its issue 46): 0.5 over two queries, not 1."""
    qrels = write("#1 0 d9 1\n2 0 d1 1\n", "q.qrels")
    assert ms.read_qrels(qrels) == [Qrel("#1", "d9", 1), Qrel("2", "d1", 1)]
    assert mean_rr(qrels) == by_ir_measures({"#1": {"d9": 1}, "2": {"d1": 1}}) == 0.5


@pytest.mark.parametrize("comment", ["# made by us", "# by us", "#", "# from the track of 2019"])
def test_a_comment_in_qrels_is_refused_by_its_line(write: Write, comment: str) -> None:
    with pytest.raises(CollectionError) as caught:
        ms.read_qrels(write(f"1 0 d1 1\n{comment}\n", "q.qrels"))
    (finding,) = caught.value.findings
    assert finding.line == 2
    assert "comment" in finding.fix


def test_whole_grades_may_be_written_as_decimals(write: Write) -> None:
    qrels = write("#1 0 d2 1.0\n2 0 d1 1.00\n2 0 d2 0.0\n", "q.qrels")
    assert ms.read_qrels(qrels) == [Qrel("#1", "d2", 1), Qrel("2", "d1", 1), Qrel("2", "d2", 0)]
    assert mean_rr(qrels) == by_ir_measures({"#1": {"d2": 1}, "2": {"d1": 1}}) == 0.75
    judged = Judgements.from_qrels({"2": {"d1": 1.0, "d2": 0.0}})  # type: ignore[dict-item]
    assert judged.judged == {"2": {"d1": 1, "d2": 0}}


@pytest.mark.parametrize(
    "header",
    [
        "query-id\tcorpus-id\tscore",
        "query_id\tcorpus_id\tscore",
        '"query-id"\t"corpus-id"\t"score"',
        "qid docno label",
        "Query_ID Doc_ID Relevance",
        "#qid docid rel",
    ],
)
def test_a_header_of_qrels_is_left_out(write: Write, header: str) -> None:
    assert ms.read_qrels(write(f"{header}\n2\td1\t1\n", "q.tsv")) == [Qrel("2", "d1", 1)]
    four = header.replace(" ", " iter ", 1).replace("\t", "\titer\t", 1)
    assert ms.read_qrels(write(f"{four}\n2\t0\td1\t1\n", "q.qrels")) == [Qrel("2", "d1", 1)]


def test_an_unknown_header_of_qrels_is_refused_with_the_cure(write: Write) -> None:
    with pytest.raises(CollectionError, match="remove a header") as caught:
        ms.read_qrels(write("a b c\n2 d1 1\n", "q.tsv"))
    assert codes(caught.value) == [("relevance-not-integer", 1)]


def test_diversity_qrels_are_refused_where_subtopics_differ(write: Write) -> None:
    with pytest.raises(CollectionError, match="subtopic") as caught:
        ms.read_qrels(write("1 1 d1 1\n1 2 d1 0\n", "q.qrels"))
    assert codes(caught.value) == [("duplicate-judgement", 2)]


def test_a_run_of_decimals_and_of_bytes_is_read(tmp_path: Path) -> None:
    expected = {"q1": {"d1": 2.5, "d2": 1.25}}
    columns = {
        "query_id": pa.array([b"q1", b"q1"], pa.binary()),
        "doc_id": pa.array([b"d1", b"d2"], pa.large_binary()),
        "score": pa.array([Decimal("2.50"), Decimal("1.25")]),
    }
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table(columns), path)
    assert ms.read_run(path) == expected
    assert ms.read_run(pa.table(columns)) == expected
    assert ms.read_run({"q1": {"d1": Decimal("2.5"), "d2": Decimal("1.25")}}) == expected
    for wrong in (b"\xff", b""):
        report = ms.validate_run([(wrong, "d1", 1.0)])
        assert [finding.code for finding in report.errors] == ["id-invalid"]
    report = ms.validate_run({"q1": {"d1": Decimal("sNaN")}})
    assert [finding.code for finding in report.errors] == ["score-not-number"]


def test_tables_of_ranx_are_read(tmp_path: Path) -> None:
    """ranx 0.3.21 names the columns of `Run.to_dataframe` and of ``.parquet`` so."""
    table = pa.table({"q_id": ["2", "2"], "doc_id": ["d1", "d2"], "score": [2.0, 1.0]})
    pq.write_table(table, tmp_path / "ranx.parquet")
    for run in (table, table.to_pandas(), tmp_path / "ranx.parquet"):
        assert ms.read_run(run) == {"2": {"d1": 2.0, "d2": 1.0}}
    # A run is no table of judgements, whatever its scores.
    with pytest.raises(UsageError, match="relevance or label"):
        Judgements.from_qrels(table.rename_columns(["query_id", "doc_id", "score"]))


def test_a_relative_path_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"query_id": ["q1"], "doc_id": ["d1"], "score": [1.0]})
    with Path("bm25:k1=0.9.parquet").open("wb") as file:
        pq.write_table(table, file)
    assert ms.read_run("bm25:k1=0.9.parquet") == {"q1": {"d1": 1.0}}
    assert ms.validate_run("bm25:k1=0.9.parquet").ok


@pytest.mark.parametrize(
    "name", ["x.json", "x.JSON", "x.json.gz", "x.parquet", "x.csv", "x.xz", "x.run.zst"]
)
def test_a_run_is_written_under_the_ending_of_a_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.run"):
        ms.write_run(tmp_path / name, RUN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("table", ["dense/length.csv", "dense/length/long.csv"])
@pytest.mark.parametrize("other", ["bm25/length.run", "dense/wh-words.run"])
def test_a_table_in_the_place_of_a_run_is_an_error(tmp_path: Path, table: str, other: str) -> None:
    """Beside another system, and in a system's own folder."""
    for name in (table, other):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("q1 Q0 d1 1 1 t\n")
    with pytest.raises(RunError) as caught:
        ms.find_run_sets(tmp_path)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("no-place", str(tmp_path / table))
    assert "<shift>/<held-out group>.run" in finding.fix
    (tmp_path / "length.csv").write_text("figure,value\n")
    (tmp_path / table).unlink()
    if table.count("/") == 1:
        assert len(ms.find_run_sets(tmp_path)) == 1
