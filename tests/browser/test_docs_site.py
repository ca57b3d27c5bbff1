"""The documentation site, opened from a disk: it asks for nothing, and its search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench import __all__ as public_names
from scripts.site.__main__ import make_site
from tests.browser.pages import assert_accessible, fits
from tests.support.commands import COMMANDS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def made_site(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del chromium  # Without it nothing is made.
    folder = tmp_path_factory.mktemp("docs")
    make_site(folder / "site", folder / "work")
    return folder / "site"


def test_pages_open_from_a_disk(open_page: Any, made_site: Path) -> None:
    """Each is opened once, for all that is looked at: it loads the search's index every time."""
    page = open_page(made_site / "index.html", width=390)
    commands = open_page(made_site / "reference" / "commands.html", width=390)
    headings = set(commands.locator("h2").all_inner_texts())
    for words in COMMANDS:
        assert any(heading.startswith(f"msshift {' '.join(words)}") for heading in headings)
    python = open_page(made_site / "reference" / "python.html", width=390)
    text = python.content()
    for name in public_names:
        assert name == "__version__" or f"msshift_bench.{name}" in text
    board = open_page(made_site / "leaderboard" / "index.html", width=390)
    for width in (1440, 390):
        for one in (page, commands, python, board):
            assert fits(one, width), (one.url, width)
        page.get_by_role("heading", name="msshift-bench").wait_for()
        board.locator("table").first.wait_for()
    check_access(python)
    check_access(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.keyboard.press("Control+k")
    page.keyboard.type("kappa interval")
    page.get_by_text("Cohen's kappa").first.wait_for()


def test_a_command_is_copied_without_its_prompt(open_page: Any, made_site: Path) -> None:
    page = open_page(made_site / "evaluate-runs.html")
    page.locator(".md-code__nav button").first.click()
    copied = "navigator.clipboard.readText()"
    assert page.evaluate(copied) == "msshift build length --collection mini:500"


def test_axe_finds_nothing_in_code_and_tables(open_page: Any, made_site: Path) -> None:
    check_access(open_page(made_site / "evaluate-runs.html"))


def check_access(page: Any) -> None:
    """Check the rules of axe."""
    page.locator("h1").first.wait_for()
    # All names have the same layout: two are enough.
    page.evaluate(
        "document.querySelectorAll('.doc-object:nth-of-type(n+3)').forEach(e => e.remove())"
    )
    assert_accessible(page)
