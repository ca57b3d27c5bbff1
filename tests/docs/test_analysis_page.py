"""docs/analysis.md: its blocks run as they stand, and its table is that of the indicators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msshift_bench.analysis import align_scores, analyse_published, find_links, load_published
from msshift_bench.similarity import INDICATORS
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks
from tests.support.forking import SMALL

PAGE = (REPOSITORY / "docs" / "analysis.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    ran = run_blocks(PAGE, tmp_path, before=SMALL)
    assert sum(command[1] == "similarity" for command in ran) >= 2


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
    tables = load_published("interpolation_extrapolation")
    restrain, resttest = tables["restrain_trec_dl_19_20"]["45k"], tables["resttest_msmarco_dev"]
    rows = {model: [*row[2:4], resttest[model][3]] for model, row in restrain.items()}
    methods, pretrained = tables["table_8_training_methods"], tables["table_9_pretraining"]
    for model, row in {**methods, **pretrained}.items():
        # Rows that are those of Tables 6 and 7, too, and the header.
        if model not in ("columns", "BERT", "BERT + RandNeg", "coCon-marco + RandNeg"):
            here = [row[name] for name in row if name.endswith("R@100")] or [
                row["restrain_45k"]["R@100"], row["resttest"]["R@100"]
            ]  # fmt: skip
            rows[model] = [*here[0][:2], here[1][1]]
    names = ("interpolation", "extrapolation", "ReSTTest")
    scores = {model: dict(zip(names, row, strict=True)) for model, row in rows.items()}
    for row in align_scores(scores, "R@100").tables()[0].rows:
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
