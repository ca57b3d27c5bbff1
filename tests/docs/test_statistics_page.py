"""docs/statistics.md says what is computed: what test sets show, how much losses on mini vary."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from msshift_bench.evaluation import read_per_query
from msshift_bench.stats import detectable_rel_loss
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_the_page_has_the_figures_of_today() -> None:
    table = re.search(r"\| test queries (.*)\n.*\n\| detects (.*)", PAGE)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", table[1])]
    assert len(numbers) == 7
    assert re.findall(r"[\d.]+%", table[2]) == [f"{detectable_rel_loss(n):.1%}" for n in numbers]


def relative_deviations(system: str) -> Iterator[float]:
    """Yield how much In - Out varies over queries, in units of Avg In, by group and seed."""
    path = REPOSITORY / "leaderboard" / "entries" / "mini" / system / "v1" / "scores.parquet"
    for scores in read_per_query(path, ("RR@10", "nDCG@10", "R@100")).values():
        for group, queries in scores.groups.items():
            pair = scores.sides("RR@10", group, queries)
            for inside, out in zip(*pair, strict=True):
                yield float((inside - out).std(ddof=1) / inside.mean())


def test_the_page_says_how_much_the_losses_on_mini_vary() -> None:
    systems = ("bi-encoder", "colbert", "monobert", "splade")
    values = [value for system in systems for value in relative_deviations(system)]
    median = f"a median of {statistics.median(values):.2f} ({len(values)} models"
    expected = f"{min(values):.2f} to {max(values):.2f} in RR@10, with {median}"
    assert expected in re.sub(r"\s+", " ", PAGE)
