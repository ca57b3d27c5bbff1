"""docs/leakage.md: its blocks run as they stand, and its tables are what is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.leakage_tiers import tables
from msshift_bench.leakage import THRESHOLDS, TIERS
from scripts.leakage_tables import known_queries, near_queries
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "leakage.md").read_text(encoding="utf-8")


def test_its_table_of_tiers_is_what_is_planted_and_found() -> None:
    _, by_tier = tables(3000)
    for row in by_tier.rows:
        assert f"| {' | '.join(cell.text for cell in row)} |\n" in PAGE


def test_it_names_every_tier_and_threshold() -> None:
    assert all(f"| `{tier}` |" in PAGE for tier in TIERS)
    assert f"| {THRESHOLDS['terms']:.2f} | 403 | 0.926 |" in PAGE
    assert f"has {THRESHOLDS['']} as its\ndefault" in PAGE


@pytest.mark.realdata
def test_a_row_of_the_table_of_official_test_sets(real_data: Path) -> None:
    texts, sets = known_queries(real_data)
    (row,) = near_queries(texts, sets, ["length-long"])
    page = (REPOSITORY / "docs" / "official-release.md").read_text(encoding="utf-8")
    assert f"| {' | '.join(row)} |\n" in page
