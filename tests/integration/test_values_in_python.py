"""What a user sees of values in a notebook: numbers, short reprs, and what pandas is needed for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from msshift_bench import (
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


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values")
    write_runs(folder / "dense", data, seeds=(1, 2))
    write_runs(folder / "bm25", data, one=True)
    return folder


def test_numbers_are_written_as_numbers() -> None:
    values = [0.34619999999999995, -0.0, float("nan"), None, 1e-12, 1 / 3, 1234567.0, 7]
    text = csv_text(["name", *"abcdefgh"], [["a,b", *values]])
    assert text.splitlines()[1] == '"a,b",0.3462,0,,,1e-12,0.3333333333,1234567,7'


def test_without_pandas_an_error_names_the_extra(
    data: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = score_runs([runs / "bm25" / "length.run.gz"], "length-short", data=data)
    monkeypatch.setitem(sys.modules, "pandas", None)
    wanted = r"a data frame needs the 'pandas' extra; .*: pip install -e '\.\[pandas\]'"
    with pytest.raises(MissingExtraError, match=wanted) as caught:
        result.to_pandas()
    assert caught.value.exit_code == 3


def test_values_have_short_reprs(data: Path, runs: Path) -> None:
    dataset = open_dataset(data)
    result = evaluate_run_sets(runs, dataset)
    dense = result.scores[1]
    scored = [result, result.figures, dense, next(iter(dense.runs.values())), dense.shift]
    opened = [dataset, open_test_set("length-short", dataset), find_run_sets(runs)[0]]
    for value in (*scored, *opened):
        shown = repr(value).replace(str(data), "").replace(str(runs), "")
        assert type(value).__name__ in shown
        assert len(shown) < 160, shown
        assert "\n" not in shown
    assert repr(dense) == "<Scores: dense on length, 4 runs, 106 queries>"
    assert repr(Settings().measures) == "(Measure('RR@10'),)"
