"""What a user sees of values in a notebook: data frames, long tables, and short reprs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench import (
    Evaluator,
    JudgedQueries,
    Settings,
    compare_run_sets,
    compare_runs,
    evaluate_run_sets,
    evaluate_runs,
    find_run_sets,
    open_dataset,
)
from msshift_bench.errors import MissingExtraError
from msshift_bench.output.tidy import FIGURE_COLUMNS, FigureRow, LongTable
from tests.conftest import Build

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values")
    write_runs(folder / "dense", data, seeds=(1, 2))
    write_runs(folder / "bm25", data, one=True)
    return folder


def test_a_report_as_a_data_frame_holds_the_very_figures(data: Path, runs: Path) -> None:
    report = evaluate_run_sets(runs, data, settings=Settings("RR@10 nDCG@10"))
    frame = report.to_pandas()
    assert list(frame.columns) == list(FIGURE_COLUMNS)
    found = frame.set_index(["system", "measure", "group", "figure"]).sort_index()
    dense = next(one for one in report.systems if one.system == "dense")
    loss = dense.measures["nDCG@10"].loss
    assert loss is not None
    assert loss.intervals is not None
    whole = found.loc["dense", "nDCG@10", "mean", "rel_loss"]
    assert (whole.value, whole.p) == (loss.rel_loss, loss.p)
    assert (whole.low, whole.high) == loss.intervals.rel_loss
    assert (whole.queries, whole.seeds) == (sum(g.queries for g in loss.groups.values()), 2)
    short = found.loc["dense", "nDCG@10", "short", "rel_loss"]
    assert short.p == loss.adjusted_p["short"]
    bm25 = found.loc["bm25", "RR@10"]
    assert set(bm25.reset_index().figure) == {"score"}
    assert bm25.seeds.isna().all()
    assert frame.dtypes[["value", "low", "high", "p"]].eq("float64").all()
    assert frame.dtypes[["queries", "seeds"]].eq("Int64").all()


def test_slices_have_their_label(data: Path, runs: Path) -> None:
    labels = {row.query_id: row.group for row in open_dataset(data).rows("wh-words", "queries")}
    report = evaluate_run_sets([runs / "dense"], data, labels=labels)
    frame = report.to_pandas()
    assert list(frame.columns) == [*FIGURE_COLUMNS, "label"]
    assert list(dict.fromkeys(frame.label)) == ["", *report.slices]


def test_other_values_as_data_frames(data: Path, runs: Path) -> None:
    short = JudgedQueries.of_config("length-short", data)
    files = [runs / "bm25" / "length.run.gz", runs / "dense" / "length" / "seed-1" / "long.run.gz"]
    single = evaluate_runs(files, short).to_pandas()
    assert list(single.figure) == ["mean", "mean"]
    compared = compare_runs(files, short).to_pandas()
    difference = compared[compared.against != ""].iloc[0]
    assert difference.value == pytest.approx(single.value[0] - single.value[1])
    rows = open_dataset(data).rows("length-short", "test")
    frame = rows.to_pandas()
    assert list(frame.query_id) == [row.query_id for row in rows]


def test_numbers_are_written_as_numbers() -> None:
    row = FigureRow("s", "a,b", "m", "g", "f", 0.34619999999999995, -0.0, float("nan"), 1e-12, 7)
    whole = FigureRow("s", "a", "m", "g", "f", 1234567.0, 1 / 3)
    lines = LongTable([row, whole], FIGURE_COLUMNS).to_csv().splitlines()
    assert lines[1:] == ['s,"a,b",m,g,f,0.3462,0,,1e-12,7,', "s,a,m,g,f,1234567,0.3333333333,,,,"]


def test_without_pandas_an_error_says_how_to_get_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    wanted = r"a data frame needs the 'pandas' extra: pip install 'msshift-bench\[pandas\]'"
    with pytest.raises(MissingExtraError, match=wanted) as caught:
        LongTable([], FIGURE_COLUMNS).to_pandas()
    assert caught.value.exit_code == 3
    with pytest.raises(MissingExtraError, match=wanted):
        open_dataset(data).rows("length-short", "test").to_pandas()


def test_values_have_short_reprs(data: Path, runs: Path) -> None:
    dataset = open_dataset(data)
    report = evaluate_run_sets(runs, dataset)
    short = JudgedQueries.of_config("length-short", dataset)
    files = [runs / "bm25" / "length.run.gz", runs / "dense" / "length" / "seed-1" / "long.run.gz"]
    evaluated = evaluate_runs(files, short)
    compared = compare_run_sets(runs, dataset)
    dense = report.systems[1]
    values = [
        dataset,
        dataset.rows("length", "queries"),
        report,
        report.tidy(),
        dense,
        dense.scores,
        dense.scores.runs[0],
        dense.measures["RR@10"],
        dense.measures["RR@10"].loss,
        dense.measures["RR@10"].measure,
        dense.shift,
        dense.measures["RR@10"].scores["short"],
        short,
        evaluated,
        evaluated.runs[0],
        compared,
        compared.comparisons[0],
        Evaluator.from_dataset("length", dataset),
        find_run_sets(runs)[0],
    ]
    for value in values:
        shown = repr(value).replace(str(data), "").replace(str(runs), "")
        assert type(value).__name__ in shown
        assert len(shown) < 160, shown
        assert "\n" not in shown
    assert repr(report) == "<Report: bm25, dense on length, RR@10>"
    assert repr(compared) == "<ComparisonReport: bm25, dense on length>"
    assert repr(report.settings.measures) == "(Measure('RR@10'),)"


def test_rows_are_read_without_pandas(data: Path) -> None:
    script = (
        "import sys\n"
        "from msshift_bench import open_dataset\n"
        "repr(list(open_dataset(sys.argv[1]).rows('length-short', 'test')))\n"
        "assert 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script, data], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
