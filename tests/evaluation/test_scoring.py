"""Single runs on any test set: what both may be, policies, references, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from msshift_bench.errors import RunError
from msshift_bench.evaluation import Settings, open_test_set, score_runs
from msshift_bench.records import Qrel
from msshift_bench.runs import read_qrels, read_run
from tests.support.golden import Golden

RUN = {"q1": {"b": 9, "a": 8}, "q2": {"x": 9}}
QRELS = {"q1": {"a": 1, "c": 1}, "q2": {"d": 1}}
ROWS = [Qrel("q1", "a", 1), Qrel("q1", "c", 1), Qrel("q2", "d", 1)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "my.run"
    path.write_text("q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 x 1 9 t\n")
    return path


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    path = tmp_path / "qrels.txt"
    path.write_text("q1 0 a 1\nq1 0 c 1\nq2 0 d 1\n")
    return path


def means(run: Any, qrels: Any, measures: Any = "RR@10", **settings: Any) -> dict[str, float]:
    result = score_runs([run], qrels, Settings(measures, **settings))
    return {row.measure: row.number for row in result.figures.where(figure="score")}


def test_runs_and_qrels_may_be_anything_that_holds_them(run: Path, qrels: Path) -> None:
    record = namedtuple("record", "query_id doc_id relevance iteration")
    for a_run in (str(run), run, read_run(run), RUN):
        for judged in (
            *(str(qrels), qrels, read_qrels(qrels), open_test_set(qrels), QRELS, iter(ROWS)),
            [record(*row, "0") for row in ROWS],
        ):
            assert means(a_run, judged, ("RR@10", "R@10")) == {"RR@10": 0.25, "R@10": 0.25}
    assert open_test_set(str(qrels)).name == str(qrels)
    figures = score_runs([run], qrels).figures.where(figure="score")
    assert (figures.names("measure"), figures.names("group")) == (["RR@10"], [str(qrels)])


def test_queries_that_the_run_lacks_count_are_left_out_or_are_an_error() -> None:
    run, qrels = {"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"d": 1}}
    result = score_runs([run], qrels)
    counts = {row.figure: row.value for row in result.figures}
    assert counts == {"queries": 2, "missing": 1, "tied": 0, "score": 0.5}
    assert means(run, qrels, missing="skip") == {"RR@10": 1.0}
    with pytest.raises(RunError, match="q2"):
        means(run, qrels, missing="error")


def test_ties_are_broken_by_the_policy_and_bounded() -> None:
    run, qrels = {"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}
    figures = score_runs([run], qrels).figures
    bounds = {row.figure: row.value for row in figures if row.measure}
    assert bounds == {"score": 0.5, "tie_best": 1.0, "tie_worst": 0.5}
    assert means(run, qrels, ties="doc-id-ascending") == {"RR@10": 1.0}


def test_runs_are_compared_with_a_reference_over_queries_only() -> None:
    qrels = {f"q{n}": {"a": 1} for n in range(9)}
    first, second, third = (
        {q: {"a": 1.0, "x": 2.0 * (n % every > 0)} for n, q in enumerate(qrels)}
        for every in (2, 3, 9)
    )
    result = score_runs([first, second, third], qrels, reference=first)
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
    apart = score_runs([second], qrels, reference=first)
    assert [row.value for row in apart.figures.where(against="<mapping> (2)")] == [leads[0].value]
    heads = [table.header for table in apart.tables()]
    assert heads[1] == ("run", "difference", "interval", "p (holm)")


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


def test_what_is_wrong_is_named(run: Path, qrels: Path, golden: Golden) -> None:
    same = run.parent / "." / "my.run"
    refusals = {
        "no qrels": lambda: open_test_set("x.txt"),
        "a whole shift": lambda: open_test_set("length"),
        "an unknown test set": lambda: open_test_set("lenght-short"),
        "no run": lambda: means("x", {"q": {"d": 1}}),
        "a run twice": lambda: score_runs([run, same], qrels),
        "half a relevance": lambda: means({"q": {"d": 1}}, [Qrel("q", "d", 0.5)]),  # type: ignore[arg-type]
        "no measure": lambda: means(run, qrels, "MRR!"),
        "a run as qrels": lambda: means(run, run),
        "qrels as a run": lambda: means(qrels, qrels),
        "a run and itself": lambda: score_runs([RUN], QRELS, reference=RUN),
        "a sum": lambda: score_runs(
            [RUN, {"q1": {"a": 1}}], QRELS, Settings("NumRet"), reference=RUN
        ),
    }
    golden.check_refusals("wrong-scores.txt", refusals)
