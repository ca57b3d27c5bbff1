"""A system's own page in Chromium, opened from the disk."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.output.table import show_percent
from tests.browser.pages import WIDTHS, board, saved, says

pytestmark = pytest.mark.browser


DRAWN = """() => {
  const chart = Chart.getChart(document.querySelector('.panel:not([hidden]) .losses canvas'));
  const [marks, ranges] = chart.data.datasets;
  const scale = chart.scales.x;
  return marks.data.map((mark, at) => ({
    name: mark.y, value: mark.x, ends: ranges.data[at].x,
    off: Math.abs(chart.getDatasetMeta(0).data[at].x - scale.getPixelForValue(mark.x)),
  }));
}"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_systems_losses_are_drawn(
    open_page: Any, built: tuple[Path, dict[str, Report]], width: int
) -> None:
    site, reports = built
    page = open_page(site / "mini/systems/brittle.html", width=width)
    for result in reports["brittle"].systems:
        page.locator(f"#controls input[value={result.shift.name}]").check()
        loss = result.measures["RR@10"].loss
        assert loss is not None
        drawn = page.evaluate(DRAWN)
        for mark, (name, one) in zip(drawn, [*loss.groups.items(), ("mean", loss)], strict=True):
            assert (mark["name"], mark["value"]) == (name, one.rel_loss)
            assert mark["ends"] == list(one.intervals.rel_loss)
            assert mark["off"] < 0.5
        label = page.locator(".panel:not([hidden]) .losses canvas").get_attribute("aria-label")
        assert f"mean {show_percent(loss.rel_loss)} [" in label
        page.locator("#theme").click()
        assert page.evaluate(DRAWN) == drawn


def test_the_commands_of_a_row_are_two_clicks_away(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    row = page.locator("#systems tbody tr[data-system=bm25]")
    row.get_by_text("repeat it").click()
    section = page.locator("section[aria-labelledby=reproduce]")
    page.wait_for_function(
        "() => document.readyState === 'complete'"
        " && document.querySelector('#reproduce')?.getBoundingClientRect().bottom < innerHeight"
    )
    assert "The figures repeat to the last digit." in section.inner_text()
    section.get_by_role("button").click()
    # Where the browser forbids the clipboard, the commands are selected.
    page.wait_for_function(
        "() => /^(Copied|Selected)/.test("
        "document.querySelector('section[aria-labelledby=reproduce] button').textContent)"
    )
    assert section.locator("pre").inner_text() == "msshift build\nmake 'a & b'"


def test_a_systems_queries_are_found(open_page: Any, built: tuple[Path, dict[str, Report]]) -> None:
    site, reports = built
    page = open_page(site / "mini" / "systems" / "brittle.html")
    page.wait_for_selector("#queries tbody tr")
    result = reports["brittle"].systems[0]
    scores = result.measures["RR@10"].scores
    losses = sorted((float(v) for one in scores.values() for v in one.differences()), reverse=True)
    shown = page.evaluate(
        "[...document.querySelectorAll('#queries tbody td:nth-child(5)')]"
        ".map(cell => Number(cell.dataset.value))"
    )
    assert shown == losses[:25]
    assert page.locator("#queries-count").text_content() == "1 to 25 of 200 queries, RR@10"
    page.locator("#queries-next").click()
    assert page.locator("#queries-count").text_content() == "26 to 50 of 200 queries, RR@10"
    page.locator("#queries [name=group]").select_option("C3")
    assert page.locator("#queries-count").text_content() == "1 to 25 of 40 queries, RR@10"
    page.locator("#queries [name=search]").fill("topics-C3-007")
    page.wait_for_function("() => document.querySelectorAll('#queries tbody tr').length === 1")
    row = page.locator("#queries tbody tr").inner_text().split()
    out = scores["C3"].out.mean(axis=0)[7]
    assert row[:2] == ["topics-C3-007", "C3"]
    assert row[3] == f"{out:.3f}"
    page.reload()
    page.wait_for_selector("#queries tbody tr")
    assert page.locator("#queries tbody tr").count() == 1, "the search is part of the address"
    name, text = saved(page, "#queries-csv")
    assert name == "msshift-brittle-topics-RR-10.csv"
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 200
    means = scores["C1"].out.mean(axis=0)
    found = [float(row["out"]) for row in rows if row["group"] == "C1"]
    assert found == pytest.approx(means.tolist(), rel=1e-11)


def test_the_table_of_queries_sorts_in_both_directions(open_page: Any, site: Path) -> None:
    page = open_page(site / "mini" / "systems" / "brittle.html")
    page.wait_for_selector("#queries tbody tr")
    heads = page.locator("#queries-table thead button")
    assert heads.all_text_contents() == ["Query", "Group", "Avg In", "Out", "Loss", "Missing"]
    for number, (name, numeric) in enumerate(
        [("id", False), ("group", False), ("avg_in", True), ("out", True), ("loss", True)]
    ):
        directions = set()
        for _ in range(2):
            page.locator(f"#queries-table [data-sort={name}]").click()
            (head,) = page.locator("#queries-table [aria-sort]").all()
            assert head.locator("button").get_attribute("data-sort") == name
            assert page.evaluate("document.activeElement.dataset.sort") == name, "focus stays"
            cells = page.locator(f"#queries-table tbody tr > :nth-child({number + 1})").all()
            shown = [
                float(cell.get_attribute("data-value")) if numeric else cell.text_content()
                for cell in cells
            ]
            direction = head.get_attribute("aria-sort")
            assert shown == sorted(shown, reverse=direction == "descending")
            directions.add(direction)
        assert directions == {"ascending", "descending"}
    assert "sort=loss" in page.evaluate("location.hash")


def test_a_system_page_switches_shift_and_measure(open_page: Any, site: Path) -> None:
    page = open_page(site / "mini" / "systems" / "steady.html", "#shift=length&measure=nDCG@10")
    page.wait_for_selector("#queries tbody tr")
    visible = page.locator(".panel:visible")
    assert visible.count() == 1
    assert visible.get_attribute("data-shift") == "length"
    assert visible.get_attribute("data-measure") == "nDCG@10"
    page.locator("#controls [value=wh-words]").check()
    assert page.locator(".panel:visible").get_attribute("data-shift") == "wh-words"
    says(page, "#queries-count", "of 120")
    page.locator(".summary .card").first.click()
    # The link changes the address; the page follows it in an event of its own.
    page.wait_for_selector(".panel[data-shift=topics]:not([hidden])")
    assert page.locator(".panel:visible").get_attribute("data-shift") == "topics"
