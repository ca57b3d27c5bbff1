"""The page of a report in Chromium, opened from the disk: one load, everything checked on it."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.report import write_report
from tests.browser.pages import assert_accessible
from tests.conftest import Build
from tests.support.small_report import COLLECTION, EVERY_FIGURE, SHIFTS, write_runs_for_every_figure

pytestmark = [pytest.mark.browser, pytest.mark.neural]

OVERLAPS = """() => [...document.querySelectorAll('.picture svg')].flatMap((svg) => {
  const texts = [...svg.querySelectorAll("text")]
    .map((one) => [one.textContent, one.getBoundingClientRect()]);
  return texts.flatMap(([name, a], at) => texts.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height * 0.3)
    .map(([other]) => `${svg.parentElement.id}: ${name} / ${other}`));
})"""
"""Texts of a picture that cover each other, by more than the gaps between lines."""

OUTSIDE = """() => [...document.querySelectorAll('.picture svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((one) => {
    const { left, right } = one.getBoundingClientRect();
    return left < frame.left - 2 || right > frame.right + 2;
  }).map((one) => one.textContent);
})"""

PICTURES = """() => [...document.querySelectorAll('.picture')].map((one) => [
  one.id, one.getAttribute('aria-label').length, one.querySelectorAll('svg').length,
])"""
"""Name, length of the alternative text, and number of drawings of each picture."""

FILES = """() => [...document.querySelectorAll('section .files a')]
  .map((one) => [one.download, one.href.split('base64,')[1]])"""
"""Name and content of each file of numbers."""

MOST_PIXELS = 4_500
"""The height of the page at a width of 1440 pixels, with its folds closed."""

OPEN = """() => [...document.querySelectorAll('details')].forEach((one) => { one.open = true })"""


def test_the_page_of_a_report_with_every_figure(
    open_page: Any, build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.report.writing.PICTURE_FORMATS", ())
    data = build_once(COLLECTION, *SHIFTS, "topics")
    write_runs_for_every_figure(tmp_path / "runs", data)
    written = write_report(tmp_path / "runs", tmp_path / "report", data, reference="lexical")
    assert set(written.figures) == EVERY_FIGURE
    assert written.left_out == ()
    page = open_page(written.page, width=1440)
    assert page.locator("figure.chart").count() == 6
    assert page.evaluate("document.documentElement.scrollHeight") <= MOST_PIXELS
    pictures = page.evaluate(PICTURES)
    assert {name for name, *_ in pictures} == EVERY_FIGURE
    for name, words, drawings in pictures:
        assert words > 60, name
        assert drawings == 1, name
    numbers = dict(page.evaluate(FILES))
    assert {name.removesuffix(".csv") for name in numbers} == EVERY_FIGURE
    for name, content in numbers.items():
        shown = base64.b64decode(content).decode()
        assert shown == (tmp_path / "report" / "figures" / name).read_text("utf-8")
    page.evaluate(OPEN)
    # `assert_accessible` removes parts of the page, so that the layout comes first.
    for look_at in (check_layout, assert_accessible):
        for width, scheme in itertools.product((1440, 390), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 900 if width > 390 else 844})
            page.emulate_media(color_scheme=scheme)
            page.locator(f'html[data-theme="{scheme}"]').wait_for(state="attached")
            look_at(page)
    page.emulate_media(media="print")
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--ink')"
    assert page.evaluate(paper) == "#171b1f"
    assert page.locator("section > details").first.is_hidden()
    page.emulate_media(media="screen")


def check_layout(page: Any) -> None:
    """Assert that no text covers another one or is outside its picture."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
