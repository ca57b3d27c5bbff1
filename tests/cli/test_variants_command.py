"""`msshift variants`: where queries come from, and the counts of edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Build, Command


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


def test_variants_are_counted_by_method_and_kind_of_edit(data: Path, msshift: Command) -> None:
    make = ("variants", "typos", "--data", data, "--copies", "3")
    done = msshift(*make)
    assert done.returncode == 0, done.stderr
    assert "Edits" in done.stdout
    counts = json.loads(msshift(*make, "--format", "json").stdout)
    assert counts.keys() == {"queries", "edits"}
    assert counts["queries"] == 106
    totals = {method: sum(found.values()) for method, found in counts["edits"].items()}
    assert totals == {"typos-1": 106, "typos-2": 106, "typos-3": 106}


def test_queries_are_of_a_data_set_with_texts_or_of_a_file(
    data: Path, tmp_path: Path, msshift: Command, build_once: Build
) -> None:
    (tmp_path / "queries.tsv").write_text("1\tcheap flights\n2\tflights to rome\n")
    make = ("variants", "typos", "--out", "made.tsv")
    done = msshift(*make, "--queries", "queries.tsv")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in (tmp_path / "made.tsv").read_text().splitlines()]
    assert [line[0] for line in lines] == ["1", "2"]
    done = msshift(*make, "--queries", "queries.tsv", "--shift", "length")
    assert (done.returncode, "--shift cannot be used with --queries" in done.stderr) == (2, True)
    done = msshift(*make, "--data", build_once("mini:300", "length", texts=False))
    assert done.returncode == 2
    assert "has ids only; add the texts with 'msshift import'" in done.stderr
