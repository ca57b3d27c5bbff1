"""Graded judgements: measures that count the lowest grade as relevant say so, with their name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.evaluation import Settings, score_runs

QRELS = {f"q{n}": {f"a{n}": 1, f"b{n}": 3} for n in range(24)}
RUN = {query: dict.fromkeys(docs, 1.0) for query, docs in QRELS.items()}
BOTH = {query: {**docs, "x": 0.5} for query, docs in RUN.items()}


def remarks(measures: str, qrels: dict[str, dict[str, int]]) -> list[str]:
    doubts = score_runs([BOTH], qrels, Settings(measures)).doubts
    return [doubt for doubt in doubts if "judgements" in doubt]


def test_a_measure_that_counts_grade_1_names_the_one_that_does_not() -> None:
    (remark,) = remarks("nDCG@10 R@1000 RR@10", QRELS)
    assert "judgements go up to 3; a passage is relevant from 1 on for R@1000 and RR@10" in remark
    assert "from 2 on for R(rel=2)@1000 and RR(rel=2)@10" in remark


@pytest.mark.parametrize("measures", ["nDCG@10", "R(rel=2)@1000", "NumRet"])
def test_measures_of_grades_need_no_remark(measures: str) -> None:
    assert remarks(measures, QRELS) == []


def test_judgements_without_grades_need_none() -> None:
    assert remarks("R@1000", {query: dict.fromkeys(of, 1) for query, of in QRELS.items()}) == []


@pytest.mark.parametrize("table_format", ["text", "markdown", "latex", "json", "csv"])
def test_every_format_says_it(tmp_path: Path, table_format: str) -> None:
    lines = [f"{q} 0 {doc} {grade}\n" for q, docs in QRELS.items() for doc, grade in docs.items()]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    rows = [f"{q} Q0 {doc} 1 {score} t\n" for q, docs in RUN.items() for doc, score in docs.items()]
    (tmp_path / "a.run").write_text("".join(rows))
    words = ["score", str(tmp_path / "a.run"), "--qrels", str(tmp_path / "qrels.txt")]
    done = CliRunner().invoke(app, [*words, "--measures", "R@1000", "--format", table_format])
    assert done.exit_code == 0, done.stderr
    assert "R(rel=2)@1000" in done.stderr
    assert ("R(rel=2)@1000" in done.stdout.replace("\\", "")) == (table_format != "csv")
