"""What the tests of reading runs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.errors import RunError
from msshift_bench.runs import JudgedRun, Judgements, judge_run

Write = Callable[..., Path]

JUDGEMENTS = Judgements.from_qrels({"q1": {"d2": 1, "d4": 2}, "q2": {"d1": 1}, "q3": {"d9": 1}})
RUN = """q1 Q0 d1 1 9.5 tag
q1 Q0 d2 2 9.5 tag
q1 Q0 d3 3 9.5 tag
q1 Q0 d4 4 1e0 tag
q2 Q0 d1 1 -3 tag
"""
MAPPING = {"q1": {"d1": 9.5, "d2": 9.5, "d3": 9.5, "d4": 1}, "q2": {"d1": -3}}
"""The same run."""

PLACES = {(0, 1, 2, 0, 3), (0, 2, 4, 3, 1), (1, 1, 1, 0, 1)}
"""Its `places`: equal scores are in descending order of doc_id."""


def places(run: JudgedRun) -> set[tuple[int, ...]]:
    """The rows of a run's hits: query, gain, rank, above, tied."""
    return {tuple(row) for row in np.stack(run.hits, axis=1).tolist()}


def codes(error: Any) -> list[tuple[str, int]]:
    """The code and line of each finding of an error, or of a list of them."""
    return [(finding.code, finding.line) for finding in getattr(error, "findings", error)]


def refused(source: Any, judgements: Judgements = JUDGEMENTS, **options: Any) -> Any:
    """The error that judging a run raises."""
    with pytest.raises(RunError) as caught:
        judge_run(source, judgements, **options)
    return caught.value


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file, by default ``a.run``, and returns its path."""

    def write_file(content: str | bytes, name: str = "a.run") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
