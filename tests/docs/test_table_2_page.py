"""docs/table-2.md: what it expects is the paper's, and what it counts follows from the recipes."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from msshift_bench.analysis.paper_tables import load_published
from msshift_bench.baselines import open_system
from msshift_bench.shifts import SHIFTS
from scripts.experiments.arithmetic import EncoderShape, Work, work_of
from scripts.experiments.tables import PAPER_NAME
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "table-2.md").read_text(encoding="utf-8")
SYSTEMS = ("bi-encoder", "colbert", "splade", "monobert")
DISTILBERT = EncoderShape(6, 768, 3072, 30_522)
PASSAGES, QUERIES, EXAMPLES = 8_841_823, 31_244, 100_000
SPEED = 1e14
"""Operations per second that the page assumes."""


def estimated(system: str) -> tuple[float, float, int, Work]:
    """Return hours of training and of search for one model, its steps, and its work."""
    recipe: Any = open_system(system, "paper")
    assert recipe.encoder == "distilbert/distilbert-base-uncased"
    work = work_of(recipe, DISTILBERT, PASSAGES, QUERIES, EXAMPLES)
    hours = (work.training / SPEED / 3600, work.searching / SPEED / 3600)
    return *hours, recipe.steps_of(EXAMPLES), work


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_and_disk_are_those_of_the_recipes(system: str) -> None:
    training, search, steps, work = estimated(system)
    row = (
        f"| `{system}` | {steps:,} | {training:.1f} | {search:.1f} | "
        f"{5 * (training + search):.0f} | {work.bytes(DISTILBERT) / 1e9:.0f} |\n"
    )
    assert row in PAGE, row


def test_its_sums_are_those_of_its_rows() -> None:
    hours = [5 * (training + search) for training, search, *_ in map(estimated, SYSTEMS)]
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
