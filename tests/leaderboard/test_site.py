"""The leaderboard's page as files: equal bytes, and nothing foreign in them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.support.synthetic_entries import (
    add_entry,
    hostile_entries,
    scored_report,
    submission_json,
)
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.data.manifest import DataInfo
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.site import build_site
from msshift_bench.shifts import SHIFTS
from tests.support.site_files import registered


def test_topics_are_described_as_the_board_has_them(site: Path) -> None:
    page = (site / "mini/systems/brittle.html").read_text("utf-8")
    for described in BOARDS["mini"].groups["topics"].values():
        assert described in page
        assert described in (site / "mini/data/board.js").read_text("ascii")
    assert SHIFTS["topics"].groups["C0"] not in page
    assert SHIFTS["length"].groups["short"] in page


@pytest.mark.slow
def test_equal_entries_give_equal_bytes(
    site: Path, entries: tuple[Path, dict[str, Report]], tmp_path: Path
) -> None:
    again = build_site(entries[0], tmp_path / "again").parent
    files = sorted(path.relative_to(site) for path in site.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    for path in files:
        assert (site / path).read_bytes() == (again / path).read_bytes(), path


def test_a_toy_board_says_so_on_every_page(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if path.name != "submit.html"]
    assert len(pages) == 9
    for page in pages:
        text = page.read_text("utf-8")
        assert 'data-kind="toy"' in text
        assert text.index("Not MS MARCO: an invented world") < text.index("<h1>")


def test_pages_run_and_ask_for_nothing_foreign(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in text
        assert not re.search(r"<script(?! src=)|<style|\son[a-z]+=|\sstyle=|javascript:", text)
        for address in re.findall(r'(?:src|href)="([^"#]+)', text):
            if not address.startswith("https://"):
                assert (page.parent / address).is_file(), address
        assert not re.search(r'src="http|<link[^>]*href="http', text)


def test_what_lies_beside_a_page_is_not_lost(tmp_path: Path) -> None:
    hostile_entries(tmp_path / "entries")
    for name in ("CNAME", ".git"):
        site = build_site(tmp_path / "entries", tmp_path / f"site-{name}").parent
        (site / name).write_text("mine")
        with pytest.raises(UsageError, match=f"holds {name}, which is no part of the page"):
            build_site(tmp_path / "entries", site)
        assert (site / name).read_text() == "mine"
        (site / name).unlink()
        build_site(tmp_path / "entries", site)


def test_a_script_in_any_field_is_text(tmp_path: Path) -> None:
    hostile_entries(tmp_path / "entries")
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    shown = 0
    for path in (*site.rglob("*.html"), *(site / "mini").rglob("*.js")):
        text = path.read_text("utf-8")
        shown += text.count("&lt;script&gt;alert(1)") + text.count("\\u003cscript>alert(1)")
        assert "<script>" not in text, path
        assert "<img src=x" not in text, path
    assert shown > 20


@pytest.mark.slow
def test_texts_are_shown_where_the_data_are_the_entrys(tmp_path: Path) -> None:
    manifest = build_dataset(open_collection("mini:500"), ["length"], tmp_path / "msshift")
    report = replace(scored_report("own", 0.1, shifts=("length",)), data=DataInfo.of(manifest))
    other = scored_report("other", 0.1, shifts=("length",))
    for name, one in (("own", report), ("other", other)):
        add_entry(tmp_path / "entries", submission_json(name, one), one)
    site = build_site(tmp_path / "entries", tmp_path / "site", data=tmp_path / "msshift").parent
    texts = registered(site / "mini/data/texts/length.js")
    rows = load_dataset(tmp_path / "msshift", "length-short", split="test")
    assert texts[rows[0].query_id] == rows[0].text
    assert 'data-texts="length"' in (site / "mini/systems/own.html").read_text("utf-8")
    assert 'data-texts=""' in (site / "mini/systems/other.html").read_text("utf-8")
    plain = build_site(tmp_path / "entries", tmp_path / "plain").parent
    assert not (plain / "mini/data/texts").exists()


@pytest.mark.slow
def test_nothing_but_a_page_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not a page that was built before"):
        build_site(None, tmp_path / "home")
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"
    page = build_site(None, tmp_path / "site")
    (tmp_path / "site" / "ms-marco" / "stale.html").write_text("")
    assert build_site(None, tmp_path / "site") == page
    assert not (tmp_path / "site" / "ms-marco" / "stale.html").exists()


def test_a_page_without_entries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "entries").mkdir()
    with pytest.raises(UsageError, match="no entries to show"):
        build_site(tmp_path / "entries", tmp_path / "site")
    assert not (tmp_path / "site").exists()
