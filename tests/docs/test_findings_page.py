"""docs/findings.md: short, and no number in it that a table of the other pages does not print."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "findings.md").read_text("utf-8")
TABLES = "\n".join((DOCS / name).read_text("utf-8") for name in ("experiments.md", "analysis.md"))


def test_it_can_be_read_in_a_minute() -> None:
    assert len(PAGE.splitlines()) <= 60
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE)
    assert len(pictures) == 3
    assert all((DOCS / picture).is_file() for picture in pictures)


def test_every_number_is_printed_in_a_table() -> None:
    printed = "\n".join(re.findall(r"^[|-].*", TABLES, re.MULTILINE))
    numbers = set(re.findall(r"\d+\.\d+", PAGE))
    assert len(numbers) > 20
    assert numbers <= set(re.findall(r"\d+\.\d+", printed))


def test_every_interval_is_printed_in_a_table() -> None:
    intervals = re.findall(r"\[(-?\d+\.\d+), (-?\d+\.\d+)\]", PAGE)
    assert len(intervals) >= 7
    for low, high in intervals:
        # A table may print the same as a change, where the page says what is lost.
        turned = f"[{-float(high) or 0.0:.1f}, {-float(low) or 0.0:.1f}]"
        assert f"[{low}, {high}]" in TABLES or turned in TABLES, (low, high)
