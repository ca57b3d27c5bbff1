"""What holds for every page of the leaderboard in Chromium, opened from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pages import WIDTHS, faults_of, fits
from tests.conftest import MakeOnce
from tests.support.synthetic_entries import write_strange_site

pytestmark = pytest.mark.browser


@pytest.mark.extended
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


def test_a_toy_board_cannot_be_mistaken(open_board: Any, open_page: Any, board_site: Path) -> None:
    toy, real = open_board(), open_page(board_site / "index.html")
    accent = "getComputedStyle(document.documentElement).getPropertyValue('--accent')"
    assert toy.evaluate(accent) != real.evaluate(accent)
    assert "Not MS MARCO" in toy.locator(".warning").inner_text()
    expect(real.locator(".warning")).to_have_count(0)


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
    site = make_once("strange-board", write_strange_site) / "site"
    page = open_page(site / "mini" / "length-rr-10.html")
    assert "<script>alert(1)</script>" in page.locator("#systems").inner_text()
    page.locator(".filters summary").click()
    page.locator("[name=q]").fill("<script>")
    for path in ("systems/evil.html", "systems/evil-paper.html"):
        page.goto((site / "mini" / path).as_uri())
        page.wait_for_timeout(100)
        assert "<script>alert(1)</script>" in page.locator("main").inner_text()


@pytest.mark.parametrize(
    "path",
    [
        "index.html",
        "mini/topics-rr-10.html",
        "mini/systems/steady.html",
        "ms-marco/systems/splade-max.html",
        "submit.html",
    ],
)
def test_axe_finds_nothing(open_page: Any, board_site: Path, path: str) -> None:
    page = open_page(board_site / path)
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    for scheme, width in (("light", 1440), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        faults = [
            (fault["id"], node["target"], node["failureSummary"])
            for fault in faults_of(page)
            for node in fault["nodes"]
        ]
        assert (scheme, faults) == (scheme, [])
