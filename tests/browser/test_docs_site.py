"""The documentation site, opened from a disk: it asks for nothing, and its search finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from msshift_bench import __all__ as public_names
from scripts.site.__main__ import make_site
from scripts.site.search_words import SEARCH_WORDS
from tests.browser.pages import WIDTHS, assert_accessible, fits
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


KINDS = (
    "index.html", "start.html", "evaluate-runs.html", "reference/shifts.html", "architecture.html"
)  # fmt: skip
"""A page of each kind: home, first steps, how to, reference, explanation."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_of_each_kind_is_readable(
    open_page: Any, made_site: Path, width: int, scheme: str
) -> None:
    for name in KINDS:
        page = open_page(made_site / name, width=width, scheme=scheme)
        assert fits(page, width), name
        check_access(page)


def test_the_colours_follow_the_system_until_a_reader_chooses(
    open_page: Any, made_site: Path
) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = open_page(made_site / "start.html").evaluate(paper)
    page = open_page(made_site / "index.html", scheme="dark")
    dark = page.evaluate(paper)
    assert light != dark
    page.get_by_title("Switch to light mode").click()
    assert page.evaluate(paper) == light
    page.reload()
    assert page.evaluate(paper) == light
    page.get_by_title("Switch to dark mode").click()
    assert page.evaluate(paper) == dark


SEARCHES = {
    "install": "start.html",
    "BEIR": "own-collection.html",
    "own collection": "own-collection.html",
    "topics": "data.html",
    "prompt": "evaluate-a-model.html",
    "MTEB": "mteb.html",
    "Ray": "cluster.html",
    "LaTeX": "evaluate-runs.html",
}
"""What a reader types into the search, and the page that must be first."""


def test_a_search_word_leads_to_its_page_first(open_page: Any, made_site: Path) -> None:
    assert {word.lower() for word in SEARCH_WORDS} <= {word.lower() for word in SEARCHES}
    page = open_page(made_site / "index.html")
    page.keyboard.press("Control+k")
    for typed, place in SEARCHES.items():
        page.keyboard.press("Control+a")
        page.keyboard.type(typed)
        marked = page.locator("[role=option] h2 u").first
        expect(marked).to_contain_text(re.compile(typed[:3], re.IGNORECASE))
        first = page.get_by_role("option").first
        expect(first).to_have_attribute("href", re.compile(re.escape(place)))


def check_access(page: Any) -> None:
    """Check the rules of axe."""
    page.locator("h1").first.wait_for()
    # All names have the same layout: two are enough.
    page.evaluate(
        "document.querySelectorAll('.doc-object:nth-of-type(n+3)').forEach(e => e.remove())"
    )
    assert_accessible(page)
