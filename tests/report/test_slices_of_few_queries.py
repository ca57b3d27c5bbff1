"""Pictures of slices leave out slices of few queries."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from msshift_bench.dataset_builders.cut import Samples
from msshift_bench.report import write_report
from tests.conftest import Build
from tests.support.fabricated import write_runs

pytest.importorskip("matplotlib")


@pytest.mark.extended
def test_slices_of_fewer_than_20_queries_are_not_drawn(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.report.writing.PICTURE_FORMATS", ())
    data = build_once("mini:300", "length", "wh-words", samples=Samples(test_size=25))
    runs = write_runs(tmp_path / "steady", data)
    written = write_report(runs, tmp_path / "report", data, ["length"], links=False)
    with (written.page.parent / "figures" / "slices-length.csv").open() as file:
        sizes = {row["slice"]: int(row["queries"]) for row in csv.DictReader(file)}
    length = dict.fromkeys(("short", "long"), 25)
    assert sizes == {
        "all queries: all": 50,
        **{f"held-out group (length): {group}": size for group, size in length.items()},
    }
