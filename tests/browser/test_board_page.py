"""A board, and the comparison of its systems, in Chromium, opened from the disk."""

from __future__ import annotations

import csv
import functools
import io
import json
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.evaluation.parsing import parse_measure
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.output.table import show_p, show_percent
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats.differences import SystemPair, compare_systems
from tests.browser.pages import board, names, saved, says

pytestmark = pytest.mark.browser

MEANS = ("out", "rel_loss", "avg_in")
near = functools.partial(pytest.approx, rel=1e-11)
DASH = "\N{EN DASH}"


def column(page: Any, header: str) -> list[float | None]:
    """Return the raw values under a header, from top to bottom."""
    found: list[float | None] = page.evaluate(
        """header => {
          const heads = [...document.querySelectorAll('#systems thead tr:last-child th')];
          const at = heads.findIndex(one => one.querySelector('span').textContent === header);
          const cells = [...document.querySelectorAll('#systems tbody tr')].map(
            row => row.children[at].dataset.value);
          return cells.map(value => (value === undefined ? null : Number(value)));
        }""",
        header,
    )
    return found


SHOWN = """() => Object.fromEntries(
  [...document.querySelectorAll('table.board tbody tr')].map(row => [
    row.dataset.system,
    [...row.querySelectorAll('td.mean, td.group')].map(cell => [
      'value' in cell.dataset ? Number(cell.dataset.value) : null,
      cell.querySelector('.value, .none').textContent,
      cell.querySelector('.interval')?.textContent ?? '',
    ]),
  ]))"""


def shown_cell(one: Any, figure: str, measure: str, seeds: int) -> list[object]:
    """Return a figure of a report as the table has it: raw, as text, and its interval."""

    def text(value: float) -> str:
        return show_percent(value) if figure == "rel_loss" else parse_measure(measure).show(value)

    value = getattr(one, figure)
    low, high = (text(end).removesuffix("%") for end in getattr(one.intervals, figure))
    return [value, text(value), f"[{low}, {high}]" + " queries only" * (seeds == 1)]


def test_the_table_shows_the_reports_numbers(
    open_page: Any, built: tuple[Path, dict[str, Report]]
) -> None:
    site, reports = built
    compared = 0
    page = board(open_page, site)
    for shift in ("topics", "wh-words", "length"):
        page.locator(f"#shifts input[value={shift}]").check()
        for measure in ("RR@10", "nDCG@10"):
            page.locator("[name=measure]").select_option(measure)
            for figure in ("rel_loss", "out", "avg_in"):
                page.locator(f"#controls [name=figure][value={figure}]").check()
                title = f"{SHIFTS[shift].title}, {parse_measure(measure).mean_name}"
                says(page, "#systems caption", title)
                shown = page.evaluate(SHOWN)
                for name, report in reports.items():
                    result = next((one for one in report.systems if one.shift.name == shift), None)
                    loss = result and result.measures[measure].loss
                    if loss:
                        expected = [shown_cell(loss, one, measure, loss.seeds) for one in MEANS]
                        groups = loss.groups.values()
                        expected += [shown_cell(one, figure, measure, loss.seeds) for one in groups]
                        assert shown[name] == expected
                        compared += len(expected)
    assert compared == 2 * 3 * (5 * 8 + 4 * 6 + 4 * 5)


def test_every_column_sorts_in_both_directions(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    buttons = page.locator("#systems thead button")
    count = buttons.count()
    assert count == 2 + 3 + 5 + 6
    for number in range(count):
        header = buttons.nth(number).locator("span").text_content()
        orders = []
        for _ in range(2):
            buttons.nth(number).click()
            sort = page.locator("#systems thead [aria-sort]")
            assert sort.count() == 1
            assert sort.locator("span").text_content() == header
            direction = sort.get_attribute("aria-sort")
            values = [value for value in column(page, header) if value is not None]
            assert values == sorted(values, reverse=direction == "descending")
            orders.append((direction, names(page)))
        assert {direction for direction, _ in orders} == {"ascending", "descending"}
    page.locator("[data-sort=rel_loss]").first.click()
    losses = column(page, "Rel Loss")
    assert losses[-1] is None, "a system without a loss comes last"
    assert losses[0] is not None


def test_systems_stand_by_out_until_the_reader_sorts_them(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    head = page.locator("#systems thead [aria-sort]")
    assert (head.locator("span").text_content(), head.get_attribute("aria-sort")) == (
        "Out", "descending",
    )  # fmt: skip
    means = column(page, "Out")
    assert means == sorted(means, key=lambda value: -(value or 0))
    heads = page.locator("#systems thead tr:last-child th span").all_text_contents()
    assert heads[:5] == ["Rank", "System", "Out", "Rel Loss", "Avg In"]
    page.locator("[data-sort=rel_loss]").first.click()
    assert "sort=rel_loss&dir=asc" in page.evaluate("location.hash")
    page.locator("[data-sort=out]").first.click()
    assert column(page, "Out") == means


def test_filters_narrow_the_table_and_say_so(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    assert page.locator("#count").text_content() == "7 systems"
    page.get_by_label("Search").fill("brit")
    assert names(page) == ["bm25", "brittle"], "the reference stays"
    assert page.locator("#count").text_content() == "1 of 7 systems"
    page.get_by_label("Search").fill("")
    page.get_by_label("Badge").select_option("reported")
    assert set(names(page)) == {"paper", "bm25"}
    page.get_by_label("Badge").select_option("")
    page.get_by_label("Training", exact=True).select_option("Not trained")
    assert names(page) == ["bm25"]
    page.get_by_label("Training", exact=True).select_option("Held out, as reported")
    assert set(names(page)) == {"paper", "bm25"}
    page.get_by_label("Training", exact=True).select_option("")
    family = page.locator("#systems tbody tr").first.locator("td.fact").first.text_content()
    page.get_by_label("Family").select_option(family)
    families = page.locator("#systems tbody td.fact:nth-last-child(6)").all_text_contents()
    assert set(families) == {family, "Lexical"}


def test_systems_trained_on_test_queries_stand_apart(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    assert "leaky" not in names(page)
    assert names(page, "#systems-on-test") == ["leaky"]
    assert page.locator("#on-test").is_visible()
    page.wait_for_selector("#front a")
    assert page.locator("#front").inner_text().startswith("On the front: Steady")
    assert "Leaky" not in page.locator("#front").inner_text()
    assert page.locator("#chart").get_attribute("aria-label").startswith("Scatter of 5 systems")


def test_a_phone_shows_the_table_first_and_draws_the_scatter(open_page: Any, site: Path) -> None:
    page = board(open_page, site, width=390)
    assert not page.get_by_label("Search").is_visible()
    row = page.locator("#systems tbody tr").first
    assert row.bounding_box()["y"] < 700, "within the first screen of 844"
    for figure in ("out", "rel_loss"):
        cell = row.locator(f".mean.{figure}").bounding_box()
        assert cell["x"] + cell["width"] < 390
    assert page.locator(".sideways").first.is_visible()
    assert "tick to compare" in page.locator("#systems thead .col-system").inner_text()
    assert row.locator(".links a").get_attribute("href") == "https://example.org/code"
    page.wait_for_function("() => Chart.getChart('chart')?.labelled")
    labels = page.evaluate("Chart.getChart('chart').labelled")
    texts = [label["text"] for label in labels]
    front = page.locator("#front a").all_text_contents()
    assert front
    assert set(front) <= set(texts)
    for number, one in enumerate(labels):
        assert one["left"] >= 0
        for other in labels[:number]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
    out = page.locator("#systems .reference .mean.out .value").text_content()
    assert f"with a line at BM25 {out}" in page.locator("#chart").get_attribute("aria-label")
    page.locator("#filters summary").click()
    page.get_by_label("Search").fill("no such system")
    assert page.locator("#filters summary").inner_text().endswith("(1 on)")
    assert names(page) == ["bm25"]


def test_ranks_are_shared_or_explained(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    cells = dict(
        zip(names(page), page.locator("#systems td.col-rank").all_inner_texts(), strict=True)
    )
    assert cells["steady"].split() == ["1", f"1{DASH}2"]
    assert cells["twin"].split() == ["1", f"1{DASH}2"]
    assert cells["bm25"].splitlines()[0] == DASH
    assert "one seed" in cells["partly"]
    assert "not trained per group" in cells["bm25"]


def test_what_a_reader_must_know_of_a_system_stands_in_its_row(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    row = page.locator("#systems [data-system=brittle] .caveat")
    assert row.all_text_contents() == ["reranks BM25's first 50"]
    assert page.locator("#systems .caveat").count() == 1
    page.goto((site / "mini" / "compare.html").as_uri() + "#systems=brittle,steady")
    page.wait_for_selector("#facts table")
    (caveats,) = page.evaluate(
        "[...document.querySelectorAll('#facts tbody tr')].map(row => "
        "[...row.children].map(one => one.textContent)).filter(([head]) => head === 'Caveats')"
    )
    assert caveats == ["Caveats", "reranks BM25's first 50", DASH]


def test_a_view_is_a_link(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    page.locator("#shifts input[value=length]").check()
    page.locator("[name=measure]").select_option("nDCG@10")
    page.locator("#controls [value=avg_in]").check()
    page.get_by_label("Search").fill("distilbert")
    page.get_by_label("Intervals").uncheck()
    page.locator("[data-sort=group-long]").first.click()
    seen = names(page), page.locator("#systems").inner_text()
    address = page.evaluate("location.href")
    assert "shift=length" in address
    again = board(open_page, site, address.partition("index.html")[2])
    says(again, "#systems caption", "nDCG")
    assert (names(again), again.locator("#systems").inner_text()) == seen
    again.reload()
    again.wait_for_selector("#systems tbody tr")
    assert names(again) == seen[0]
    assert again.get_by_label("Search").input_value() == "distilbert"
    again.evaluate("location.hash = '#main'")
    # The page follows a change of the address in an event of its own.
    again.wait_for_function("() => location.hash.includes('shift=length')")
    assert names(again) == seen[0]
    again.evaluate("location.hash = '#shift=no-such&figure=none&sort=none&measure=x&badge=y'")
    says(again, "#count", "0 of 7 systems")


def test_downloads_hold_the_present_view(
    open_page: Any, built: tuple[Path, dict[str, Report]]
) -> None:
    site, reports = built
    page = board(open_page, site, "#q=distilbert&badge=rescored&figure=out&sort=system&dir=desc")
    name, text = saved(page, "#csv")
    assert name == "msshift-mini-topics-rr-10.csv"
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["system"] for row in rows] == ["twin", "partly", "leaky", "brittle", "bm25"]
    numbers = [cell for row in rows for cell in row.values() if cell.startswith(("0.", "-0."))]
    digits = [len(number.lstrip("-0.")) for number in numbers]
    assert 12 in digits
    assert max(digits) == 12, "0.3462, not 0.34619999999999995"
    row = rows[3]
    assert (row["year"], row["parameters"], row["code"]) == (
        "2026", "66000000", "https://example.org/code",
    )  # fmt: skip
    brittle = reports["brittle"].systems[0].measures["RR@10"].loss
    assert brittle is not None
    assert brittle.groups["C3"].intervals is not None
    assert float(row["mean rel_loss"]) == near(brittle.rel_loss)
    assert float(row["C3 out"]) == near(brittle.groups["C3"].out)
    assert float(row["C3 out high"]) == near(brittle.groups["C3"].intervals.out.high)
    assert rows[4]["mean rel_loss"] == ""
    assert [row["unranked"] for row in rows] == [
        "", "one seed", "trained on test queries", "", "not trained per group",
    ]  # fmt: skip

    name, text = saved(page, "#json")
    assert name == "msshift-mini-topics-rr-10.json"
    value = json.loads(text)
    assert (value["board"], value["shift"], value["measure"]) == ("mini", "topics", "RR@10")
    assert [row["system"] for row in value["rows"]] == [row["system"] for row in rows]
    cell = value["rows"][3]["columns"]["C0"]["rel_loss"]
    assert cell["value"] == near(brittle.groups["C0"].rel_loss)

    page.locator("#latex").click()
    latex = page.locator("#dialog textarea").input_value()
    assert latex.startswith("\\begin{table}")
    cells = [parse_measure("RR@10").show(brittle.out), show_percent(brittle.rel_loss)]
    assert f"Brittle & {cells[0]} & {cells[1].replace('%', chr(92) + '%')}" in latex
    page.locator("#dialog [data-copy]").click()
    page.wait_for_function(
        "() => document.querySelector('#dialog [data-copy]').textContent === 'Copied'"
    )
    assert page.evaluate("navigator.clipboard.readText()") == latex
    page.keyboard.press("Escape")
    assert not page.locator("#dialog").is_visible()


def _of(pair: SystemPair, group: str | None) -> float | None:
    return (pair.overall if group is None else pair.groups[group]).difference


def _p(pair: SystemPair, group: str | None) -> float | None:
    return pair.adjusted_overall_p if group is None else pair.adjusted_p.get(group)


def test_two_systems_are_compared(open_page: Any, built: tuple[Path, dict[str, Report]]) -> None:
    site, reports = built
    page = board(open_page, site, "#shift=length")
    assert not page.locator("#compare").is_visible()
    for name in ("Brittle", "Twin", "BM25"):
        page.get_by_label(f"compare {name}").check()
    page.locator("#compare").click()
    page.wait_for_selector("#differences table")
    scores = {
        name: one.measures["RR@10"].scores
        for name, report in reports.items()
        for one in report.systems
        if one.shift.name == "length" and name not in ("leaky", "bm25")
    }
    untrained = reports["bm25"].systems[2].scores
    beside = {"bm25": untrained.untrained_scores("RR@10", untrained.groups), **scores}
    shown = page.evaluate(
        "[...document.querySelectorAll('#differences table')].map(table => "
        "[table.caption.textContent, ...[...table.tBodies[0].rows].map(row => "
        "[0, 1, 3, 4, 6].map(at => row.cells[at]?.textContent ?? ''))])"
    )
    measure = parse_measure("RR@10")
    by_out = compare_systems(dict(sorted(beside.items())), figure="out").pairs
    by_loss = compare_systems(dict(sorted(scores.items()))).pairs
    pairs = [("brittle", "twin"), ("bm25", "brittle"), ("bm25", "twin")]
    for table, (a, b) in zip(shown, pairs, strict=True):
        title = {"bm25": "BM25"}
        names_ = [title.get(name, name.capitalize()) for name in (a, b)]
        assert table[0] == f"{names_[0]} minus {names_[1]}, MRR@10 \N{MULTIPLICATION SIGN} 100"
        out, loss = by_out[a, b], by_loss.get((a, b))
        expected = []
        for name in (*out.groups, None):
            cells = [name or "whole shift", measure.show(_of(out, name)), show_p(_p(out, name))]
            if loss is not None:
                cells += [show_percent(_of(loss, name)), show_p(_p(loss, name))]
            expected.append([*cells, *[""] * (5 - len(cells))])
        assert table[1:] == expected
    assert page.locator("#differences .note").count() == 0
    said = page.locator("#differences p.about:not(:first-child)").all_inner_texts()
    assert ["no Rel Loss to compare. Only Out is tested" in text for text in said] == [True] * 2
    assert "Brittle" in page.locator("#facts").inner_text()
    page.get_by_label("System 3").select_option("")
    page.get_by_label("Measure").select_option("nDCG@10")
    says(page, "#figures caption", "nDCG")
    page.reload()
    page.wait_for_selector("#differences table")
    assert page.get_by_label("System 1").input_value() == "brittle"

    # Only topics have results of both, whatever shift the address names.
    partly = (site / "mini/compare.html").as_uri() + "#systems=brittle,partly,paper&shift=length"
    page.goto("about:blank")
    page.goto(partly)
    says(page, "#count", "3 of 3 systems have results on query topics.")
    assert page.get_by_label("Shift").locator("option").all_text_contents() == ["Query topics"]
    (note, _) = page.locator("#differences .note").all_inner_texts()
    assert "taken from a paper, which gives no scores per query" in note


def test_the_keyboard_reaches_everything(open_page: Any, site: Path) -> None:
    page = board(open_page, site)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "shift"
    page.keyboard.press("ArrowRight")
    says(page, "#systems caption", "Question")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.sort") == "system":
            break
    page.keyboard.press("Enter")
    assert names(page) == sorted(names(page))
    assert page.evaluate("document.activeElement.dataset.sort") == "system", "focus stays"
    for name in ("brittle", "steady"):
        page.focus(f"#systems [value={name}]")
        page.keyboard.press("Space")
    page.focus("#compare")
    page.keyboard.press("Enter")
    page.wait_for_selector("#differences table")
