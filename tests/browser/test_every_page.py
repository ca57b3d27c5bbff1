"""What holds for every page of the leaderboard in Chromium, opened from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pages import WIDTHS, assert_accessible, fits
from tests.conftest import MakeOnce
from tests.support.synthetic_entries import write_hostile_board

pytestmark = pytest.mark.browser


def test_a_page_of_every_kind_fits(open_page: Any, board_site: Path) -> None:
    largest: dict[str, Path] = {}
    for path in sorted(board_site.rglob("*.html"), key=lambda path: path.stat().st_size):
        # The pages of a shift differ in their measure and board, those of systems in their data.
        kind = "system" if path.parent.name == "systems" else path.stem.partition("-")[0]
        largest[kind] = path
    assert len(largest) > 6
    page = open_page(board_site / "index.html")
    for path in largest.values():
        page.goto(path.as_uri())
        expect(page.locator("h1")).to_have_count(1)
        for width in WIDTHS:
            assert fits(page, width), path


def test_the_reader_chooses_light_or_dark(open_board: Any) -> None:
    page = open_board(scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_label("Switch between light and dark").click()
    light = page.evaluate(paper)
    assert light != dark
    page.reload()
    assert page.evaluate(paper) == light


def test_a_systems_page_shows_what_it_rests_on(open_page: Any, board_site: Path) -> None:
    page = open_page(board_site / "mini" / "systems" / "twin.html")
    expect(page.locator("#topics table.heat").first).to_be_visible()
    expect(page.locator("#topics .held-out:visible")).to_have_count(5)
    expect(page.get_by_text("effect d_z").first).not_to_be_visible()
    page.get_by_text("Effect sizes and missing counts").first.click()
    expect(page.get_by_text("effect d_z").first).to_be_visible()
    page.locator("#topics details.measure summary").first.click()
    expect(page.locator("#topics .held-out:visible")).to_have_count(10)
    page.get_by_text("Declared training queries").click()
    expect(page.get_by_text("without C0").last).to_be_visible()
    page.get_by_text("Version 1, 2026-11-21").click()
    expect(page.get_by_text("Its authors give no commands")).to_be_visible()
    page.goto((board_site / "mini" / "systems" / "bm25.html").as_uri())
    assert page.locator("#reproduce ~ pre").inner_text() == "msshift build\nmake 'a & b'"
    page.get_by_role("link", name="Mini", exact=True).first.click()
    expect(page.locator("#systems")).to_be_visible()


def test_a_strangers_script_does_not_run(open_page: Any, make_once: MakeOnce) -> None:
    site = make_once("hostile-board", write_hostile_board) / "site"
    page = open_page(site / "mini" / "length-rr-10.html")
    assert "<script>alert(1)</script>" in page.locator("#systems").inner_text()
    page.locator(".filters summary").click()
    page.locator("[name=q]").fill("<script>")
    for path in ("systems/evil.html", "systems/evil-paper.html"):
        page.goto((site / "mini" / path).as_uri())
        page.wait_for_timeout(100)
        assert "<script>alert(1)</script>" in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("path", "scheme", "width"),
    [
        ("index.html", "light", 1440),
        ("mini/topics-rr-10.html", "light", 1440),
        ("mini/topics-rr-10.html", "dark", 390),
        ("mini/systems/steady.html", "dark", 390),
        ("submit.html", "light", 390),
    ],
)
def test_axe_finds_nothing(
    open_page: Any, board_site: Path, path: str, scheme: str, width: int
) -> None:
    page = open_page(board_site / path, width=width, scheme=scheme)
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    assert_accessible(page)
