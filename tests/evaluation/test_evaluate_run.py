"""One run, any qrels, one call."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.errors import CollectionError, NotFoundError, RunError, UnknownNameError
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.single import JudgedQueries, evaluate_run, evaluate_runs
from msshift_bench.records import Qrel
from msshift_bench.runs.qrels import read_qrels
from msshift_bench.runs.reader import read_run

RUN = "q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 x 1 9 t\n"
QRELS = "q1 0 a 1\nq1 0 c 1\nq2 0 d 1\n"
MEANS = {"RR@10": 0.25, "R@10": 0.25}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.run").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path


def forms_of(path: Path, read: Any) -> list[Any]:
    return [path, str(path), read(str(path))]


def test_run_and_qrels_are_paths_text_or_what_was_read_of_them(folder: Path) -> None:
    for run in forms_of(folder / "my.run", read_run):
        for qrels in forms_of(folder / "qrels.txt", read_qrels):
            assert evaluate_run(run, qrels, ("RR@10", "R@10")).means == MEANS


def test_mappings_and_the_records_of_other_packages_are_understood() -> None:
    record = namedtuple("record", "query_id doc_id relevance iteration")
    run = {"q1": {"b": 9, "a": 8}, "q2": {"x": 9}}
    for qrels in (
        {"q1": {"a": 1, "c": 1}, "q2": {"d": 1}},
        [record("q1", "a", 1, "0"), record("q1", "c", 1, "0"), record("q2", "d", 1, "0")],
        iter([Qrel("q1", "a", 1), Qrel("q1", "c", 1), Qrel("q2", "d", 1)]),
    ):
        assert evaluate_run(run, qrels, "RR@10 R@10").means == MEANS


def test_the_measure_is_the_benchmarks_unless_others_are_named(folder: Path) -> None:
    assert evaluate_run(folder / "my.run", folder / "qrels.txt").means == {"RR@10": 0.25}


def test_it_is_the_first_of_many(folder: Path) -> None:
    judged = JudgedQueries.of_qrels(str(folder / "qrels.txt"))
    assert judged.name == str(folder / "qrels.txt")
    (of_many,) = evaluate_runs([str(folder / "my.run")], judged).runs
    assert evaluate_run(str(folder / "my.run"), judged).cells == of_many.cells


def test_queries_that_the_run_lacks_count_are_left_out_or_are_an_error() -> None:
    run, qrels = {"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"d": 1}}
    result = evaluate_run(run, qrels)
    assert (result.means["RR@10"], result.queries, result.cells[0].missing) == (0.5, 2, 1)
    assert result.remarks == [
        "<mapping>: test queries that the run does not hold: 1 of 2 of <qrels>"
    ]
    assert evaluate_runs([run], qrels).remarks == result.remarks
    assert evaluate_run(run, qrels, missing="skip").means == {"RR@10": 1.0}
    with pytest.raises(RunError, match="q2"):
        evaluate_run(run, qrels, missing="error")


def test_ties_are_broken_by_the_policy() -> None:
    run, qrels = {"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}
    assert evaluate_run(run, qrels).means == {"RR@10": 0.5}
    assert evaluate_run(run, qrels, ties="doc-id-ascending").means == {"RR@10": 1.0}


def test_what_is_wrong_is_named(folder: Path) -> None:
    with pytest.raises(NotFoundError, match="no qrels file"):
        JudgedQueries.of_qrels("x")
    with pytest.raises(NotFoundError, match="no file"):
        evaluate_run("x", {"q": {"d": 1}})
    with pytest.raises(CollectionError, match="relevance-not-integer"):
        evaluate_run({"q": {"d": 1}}, [Qrel("q", "d", 0.5)])  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="measure"):
        evaluate_run(folder / "my.run", folder / "qrels.txt", "MRR!")


@pytest.mark.parametrize(
    ("measures", "title"),
    [
        (("RR@10", "AP"), "<qrels>, means x 100"),
        (("RR@10", "ASL@10"), "<qrels>, means x 100 (not ASL@10)"),
        (("ASL@10",), "<qrels>"),
    ],
)
def test_a_title_says_which_means_are_times_100(measures: tuple[str, ...], title: str) -> None:
    qrels = JudgedQueries.of_qrels({"q1": {"a": 1}})
    found = evaluate_runs([{"q1": {"a": 1.0}}], qrels, Settings(measures=measures))
    assert found.table().title == title


def test_a_run_and_qrels_that_are_swapped_are_said_to_be(folder: Path) -> None:
    run, qrels = folder / "my.run", folder / "qrels.txt"
    with pytest.raises(CollectionError, match=r"my.run:1: this is a run \(.*\n.*give the file"):
        evaluate_run(run, run)
    with pytest.raises(RunError, match="found 4 fields, as qrels have, where 6 were expected"):
        evaluate_run(qrels, qrels)
