"""docs/analysis.md: its blocks run as they stand, and its table is that of the indicators."""

from __future__ import annotations

import re

from msshift_bench.analysis import align_published, analyse_published, find_links
from msshift_bench.similarity import INDICATORS
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "analysis.md").read_text(encoding="utf-8")


def test_the_figures_of_the_papers_own_link_are_those_that_are_computed() -> None:
    figures = analyse_published().figures
    of_link = figures.where(**find_links(figures)[0].about)
    assert len(of_link) == 5
    for slope in of_link:
        order = figures.where(figure="spearman", shift="topics", slice="all", system=slope.system)[
            0
        ]
        low, high = (10 * end for end in slope.interval or (0, 0))
        cells = slope.system, f"{order.value:.1f}", f"{order.p_uncorrected:.3f}"
        cells += f"{10 * slope.value:.1f}", f"[{low:.1f}, {high:.1f}]"
        assert f"| {' | '.join(cells)} |\n" in PAGE


def test_the_alignment_of_the_papers_own_figures_is_what_is_computed() -> None:
    for row in align_published().tables()[0].rows:
        _, *cells = (cell.text for cell in row)
        assert f"| {' | '.join(cells)} |\n" in PAGE


def test_the_table_of_indicators_is_theirs() -> None:
    against = {"same": "same split", "train": "training queries", "": "-"}
    for name, row in INDICATORS.items():
        cells = [
            f"`{name}`",
            "query" if row.per_query else "set of queries",
            row.needs or "-",
            against[row.against],
            row.higher,
            row.source,
        ]
        assert f"| {' | '.join(cells)} |\n" in PAGE
    assert len(re.findall(r"(?m)^\| `[a-z-]+` \| (query|set of queries) \|", PAGE)) == len(
        INDICATORS
    )


def test_every_number_of_the_conclusions_is_printed_above_them() -> None:
    walk, _, conclusions = PAGE.partition("## A walk-through")[2].partition("### What may be conc")
    printed = "".join(re.findall(r"<!-- \$ [^\n]+ -->\n(.*?)<!-- end -->", walk, re.DOTALL))
    # The table of both times repeats what an earlier version of the page printed.
    printed += "".join(re.findall(r"(?m)^\|.*$", conclusions))
    known = set(re.findall(r"\d+\.\d+", printed))
    numbers = re.findall(r"\d+\.\d+", conclusions)
    assert len(numbers) > 30
    # 0.05 is the level of the tests.
    assert set(numbers) - known <= {"0.05"}
    assert set(re.findall(r"\d+%", re.sub(r"\d+\.\d+%", "", conclusions))) <= set(
        re.findall(r"\d+%", printed)
    ) | {"95%"}
