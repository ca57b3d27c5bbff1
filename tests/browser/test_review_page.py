"""The page on which people judge candidates for leakage: the keyboard alone, from the disk."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.leakage import REFORMULATIONS, ReviewPair, review_leakage, write_review
from tests.browser.pages import WIDTHS, faults_of

pytestmark = pytest.mark.browser

HOSTILE = '"quoted", </script><script>alert(1)</script>\nand a line'
PAIRS = [
    ReviewPair(
        f"t{n // 5}", f"test query {n // 5}", f"q{n}", f"training query {n}" if n else HOSTILE,
        "near-duplicate", 1 - n / 9000, f"variant: v{n} | description: what is {n}?",
    )
    for n in range(827)
]  # fmt: skip
LABELS = list(REFORMULATIONS)


def says(page: Any, selector: str, text: str) -> None:
    """Wait until an element holds a text."""
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


def open_review(open_page: Any, sheet: Path) -> Any:
    page = open_page(sheet)
    # Choosers are caught from here on: what a key opens is there before a later wish to catch it.
    page.on("filechooser", lambda _: None)
    says(page, "#said", "Press 1 to 5")
    return page


def saved_by_keys(page: Any, folder: Path) -> Path:
    with page.expect_download() as download:
        page.keyboard.press("s")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_827_pairs_are_judged_with_the_keyboard_alone(open_page: Any, tmp_path: Path) -> None:
    sheet = tmp_path / "review.html"
    write_review(PAIRS, sheet)
    page = open_review(open_page, sheet)
    assert page.locator("#train").inner_text().startswith('"quoted", </script>')
    assert page.locator("#context").inner_text() == "variant: v0\ndescription: what is 0?"
    page.keyboard.press("s")
    says(page, "#said", "Type your name first")
    page.keyboard.type("Ann 15")
    page.keyboard.press("Enter")
    page.keyboard.type("12345" * 80)
    says(page, "#place", "Pair 401 of 827, 400 judged")
    for scheme, width in (("light", WIDTHS[1]), ("dark", WIDTHS[0])):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert faults_of(page) == []
    half = saved_by_keys(page, tmp_path)
    # It goes on where it was left, in this browser and, from the saved file, in another.
    page.reload()
    says(page, "#said", "Welcome back: 400 of 827")
    says(page, "#place", "Pair 401 of 827")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")
    says(page, "#place", "Pair 400 of 827, 399 judged")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("n")
    says(page, "#place", "Pair 400 of 827")
    elsewhere = open_review(open_page, sheet)
    says(elsewhere, "#place", "Pair 1 of 827, 0 judged")
    with elsewhere.expect_file_chooser() as chooser:
        elsewhere.keyboard.press("o")
    chooser.value.set_files(half)
    says(elsewhere, "#said", "400 of 827 pairs are judged in this file")
    elsewhere.keyboard.press("n")
    says(elsewhere, "#place", "Pair 401 of 827, 400 judged")
    elsewhere.keyboard.type(("12345" * 86)[: 827 - 400])
    says(elsewhere, "#said", "every pair is judged")
    whole = saved_by_keys(elsewhere, tmp_path / "whole")
    assert whole.name == "review-Ann-15.csv"
    rows = list(csv.DictReader(io.StringIO(whole.read_text("utf-8"), newline="")))
    assert [row["label"] for row in rows] == [LABELS[n % 5] for n in range(827)]
    assert {row["annotator"] for row in rows} == {"Ann 15"}
    found = review_leakage([whole])
    assert list(found.labels) == [
        pair._replace(cosine=float(f"{pair.cosine:.10g}")) for pair in PAIRS
    ]
    assert found.leaking(leaks=False).pairs == 165


def test_a_file_that_does_not_fit_is_refused(open_page: Any, tmp_path: Path) -> None:
    sheet = tmp_path / "review.html"
    write_review(PAIRS[:10], sheet)
    page = open_review(open_page, sheet)
    page.keyboard.press("2")
    says(page, "#place", "1 judged")
    good = "test_id,train_id,annotator,label\n"
    for text, message in (
        ("a,b\n1,2\n", "no column test_id, train_id, label"),
        (f"{good}t0,q99,x,identical\n", "judges another pair: t0 and q99"),
        (f"{good}t0,q0,x,same\n", "unknown label: same"),
        (f"{good}t0,q0,x,identical\nt0,q1,y,identical\n", "is of x and y"),
    ):
        wrong = tmp_path / "wrong.csv"
        wrong.write_text(text)
        with page.expect_file_chooser() as chooser:
            page.keyboard.press("o")
        chooser.value.set_files(wrong)
        says(page, "#said", message)
        says(page, "#place", "Pair 2 of 10, 1 judged")
