"""What holds for every page of the leaderboard in Chromium, opened from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.synthetic_entries import hostile_entries, many_entries
from msshift_bench.leaderboard.site import build_site
from tests.browser.pages import WIDTHS, board, faults_of, fits, multiply_systems, says

pytestmark = pytest.mark.browser


def test_every_page_opens(open_page: Any, site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 10
    page = open_page(site / "index.html")
    for path in pages:
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page), path


def test_the_reader_chooses_light_or_dark(open_page: Any, site: Path) -> None:
    page = board(open_page, site, scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_label("Switch between light and dark").click()
    light = page.evaluate(paper)
    assert light != dark
    page.reload()
    assert page.evaluate(paper) == light


def test_a_toy_board_cannot_be_mistaken(open_page: Any, site: Path, tmp_path: Path) -> None:
    toy = board(open_page, site)
    real = board(open_page, build_site(None, tmp_path / "real").parent)
    accent = "getComputedStyle(document.documentElement).getPropertyValue('--accent')"
    assert toy.evaluate(accent) != real.evaluate(accent)
    assert "Not MS MARCO" in toy.locator(".warning").inner_text()
    assert real.locator(".warning").count() == 0
    strangers = tmp_path / "real/ms-marco/compare.html"
    real.goto(strangers.as_uri() + "#systems=bm25,zhan2022-dr")
    says(real, "#count", "No shift has results of two of these systems. BM25: query topics")
    says(real, "#count", "Dense retrieval (Zhan et al.): no results by group.")


def test_a_strangers_script_does_not_run(open_page: Any, tmp_path: Path) -> None:
    hostile_entries(tmp_path / "entries")
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    page = board(open_page, site)
    assert "<script>alert(1)</script>" in page.locator("#systems").inner_text()
    page.locator("#latex").click()
    assert "script" in page.locator("#dialog textarea").input_value()
    page.locator("#dialog [data-close]").click()
    for path in ("systems/evil.html", "systems/evil-paper.html", "compare.html"):
        page.goto((site / "mini" / path).as_uri() + "#systems=evil,evil-paper")
        page.wait_for_timeout(100)
        assert "<script>alert(1)</script>" in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("path", "ready"),
    [
        ("index.html", "#systems tbody tr"),
        ("mini/systems/steady.html", "#queries tbody tr"),
        ("mini/compare.html#systems=steady,brittle,bm25", "#differences table"),
        ("submit.html", "h1"),
    ],
)
def test_no_serious_finding_of_axe(open_page: Any, site: Path, path: str, ready: str) -> None:
    file, _, hash_ = path.partition("#")
    page = open_page(site / file, f"#{hash_}")
    page.wait_for_selector(ready)
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    for scheme, width in (("light", 1440), ("dark", 360)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        serious = [
            (one["id"], node["target"], node["failureSummary"])
            for one in faults_of(page)
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
        assert (scheme, serious) == (scheme, [])


@pytest.mark.slow
def test_500_systems_load_and_sort(open_page: Any, tmp_path: Path) -> None:
    """How long that takes, of 500 entries, is measured by ``scripts/bench leaderboard_page``."""
    many_entries(tmp_path / "entries", 10)
    index = build_site(tmp_path / "entries", tmp_path / "site")
    multiply_systems(index.parent, 50)
    page = open_page(index)
    page.wait_for_function("() => performance.getEntriesByName('table-shown').length")
    rows = page.locator("#systems tbody tr")
    assert rows.count() == 500
    orders = set()
    for column_ in ("system", "out", "group-C3", "rel_loss"):
        page.locator(f'#systems [data-sort="{column_}"]').first.click()
        assert rows.count() == 500
        orders.add(tuple(page.locator("#systems tbody th").all_inner_texts()))
    assert len(orders) == 4
