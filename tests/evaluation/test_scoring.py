"""Single runs on any test set: what both may be, policies, references, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from msshift_bench.errors import (
    CollectionError,
    NotFoundError,
    RunError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.evaluation import Settings, open_test_set, score_runs
from msshift_bench.records import Qrel
from msshift_bench.runs import read_qrels, read_run

RUN = "q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 x 1 9 t\n"
QRELS = "q1 0 a 1\nq1 0 c 1\nq2 0 d 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.run").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path


def means(run: Any, qrels: Any, measures: Any = "RR@10", **settings: Any) -> dict[str, float]:
    result = score_runs([run], qrels, Settings(measures, **settings))
    return {row.measure: row.number for row in result.figures.where(figure="score")}


def test_runs_and_qrels_may_be_anything_that_holds_them(folder: Path) -> None:
    run, qrels = str(folder / "my.run"), str(folder / "qrels.txt")
    record = namedtuple("record", "query_id doc_id relevance iteration")
    mapping = {"q1": {"b": 9, "a": 8}, "q2": {"x": 9}}
    for a_run in (run, Path(run), read_run(run), mapping):
        for judged in (
            qrels,
            Path(qrels),
            read_qrels(qrels),
            open_test_set(qrels),
            {"q1": {"a": 1, "c": 1}, "q2": {"d": 1}},
            [record("q1", "a", 1, "0"), record("q1", "c", 1, "0"), record("q2", "d", 1, "0")],
            iter([Qrel("q1", "a", 1), Qrel("q1", "c", 1), Qrel("q2", "d", 1)]),
        ):
            assert means(a_run, judged, ("RR@10", "R@10")) == {"RR@10": 0.25, "R@10": 0.25}
    assert open_test_set(qrels).name == qrels
    figures = score_runs([run], qrels).figures.where(figure="score")
    assert (figures.names("measure"), figures.names("group")) == (["RR@10"], [qrels])


def test_queries_that_the_run_lacks_count_are_left_out_or_are_an_error() -> None:
    run, qrels = {"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"d": 1}}
    result = score_runs([run], qrels)
    counts = {row.figure: row.value for row in result.figures}
    assert counts == {"queries": 2, "missing": 1, "tied": 0, "score": 0.5}
    assert result.doubts == [
        "<mapping>: test queries that the run does not hold: 1 of 2 of <qrels>"
    ]
    assert means(run, qrels, missing="skip") == {"RR@10": 1.0}
    with pytest.raises(RunError, match="q2"):
        means(run, qrels, missing="error")


def test_ties_are_broken_by_the_policy_and_bounded() -> None:
    run, qrels = {"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}
    figures = score_runs([run], qrels).figures
    bounds = {row.figure: row.value for row in figures if row.measure}
    assert bounds == {"score": 0.5, "tie_best": 1.0, "tie_worst": 0.5}
    assert means(run, qrels, ties="doc-id-ascending") == {"RR@10": 1.0}


def test_runs_are_compared_with_a_reference_over_queries_only(folder: Path) -> None:
    qrels = {f"q{n}": {"a": 1} for n in range(9)}
    runs = {
        name: {q: {"a": 1.0, "x": 2.0 * (n % every > 0)} for n, q in enumerate(qrels)}
        for name, every in (("first", 2), ("second", 3), ("third", 9))
    }
    reference = runs["first"]
    result = score_runs(list(runs.values()), qrels, reference=reference)
    leads = result.figures.where(against="<mapping>")
    assert leads.names("system") == ["<mapping> (2)", "<mapping> (3)"]
    values = [[1 / (1 + (n % every > 0)) for n in range(9)] for every in (2, 3)]
    expected = scipy.stats.ttest_rel(values[1], values[0])
    assert leads[0].interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert {(row.counts, row.family) for row in leads} == {
        ("queries only", "holm over 2 tests (runs)")
    }
    assert [row.mark for row in leads] == ["†" if (row.p or 0) <= 0.05 else "" for row in leads]
    # It may be another run than those that are scored.
    apart = score_runs([runs["second"]], qrels, reference=reference)
    assert [row.value for row in apart.figures.where(against="<mapping> (2)")] == [leads[0].value]
    assert [table.header for table in apart.tables()][1] == (
        "run", "difference", "interval", "p (holm)",
    )  # fmt: skip
    with pytest.raises(UsageError, match="it takes two runs"):
        score_runs([reference], qrels, reference=reference)
    with pytest.raises(UsageError, match=r"NumRet is a sum.*cannot be compared"):
        score_runs(list(runs.values()), qrels, Settings("NumRet"), reference=reference)


@pytest.mark.parametrize(
    ("measures", "title"),
    [
        (("RR@10", "AP"), "<qrels>, means x 100"),
        (("RR@10", "ASL@10"), "<qrels>, means x 100 (not ASL@10)"),
        (("ASL@10",), "<qrels>"),
    ],
)
def test_a_title_says_which_means_are_times_100(measures: tuple[str, ...], title: str) -> None:
    result = score_runs([{"q1": {"a": 1.0}}], {"q1": {"a": 1}}, Settings(measures))
    assert [table.title for table in result.tables()] == [title]


def test_what_is_wrong_is_named(folder: Path) -> None:
    run, qrels = folder / "my.run", folder / "qrels.txt"
    with pytest.raises(NotFoundError, match=r"no qrels file x\.txt"):
        open_test_set("x.txt")
    with pytest.raises(
        UsageError, match="length is a whole shift; name one test set: length-short"
    ):
        open_test_set("length")
    with pytest.raises(UnknownNameError, match="did you mean 'length-short'"):
        open_test_set("lenght-short")
    with pytest.raises(NotFoundError, match="no file"):
        means("x", {"q": {"d": 1}})
    with pytest.raises(UsageError, match=r"my.run is given twice"):
        score_runs([run, folder / "." / "my.run"], qrels)
    with pytest.raises(CollectionError, match="relevance-not-integer"):
        means({"q": {"d": 1}}, [Qrel("q", "d", 0.5)])  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="measure"):
        means(run, qrels, "MRR!")
    with pytest.raises(CollectionError, match=r"my.run:1: this is a run \(.*\n.*give the file"):
        means(run, run)
    with pytest.raises(RunError, match="found 4 fields, as qrels have, where 6 were expected"):
        means(qrels, qrels)
