"""A small share of the fuzz run of ``tests/fuzz/fuzz_runs.py``, which does 200,000 inputs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def fuzz_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "fuzz"))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("fuzz_runs")


@pytest.mark.slow
def test_mutated_runs_give_findings_or_right_scores(
    fuzz_runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = fuzz_runs.fuzz(400, seed=20_221, folder=tmp_path)
    assert (outcomes.total(), len(outcomes) > 5, outcomes["scored"] > 100) == (400, True, True)
    # A wrong score would be seen.
    monkeypatch.setattr(fuzz_runs, "QRELS", fuzz_runs.QRELS | {"q2": {"d7": 1}})
    with pytest.raises(AssertionError, match=r"input [0-9]+ of seed 1"):
        fuzz_runs.fuzz(400, seed=1, folder=tmp_path)
    assert (tmp_path / "fuzz-failure.run").exists()


def test_the_naive_evaluator_by_hand(fuzz_runs: Any) -> None:
    data = b"q Q0 a 1 2 t\nq Q0 b 2 2.00000001 t\nq Q0 c 3 1 t\n"
    qrels = {"q": {"a": 1, "x": 1}}
    assert fuzz_runs.evaluate(data, qrels, "trec")["RR@10"] == [1 / 2]
    assert fuzz_runs.evaluate(data, qrels, "doc-id-ascending")["RR@10"] == [1]
    assert fuzz_runs.evaluate(data, qrels, "rank")["R@5"] == [1 / 2]
    for malformed in (b"q Q0 a 1 2\n", b"q Q0 a 1 nan t\n", data + data, b"q Q0 a x 1 t\n", b""):
        assert fuzz_runs.evaluate(malformed, qrels, "trec") is None
