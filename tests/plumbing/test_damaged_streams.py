"""A small share of ``scripts/bench damaged_streams``, and that it notices a reader's errors."""

from __future__ import annotations

import bz2
import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import damaged_streams
from msshift_bench.plumbing import reading
from msshift_bench.plumbing.compression import DamagedInputError


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    missing = [tool for tool in damaged_streams.TOOLS.values() if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.every(2)
@pytest.mark.parametrize("name", damaged_streams.TOOLS)
def test_a_file_that_the_format_s_tool_refuses_is_refused(tmp_path: Path, name: str) -> None:
    outcomes = damaged_streams.try_all(name, 40, 12, tmp_path)
    assert outcomes.total() == 40
    assert not any(outcomes[wrong] for wrong in damaged_streams.WRONG)
    assert outcomes["refused by both"] > 5
    assert outcomes["read whole"] > 0


def test_a_reader_that_drops_streams_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The standard library's reader ignores all bytes that it cannot read after one stream."""

    def careless(file: Any) -> Any:
        data = file.read()
        try:
            return io.BytesIO(bz2.decompress(data) if data.startswith(b"BZh") else data)
        except (OSError, ValueError) as error:
            raise DamagedInputError(str(error)) from error

    monkeypatch.setattr(reading, "decompressed", careless)
    outcomes = damaged_streams.try_all("bz2", 40, 12, tmp_path)
    assert sum(outcomes[wrong] for wrong in damaged_streams.WRONG) > 0
    assert "kept as damaged-12-" in capsys.readouterr().err
