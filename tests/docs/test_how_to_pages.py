"""docs/evaluate-runs.md and docs/own-collection.md: their blocks run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_runs_are_evaluated_step_by_step(tmp_path: Path) -> None:
    ran = run_blocks(page("evaluate-runs.md"), tmp_path)
    assert len(ran) == 11
    assert (tmp_path / "losses.svg").is_file()
    assert ",words,RR@10,short,rel_loss," in (tmp_path / "figures.csv").read_text()


def test_a_collection_is_cut_step_by_step(tmp_path: Path) -> None:
    ran = run_blocks(page("own-collection.md"), tmp_path)
    assert [command[1] for command in ran] == ["-c", "build", "verify", "baseline", "evaluate"]
    assert "cc-by-4.0" in (tmp_path / "msshift" / "README.md").read_text()
