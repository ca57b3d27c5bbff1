"""docs/evaluate-a-model.md: its blocks run as they stand, its facts are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msshift_bench.baselines.systems import searcher as block_search
from msshift_bench.baselines.systems.finding import neural_systems
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks

PAGE = (REPOSITORY / "docs" / "evaluate-a-model.md").read_text(encoding="utf-8")


@pytest.mark.neural
@pytest.mark.slow
def test_its_blocks_run_and_print_what_it_shows(tmp_path: Path) -> None:
    assert len(run_blocks(PAGE, tmp_path)) == 5
    assert not (tmp_path / "runs" / ".work").exists()


def test_it_names_every_type_and_the_sizes_that_decide_the_memory() -> None:
    for architecture in neural_systems().values():
        assert PAGE.count(f"| {architecture.model_type} |") == 1
        assert f"evaluate({architecture.model_type}(" in PAGE
    assert f"in blocks of {block_search._SIZE:,}." in PAGE
    assert f"up to {block_search._QUERIES:,} queries" in PAGE


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGE)
    assert len(links) >= 4
    for file, anchor in links:
        text = (REPOSITORY / "docs" / file).read_text(encoding="utf-8")
        headings = [
            re.sub(r"[^a-z0-9 ]", "", line.lower()).strip().replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        ]
        assert not anchor or anchor in headings
