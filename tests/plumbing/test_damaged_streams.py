"""A small share of ``tests/killed/damaged_streams.py``, and that it would see what it looks for."""

from __future__ import annotations

import bz2
import io
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from msshift_bench.plumbing import reading
from msshift_bench.plumbing.compression import DamagedInputError
from tests.killed import damaged_streams


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    missing = [tool for tool in damaged_streams.TOOLS.values() if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    return damaged_streams


@pytest.mark.parametrize("name", ["gz", "bz2", "xz", "zst"])
def test_what_the_format_s_tool_refuses_is_refused(
    harness: ModuleType, tmp_path: Path, name: str
) -> None:
    outcomes = harness.try_all(name, 40, 12, tmp_path)
    assert outcomes.total() == 40
    assert not any(outcomes[wrong] for wrong in harness.WRONG)
    assert outcomes["refused by both"] > 5
    assert outcomes["read whole"] > 0


def test_a_reader_that_drops_streams_would_be_seen(
    harness: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The standard library's reader ignores whatever it cannot read behind the first stream."""

    def careless(file: Any) -> Any:
        data = file.read()
        try:
            return io.BytesIO(bz2.decompress(data) if data.startswith(b"BZh") else data)
        except (OSError, ValueError) as error:
            raise DamagedInputError(str(error)) from error

    monkeypatch.setattr(reading, "decompressed", careless)
    outcomes = harness.try_all("bz2", 40, 12, tmp_path)
    assert sum(outcomes[wrong] for wrong in harness.WRONG) > 0
    assert "kept as damaged-12-" in capsys.readouterr().err
