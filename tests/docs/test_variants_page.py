"""docs/variants.md: its blocks run as they stand, and what it says of kinds and links holds."""

from __future__ import annotations

import re
from pathlib import Path

from msshift_bench.dataset_builders.typos import EDITS
from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks

PAGE = (REPOSITORY / "docs" / "variants.md").read_text(encoding="utf-8")


def test_its_blocks_run(tmp_path: Path) -> None:
    ran = run_blocks(PAGE, tmp_path)
    assert [command[1] for command in ran] == [
        "build",
        "variants",
        "run",
        "evaluate",
        ran[-1][1],
    ]
    assert (tmp_path / "runs/bm25/also/typos/length.run.gz").is_file()


def test_it_names_every_kind_of_edit() -> None:
    assert all(f"({kind})" in PAGE for kind in EDITS)


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", PAGE)
    assert len(links) >= 2
    assert all((REPOSITORY / "docs" / link).is_file() for link in links)
