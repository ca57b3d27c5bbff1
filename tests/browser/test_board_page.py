"""A board in Chromium, opened from the disk: sorting, filters, links to a view.

tests/leaderboard/test_site.py checks the same pages without a browser.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.leaderboard.site import board_tables
from msshift_bench.stats import MEAN
from tests.browser.pages import WIDTHS, fits, names, shown

pytestmark = pytest.mark.browser

TOP = "document.querySelector('#systems tbody tr').getBoundingClientRect().top"
ROWS_SEEN = """[...document.querySelectorAll('#systems tbody tr[data-system]')]
    .filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"""
BOXES = """[...document.querySelectorAll('svg.scatter, svg.scatter .name')]
    .map(one => one.getBoundingClientRect().toJSON())"""
"""The boxes of the picture and of its names."""
VISIBLE = """[...document.querySelectorAll('#systems td.group > div')]
    .filter(cell => cell.checkVisibility()).map(cell => cell.dataset.figure)"""


@pytest.fixture(scope="module")
def table(board_site: Path) -> Any:
    """The table that the made-up board opens with."""
    entries = load_entries(board_site.parent / "entries")
    mini = [entry for entry in entries if entry.description.board == "mini"]
    return board_tables(BOARDS["mini"], mini)[0]


def values(table: Any, group: str, figure: str) -> dict[str, float]:
    """Return the systems that were not trained on test queries, with a figure of each."""
    return {
        entry.description.system.name: figures[group, figure].value
        for entry, figures in table.rows
        if (group, figure) in figures and entry.training_class != "trained-on-test"
    }


def test_the_table_is_high_on_the_page(open_board: Any) -> None:
    page = open_board()
    assert page.evaluate(TOP) <= 420
    assert page.evaluate(ROWS_SEEN) == 7
    assert page.locator(".masthead").bounding_box()["y"] < 130
    assert page.locator(".warning").bounding_box()["height"] < 45
    page.get_by_role("link", name="What the words mean").click()
    expect(page.locator("#reading")).to_be_visible()
    assert fits(page, 390)
    page.evaluate("scrollTo(0, 0)")
    assert page.evaluate(TOP) <= 640


# Order.


HEADS = [
    ("out", MEAN, "out", True),
    ("rel_loss", MEAN, "rel_loss", False),
    ("avg_in", MEAN, "avg_in", True),
    ("group-C3", "C3", "rel_loss", False),
]
"""The head of a column, the group and figure of its cells, and whether the highest comes first."""


def test_a_click_on_a_head_sorts_and_another_turns_it(open_board: Any, table: Any) -> None:
    page = open_board("#sort=system")
    every = values(table, MEAN, "out").keys()
    for head, group, figure, falls in HEADS:
        of_column = values(table, group, figure)
        without = sorted(every - of_column.keys())
        button = page.locator(f'[data-sort="{head}"]')
        for sign, direction in ((1, "ascending"), (-1, "descending"))[:: -1 if falls else 1]:
            button.click()
            order = sorted(of_column, key=lambda name: (sign * of_column[name], name))
            assert names(page) == order + without
            expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", direction)
        assert names(page, "tbody.on-test") == ["leaky"]
    page.locator('[data-sort="family"]').focus()
    page.keyboard.press("Enter")
    families = page.evaluate(
        "[...document.querySelectorAll('tbody:not(.on-test) tr')].map(row => row.dataset.family)"
    )
    assert families == sorted(families, key=lambda family: family.replace("-", " "))
    assert page.evaluate("document.activeElement.dataset.sort") == "family"


# Choices.


def test_figures_and_intervals_are_shown_as_chosen(open_board: Any, board_site: Path) -> None:
    page = open_board()
    assert set(page.evaluate(VISIBLE)) == {"rel_loss"}
    page.get_by_role("radio", name="Out").check()
    assert set(page.evaluate(VISIBLE)) == {"out"}
    assert page.locator("tr.over").inner_text().split("\t")[-2].strip() == "Out by group"
    expect(page.locator(".board .interval").first).to_be_visible()
    page.get_by_label("95% intervals").uncheck()
    expect(page.locator(".board .interval").first).not_to_be_visible()
    page.goto((board_site / "index.html").as_uri())
    expect(page.get_by_label("95% intervals")).to_have_count(0)


def test_search_and_filters_leave_the_reference(open_board: Any, table: Any) -> None:
    page = open_board()
    expect(page.locator("[name=q]")).not_to_be_visible()
    page.locator(".filters summary").click()
    page.locator("[name=q]").fill("STEADY made")
    assert names(page) == ["bm25"]
    page.locator("[name=q]").fill("A. AUTHOR steady")
    assert names(page) == ["steady", "bm25"]
    assert page.locator("#count").inner_text() == f"1 of {len(table.rows)} systems"
    page.locator("[name=q]").fill("")
    page.locator("[name=badge]").select_option("from a paper")
    assert names(page) == ["paper", "bm25"]
    assert page.locator("#filters-count").inner_text() == " (1 on)"
    page.locator("[name=badge]").select_option("")
    page.locator("[name=class]").select_option("undeclared")
    assert names(page) == ["bm25", "partly"]


def test_a_view_is_sent_as_a_link(open_board: Any, open_page: Any, board_site: Path) -> None:
    page = open_board()
    page.locator('[data-sort="rel_loss"]').click()
    page.locator(".filters summary").click()
    family = page.evaluate("document.querySelector('[data-system=steady]').dataset.family")
    page.locator("[name=family]").select_option(family)
    order, address = names(page), page.evaluate("location.href")
    other = open_page(board_site / "mini" / "topics-rr-10.html", address[address.index("#") :])
    shown(other)
    assert names(other) == order
    assert other.locator("th[aria-sort]").inner_text() == "Rel Loss"
    # Links to other measures and shifts keep the choice.
    other.get_by_role("link", name="nDCG@10").click()
    other.wait_for_url("**/*ndcg-10*")
    shown(other)
    assert other.locator("[name=family]").input_value() == family
    other.get_by_role("link", name="Query length").click()
    other.wait_for_url(f"**/length-ndcg-10.html#sort=rel_loss&family={family}")
    shown(other)


def test_wrong_words_in_the_address_are_ignored(open_board: Any) -> None:
    page = open_board("#figure=constructor&sort=%3Cimg%3E&dir=x&family=none")
    assert names(page) == ["bm25"]
    assert set(page.evaluate(VISIBLE)) == {"rel_loss"}


def test_the_table_needs_no_script(chromium: Any, board_site: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((board_site / "mini" / "topics-rr-10.html").as_uri())
    expect(page.locator("#systems tbody tr[data-system]")).to_have_count(7)
    expect(page.locator(".filters")).not_to_be_visible()
    page.get_by_role("link", name="Query length").click()
    page.wait_for_url("**/*length-rr-10*")
    context.close()


def test_the_picture_fits_with_all_its_names(open_board: Any) -> None:
    page = open_board()
    for width in WIDTHS:
        assert fits(page, width)
        frame, *boxes = page.evaluate(BOXES)
        assert len(boxes) == 6
        for box in boxes:
            assert frame["x"] <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]
