"""The page of a report in Chromium, opened from the disk: one load, everything checked on it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.report import write_report
from tests.conftest import Build
from tests.support.small_report import COLLECTION, SHIFTS, write_small_runs

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OVERLAPS = """() => [...document.querySelectorAll('.picture svg')].flatMap((svg) => {
  const texts = [...svg.querySelectorAll("text")]
    .map((one) => [one.textContent, one.getBoundingClientRect()]);
  return texts.flatMap(([name, a], at) => texts.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height * 0.3)
    .map(([other]) => `${svg.closest('figure').id}: ${name} / ${other}`));
})"""
"""Texts of a picture that cover each other, by more than the gaps between lines."""

OUTSIDE = """() => [...document.querySelectorAll('.picture svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((one) => {
    const { left, right } = one.getBoundingClientRect();
    return left < frame.left - 2 || right > frame.right + 2;
  }).map((one) => one.textContent);
})"""


def test_the_page_of_a_report(open_page: Any, build_once: Build, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    data = build_once(COLLECTION, *SHIFTS)
    write_small_runs(tmp_path / "runs", data)
    written = write_report(tmp_path / "runs", tmp_path / "report", data, ["length"])
    page = open_page(written.page, width=1440)
    figures = page.locator("figure.drawn")
    assert tuple(one.get_attribute("id") for one in figures.all()) == written.figures
    for name in written.figures:
        picture = page.locator(f"#{name} .picture")
        assert len(picture.get_attribute("aria-label")) > 60
        assert picture.locator("svg").count() == 1
        link = page.locator(f"#{name} a[download]").get_attribute("href")
        shown = base64.b64decode(link.partition("base64,")[2]).decode()
        assert shown == (tmp_path / "report" / "figures" / f"{name}.csv").read_text("utf-8")
        for ending, begin in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
            path = tmp_path / "report" / "figures" / f"{name}{ending}"
            assert path.read_bytes().startswith(begin)
    for name in written.tables:
        assert "\\toprule" in (tmp_path / "report" / "tables" / f"{name}.tex").read_text()
        assert "rel_loss" in (tmp_path / "report" / "tables" / f"{name}.csv").read_text()
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    for width, scheme in ((1440, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.locator(f'html[data-theme="{scheme}"]').wait_for(state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate(OUTSIDE) == []
        found = Axe().run(page, options={"preload": False}).response["violations"]
        assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []
    left_out = page.locator("section[aria-labelledby=left-out]").inner_text()
    assert "Map of the topics" in left_out
    assert "msshift build topics" in left_out
    page.emulate_media(media="print")
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--ink')"
    assert page.evaluate(paper) == "#171b1f"
    assert page.locator(".drawn details").first.is_hidden()
    page.emulate_media(media="screen")
