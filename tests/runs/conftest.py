"""What the tests of reading runs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.errors import RunError
from msshift_bench.runs import JudgedRun


def places(run: JudgedRun) -> set[tuple[int, ...]]:
    """The rows of a run's hits: query, gain, rank, above, tied."""
    return {tuple(row) for row in np.stack(run.hits, axis=1).tolist()}


def codes(error: RunError) -> list[tuple[str, int]]:
    """The code and line of each of an error's findings."""
    return [(finding.code, finding.line) for finding in error.findings]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file, by default ``a.run``, and returns its path."""

    def write_file(content: str | bytes, name: str = "a.run") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
