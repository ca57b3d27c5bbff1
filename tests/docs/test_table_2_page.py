"""docs/table-2.md: what it expects is the paper's, and what it counts is what a dry run counts."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from msshift_bench.analysis.paper_tables import load_published
from msshift_bench.baselines.estimates import EncoderShape, Estimate
from msshift_bench.baselines.finding import neural_systems
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.shifts import SHIFTS
from scripts.experiments.tables import PAPER_NAME
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "table-2.md").read_text(encoding="utf-8")
SYSTEMS = ("bi-encoder", "colbert", "splade", "monobert")
DISTILBERT = EncoderShape(6, 768, 3072, 30_522)
PASSAGES, QUERIES, EXAMPLES = 8_841_823, 31_244, 100_000
SPEED = 1e14
"""Operations per second that the page assumes."""


def estimated(system: str) -> tuple[float, float, Estimate]:
    """Return hours of training and of search for one model, and the rest of its estimate."""
    architecture: Any = neural_systems()[system]
    recipe = load_recipe(architecture, system, "paper")
    assert recipe.encoder == "distilbert/distilbert-base-uncased"
    work = recipe.work(DISTILBERT, PASSAGES, QUERIES, EXAMPLES)
    estimate = Estimate.of(recipe.steps_of(EXAMPLES), work, DISTILBERT, SPEED)
    return work.training / SPEED / 3600, work.searching / SPEED / 3600, estimate


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_and_disk_are_those_of_a_dry_run(system: str) -> None:
    training, search, estimate = estimated(system)
    assert estimate.bytes is not None
    row = (
        f"| `{system}` | {estimate.steps:,} | {training:.1f} | {search:.1f} | "
        f"{5 * (training + search):.0f} | {estimate.bytes / 1e9:.0f} |\n"
    )
    assert row in PAGE, row


def test_its_sums_are_those_of_its_rows() -> None:
    hours = [5 * (training + search) for training, search, _ in map(estimated, SYSTEMS)]
    assert f"**{sum(hours):.0f} hours of one GPU** per seed" in PAGE
    assert f"{3 * sum(hours):.0f} with three" in PAGE
    assert f"{sum(len(SHIFTS['topics'].groups) for _ in SYSTEMS)} models" in PAGE


def test_what_it_expects_is_what_the_paper_printed() -> None:
    printed = load_published("ms_shift_v2")["topics"]
    for system in SYSTEMS:
        rows = [row for row in printed if row["system"] == PAPER_NAME.get(system, system)]
        assert [row["group"] for row in rows] == [*SHIFTS["topics"].groups]
        cells = [f"{row['avg_in']} / {row['out']} / {row['rel_loss_pct']}%" for row in rows]
        average = mean(row["rel_loss_pct"] for row in rows)
        assert f"| `{system}` | {' | '.join(cells)} | {average:.1f}% |\n" in PAGE, cells
