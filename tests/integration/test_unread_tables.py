"""Files that a command writes although nobody reads its tables."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.cli import app
from tests.support.fabricated import write_runs


class Unread(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_evaluate_writes_its_files_before_its_tables(data: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "dense", data)
    files = tmp_path / "figures.json", tmp_path / "scores.parquet"
    words = ["evaluate", tmp_path / "dense", "--data", data]
    words += ["--output", files[0], "--per-query", files[1]]
    with contextlib.redirect_stdout(Unread()), pytest.raises(BrokenPipeError):
        app(list(map(str, words)), standalone_mode=False)
    assert files[0].stat().st_size
    assert pq.read_table(files[1])["measure"].unique().to_pylist() == ["RR@10"]
