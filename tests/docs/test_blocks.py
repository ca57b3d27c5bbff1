"""Every console and Python block of these pages runs unchanged, in the order of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks
from tests.support.tiny_recipes import write_recipes

TRAINS = [pytest.mark.neural, pytest.mark.extended]
LONG = [pytest.mark.extended]

PAGES = [
    # Another test runs the demo.
    pytest.param(
        "README.md", ("scripts/demo", "scripts/test", "pip"), {},
        marks=TRAINS,
    ),
    pytest.param("docs/analysis.md", (), {}, marks=LONG),
    pytest.param("docs/baselines.md", (), {}, marks=TRAINS),
    pytest.param("docs/data.md", (), {}, marks=LONG),
    pytest.param("docs/evaluate-a-model.md", (), {}, marks=TRAINS),
    pytest.param(
        "docs/evaluate-runs.md", (),
        {"losses.svg": "<svg", "figures.csv": "\nrel_loss,,length,words,,RR@10,short,"}, marks=LONG,
    ),
    pytest.param("docs/ir_datasets.md", (), {"metadata.json": '"msshift/length"'}),
    pytest.param("docs/leakage.md", (), {"found-topics/found.json": ""}),
    pytest.param("docs/new-shift.md", (), {}),
    pytest.param("docs/own-collection.md", (), {"msshift/README.md": "cc-by-4.0"}),
    pytest.param("docs/python.md", (), {}, marks=LONG),
    pytest.param("docs/search.md", (), {}),
    pytest.param("docs/troubleshooting.md", (), {}, marks=TRAINS),
    pytest.param("docs/variants.md", (), {"runs/bm25/length.run.json": '"bm25"'}),
]  # fmt: skip
"""A page, programs that are not run, and file -> a text that its commands write there."""


@pytest.mark.parametrize(("page", "skipping", "left"), PAGES)
def test_the_blocks_of_a_page_run(
    page: str, skipping: tuple[str, ...], left: dict[str, str], tmp_path: Path
) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    recipes = write_recipes(tmp_path / "recipes")
    environment = {"MSSHIFT_RECIPES": str(recipes)}
    assert run_blocks(text, tmp_path, skipping=skipping, environment=environment)
    for name, words in left.items():
        assert words in (tmp_path / name).read_text("utf-8"), name
    assert not list(tmp_path.rglob(".work"))
