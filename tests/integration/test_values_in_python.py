"""What a user sees of values in a notebook: data frames, long tables, and short reprs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from msshift_bench import (
    Figure,
    Settings,
    evaluate_run_sets,
    find_run_sets,
    open_dataset,
    open_test_set,
    score_runs,
)
from msshift_bench.errors import MissingExtraError
from msshift_bench.output import csv_text
from tests.conftest import Build
from tests.support.fabricated import write_runs

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


def test_a_data_frame_holds_the_very_figures(data: Path, runs: Path) -> None:
    result = evaluate_run_sets(runs, data, settings=Settings("RR@10 nDCG@10"))
    frame = result.to_pandas()
    assert list(frame.columns) == list(Figure._fields)
    assert len(frame) == len(result.figures)
    for name in ("value", "low", "high", "p", "seed_sd", "seed_share"):
        assert frame[name].dtype == "float64"
        expected = [getattr(figure, name) for figure in result.figures]
        assert list(frame[name].astype(object).where(frame[name].notna(), None)) == expected
    for name in ("queries", "seeds"):
        assert frame[name].dtype == "Int64"
    bm25 = frame[(frame.system == "bm25") & (frame.model == "")]
    assert set(bm25.figure) == {"score", "missing"}
    assert bm25.seeds.isna().all()
    table = result.to_arrow()
    assert table.to_pylist()[0] == result.figures[0]._asdict()
    assert json.loads(table.schema.metadata[b"msshift_bench"])["kind"] == "losses"


def test_slices_have_their_label(data: Path, runs: Path) -> None:
    labels = {row.query_id: row.group for row in open_dataset(data).rows("wh-words", "queries")}
    frame = evaluate_run_sets([runs / "dense"], data, labels=labels).to_pandas()
    assert set(frame.slice) == {"", "others", *labels.values()}


def test_differences_are_rows_too(data: Path, runs: Path) -> None:
    files = [runs / "bm25" / "length.run.gz", runs / "dense" / "length" / "seed-1" / "long.run.gz"]
    frame = score_runs(files, "length-short", data=data, reference=files[1]).to_pandas()
    scores = frame[frame.figure == "score"]
    first, second, lead = scores.value
    assert lead == pytest.approx(first - second)
    assert list(scores.against) == ["", "", str(files[1])]
    rows = open_dataset(data).rows("length-short", "test")
    table = open_dataset(data).table("length-short", "test")
    assert list(table.to_pandas().query_id) == [row.query_id for row in rows]


def test_numbers_are_written_as_numbers() -> None:
    values = [0.34619999999999995, -0.0, float("nan"), None, 1e-12, 1 / 3, 1234567.0, 7]
    text = csv_text(["name", *"abcdefgh"], [["a,b", *values]])
    assert text.splitlines()[1] == '"a,b",0.3462,0,,,1e-12,0.3333333333,1234567,7'


def test_without_pandas_an_error_says_how_to_get_it(
    data: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = score_runs([runs / "bm25" / "length.run.gz"], "length-short", data=data)
    monkeypatch.setitem(sys.modules, "pandas", None)
    wanted = r"a data frame needs the 'pandas' extra: pip install 'msshift-bench\[pandas\]'"
    with pytest.raises(MissingExtraError, match=wanted) as caught:
        result.to_pandas()
    assert caught.value.exit_code == 3


def test_values_have_short_reprs(data: Path, runs: Path) -> None:
    dataset = open_dataset(data)
    result = evaluate_run_sets(runs, dataset)
    dense = result.scores[1]
    values = [
        dataset,
        result,
        result.figures,
        dense,
        next(iter(dense.runs.values())),
        dense.shift,
        open_test_set("length-short", dataset),
        find_run_sets(runs)[0],
    ]
    for value in values:
        shown = repr(value).replace(str(data), "").replace(str(runs), "")
        assert type(value).__name__ in shown
        assert len(shown) < 160, shown
        assert "\n" not in shown
    assert repr(dense) == "<Scores: dense on length, 4 runs, 106 queries>"
    assert repr(Settings().measures) == "(Measure('RR@10'),)"


def test_rows_are_read_without_pandas(data: Path) -> None:
    script = (
        "import sys\n"
        "from msshift_bench import open_dataset\n"
        "repr(list(open_dataset(sys.argv[1]).rows('length-short', 'test')))\n"
        "assert 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script, data], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
