"""docs/analysis.md: its blocks run as they stand, and its table is that of the indicators."""

from __future__ import annotations

import re
from pathlib import Path

from msshift_bench.similarity import INDICATORS
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks

PAGE = (REPOSITORY / "docs" / "analysis.md").read_text(encoding="utf-8")


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    ran = run_blocks(PAGE, tmp_path)
    assert sum(command[1] == "similarity" for command in ran) >= 2


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
