"""Single runs on any test set: what both may be, references, refusals, and runs that are odd."""

from __future__ import annotations

import io
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msshift_bench.cli import app
from msshift_bench.data import TestSet
from msshift_bench.errors import RunError
from msshift_bench.evaluation import (
    OpenedRuns,
    OpenedRunSet,
    Settings,
    open_test_set,
    score_opened,
    score_runs,
)
from msshift_bench.records import Qrel
from msshift_bench.runs import find_run_sets, read_qrels, read_run, write_run
from tests.support.refusals import check_refusals

RUN = {"q1": {"b": 9, "a": 8}, "q2": {"x": 9}}
QRELS = {"q1": {"a": 1, "c": 1}, "q2": {"d": 1}}
ROWS = [Qrel("q1", "a", 1), Qrel("q1", "c", 1), Qrel("q2", "d", 1)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The run and the qrels as files."""
    (tmp_path / "my.run").write_text("q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 x 1 9 t\n")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq1 0 c 1\nq2 0 d 1\n")
    return tmp_path / "my.run", tmp_path / "qrels.txt"


def means(run: Any, qrels: Any, measures: Any = "RR@10", **settings: Any) -> dict[str, float]:
    result = score_runs([run], qrels, Settings(measures, **settings))
    return {row.measure: row.number for row in result.figures.where(figure="score")}


def test_runs_and_qrels_may_be_anything_that_holds_them(files: tuple[Path, Path]) -> None:
    run, qrels = files
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


def test_standard_input_has_a_name_of_its_own(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(files[0].read_bytes())))
    result = score_runs(["-"], files[1])
    assert result.figures.names("system") == ["<stdin>"]
    assert [run["name"] for run in result.to_json()["runs"]] == ["<stdin>"]


def test_what_is_wrong_is_named(files: tuple[Path, Path]) -> None:
    run, qrels = files
    same = run.parent / "." / "my.run"
    refusals = {
        "NotFoundError x.txt": lambda: open_test_set("x.txt"),
        "UsageError length-short length-long": lambda: open_test_set("length"),
        "UnknownNameError 'lenght-short'": lambda: open_test_set("lenght-short"),
        "NotFoundError x": lambda: means("x", {"q": {"d": 1}}),
        "UsageError run": lambda: score_runs([], qrels),
        "UsageError my.run": lambda: score_runs([run, same], qrels),
        "DataError my.run qrels": lambda: means(run, {}),
        "DataError qrels": lambda: score_runs(
            [{"q1": {"a": 1}}], QRELS, Settings(missing="skip"), reference={"q2": {"d": 1}}
        ),
        "CollectionError [relevance-not-integer] qrels 'q'": lambda: means(
            {"q": {"d": 1}}, [Qrel("q", "d", 0.5)]
        ),  # type: ignore[arg-type]
        "UnknownNameError 'MRR!'": lambda: means(run, qrels, "MRR!"),
        "CollectionError [field-count] my.run:1 fix": lambda: means(run, run),
        "RunError [field-count] qrels.txt:1 qrels.txt:2 4 fix": lambda: means(qrels, qrels),
        "UsageError two": lambda: score_runs([RUN], QRELS, reference=RUN),
        "UsageError NumRet score": lambda: score_runs(
            [RUN, {"q1": {"a": 1}}], QRELS, Settings("NumRet"), reference=RUN
        ),
    }
    check_refusals(refusals)


# ---- odd runs: ids that lost their zeros, nothing found, shallow ---------------------------------


QUERIES = [f"q{number}" for number in range(24)]
JUDGED = [f"{number:06}" for number in range(100, 124)]
OF_ZEROS = {query: {doc: 1} for query, doc in zip(QUERIES, JUDGED, strict=True)}
SETTINGS = Settings(measures=("RR@10", "R@100"))
Doubts = Callable[..., list[str]]


def write(path: Path, spell: Callable[[str], str] = str, depth: int = 1) -> Path:
    """Write a run that finds every judged passage, its ids spelt in a way, above some others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    docs = {query: [spell(doc), *(f"x{n}" for n in range(1, depth))] for query, doc in
            zip(QUERIES, JUDGED, strict=True)}  # fmt: skip
    write_run(path, {query: {d: -n for n, d in enumerate(of)} for query, of in docs.items()}, "tag")
    return path


def warnings_of_score(folder: Path, **options: Any) -> list[str]:
    return score_runs([write(folder / "a.run", **options)], OF_ZEROS, SETTINGS).warnings


def warnings_of_evaluate(folder: Path, **options: Any) -> list[str]:
    for number, group in enumerate(("short", "long")):
        path = write(folder / "dense" / "length" / f"{group}.run", **options)
        path.write_text(f"{path.read_text()}q0 Q0 y{number} 200 -200.0 tag\n")
    tests = TestSet("length", OF_ZEROS, {"short": QUERIES[:12], "long": QUERIES[12:]})
    opened = OpenedRuns([OpenedRunSet.of(*find_run_sets([folder]), tests)])
    return score_opened(opened, SETTINGS).warnings


DOORS = pytest.mark.parametrize("warnings_of", [warnings_of_score, warnings_of_evaluate])


@DOORS
@pytest.mark.parametrize("spelling", ["{0:.0f}", "{1}.0", "0{1}", "{0:.1f}"])
def test_ids_that_lost_or_gained_zeros_are_refused(
    tmp_path: Path, warnings_of: Doubts, spelling: str
) -> None:
    with pytest.raises(RunError) as caught:
        warnings_of(tmp_path, spell=lambda doc: spelling.format(float(doc), doc))
    (finding,) = caught.value.findings
    assert finding.code == "ids-changed"
    written = spelling.format(100, JUDGED[0])
    assert f"are like {written}, in the judgements like {JUDGED[0]}" in finding.message
    assert "as text" in finding.fix


@DOORS
def test_what_a_run_cannot_show_is_remarked(tmp_path: Path, warnings_of: Doubts) -> None:
    (remark,) = warnings_of(tmp_path, spell=lambda doc: f"other-{doc}", depth=200)
    assert "no relevant passage is retrieved for any of its 24 queries" in remark
    (remark,) = warnings_of(tmp_path, depth=50)
    depth = 50 if warnings_of is warnings_of_score else 51
    assert f"R@100 needs more passages: no ranking has more than {depth}" in remark
    assert ("(2 of 2 run files)" in remark) == (warnings_of is warnings_of_evaluate)
    assert warnings_of(tmp_path, depth=100) == []


def test_ids_that_lost_zeros_are_refused_on_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = write(tmp_path / "a.run", spell=lambda doc: str(int(doc)), depth=100)
    with lost.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(RunError, match="ids-changed"):
            score_runs(["-"], OF_ZEROS, SETTINGS)


def test_query_ids_that_lost_their_zeros_are_told(tmp_path: Path) -> None:
    run = write(tmp_path / "a.run")
    qrels = {f"00{number}": {"d": 1} for number in range(24)}
    run.write_text("".join(f"{number} Q0 d 1 1 tag\n" for number in range(1, 24)))
    with pytest.raises(RunError, match="as text"):
        score_runs([run], qrels, SETTINGS)


def test_options_that_do_nothing_are_refused_and_strictness_refuses_remarks(tmp_path: Path) -> None:
    run = write(tmp_path / "a.run", depth=50)
    lines = [f"{query} 0 {doc} 1\n" for query, docs in OF_ZEROS.items() for doc in docs]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    words = ["score", str(run), "--qrels", str(tmp_path / "qrels.txt"), "--measures", "R@100"]
    for options, message in (
        (["--strict"], "[odd-run]"),
        (["--average", "macro"], "remove --average"),
        (["--correction", "bonferroni"], "add --reference, --shift or --by"),
    ):
        done = CliRunner().invoke(app, [*words, *options])
        assert done.exit_code == 1
        assert message in str(done.exception)


def test_a_run_that_lacks_a_tenth_of_the_queries_is_refused_unless_it_is_asked_for(
    tmp_path: Path,
) -> None:
    run = write(tmp_path / "a.run", depth=10)
    rows = run.read_text().splitlines(keepends=True)

    def without(count: int) -> Path:
        run.write_text("".join(row for row in rows if row.split()[0] not in QUERIES[:count]))
        return run

    with pytest.raises(RunError, match=r" 3 of the 24 .*\[incomplete-run\]") as caught:
        score_runs([without(3)], OF_ZEROS)
    assert "--missing skip leaves them out, and --allow partial counts them 0" in str(caught.value)
    (counted,) = score_runs([run], OF_ZEROS, allow=["partial"]).figures.where(figure="score")
    (skipped,) = score_runs([run], OF_ZEROS, Settings(missing="skip")).figures.where(figure="score")
    assert (counted.value, skipped.value) == (21 / 24, 1.0)
    assert score_runs([without(2)], OF_ZEROS).warnings == [
        f"{run}: test queries missing from the run: 2 of 24 of <qrels>"
    ]
    assert score_runs([without(1)], OF_ZEROS).warnings == []  # less than a twentieth


def test_levels_and_ties_that_decide_a_mean_are_told(tmp_path: Path) -> None:
    settings = Settings(measures=("RR(rel=2)@10", "RR(rel=1)@10"))
    (remark,) = score_runs([write(tmp_path / "a.run", depth=10)], OF_ZEROS, settings).warnings
    assert remark.endswith("RR(rel=2)@10 is 0: no passage has a judgement above 1")
    first = {query: {doc: 2.0, "x": 1.0} for query, doc in zip(QUERIES, JUDGED, strict=True)}
    tied = {**first, "q0": {JUDGED[0]: 1.0, "x": 1.0}}
    shown = [note.text for note in score_runs([tied, first], OF_ZEROS).notes]
    assert [line for line in shown if "by the order of equal scores" in line] == [
        "<mapping>: by the order of equal scores RR@10 is 97.9 to 100.0 on <qrels>"
    ]
