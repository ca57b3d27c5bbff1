"""The leaderboard's pages as files: the evaluator's numbers, equal bytes, and nothing foreign."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from msshift_bench.errors import MissingExtraError, UsageError
from msshift_bench.evaluation import Result
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.leaderboard.entries import figures_of, key_of, load_entries
from msshift_bench.leaderboard.site import BoardTable, board_tables, build_site
from msshift_bench.output import to_text
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import MEAN, Figure
from tests.conftest import MakeOnce
from tests.support.synthetic_entries import build_strange_site, write_strange_site

pytestmark = pytest.mark.extended

# Numbers.


def cells(page: Path, system: str) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the figure, text, interval and boldness of each number in a system's row."""
    row = re.search(rf'<tr data-system="{system}".*?</tr>', page.read_text("utf-8"), re.DOTALL)
    assert row is not None
    for name, cell in re.findall(
        r'<(?:td class="num mean|div data-figure=")"? ?(\w+).*?>(.*?)</(?:td|div)>',
        row[0],
        re.DOTALL,
    ):
        text = re.search(r'class="value( best)?">(.*?)<', cell)
        ends = re.search(r'class="ends">(.*?)<', cell)
        if text:
            yield name, text[2], ends[1] if ends else "", bool(text[1])


def test_numbers_are_those_of_the_evaluators_tables(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    result = board_entries[1]["brittle"]
    for scores in result.scores:
        table = next(to_text(t) for t in result.tables() if f"({scores.shift_name})" in t.title)
        page = board_site / f"mini/{scores.shift_name}-rr-10.html"
        shown = list(cells(page, "brittle"))
        assert len(shown) == 3 * (len(scores.groups) + 1)
        for name, text, ends, _ in shown:
            assert text in table
            assert name != "rel_loss" or (ends and ends in table)


def test_figures_are_those_of_the_scores(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    with (board_site / "mini/figures.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["entry"] == "mini/steady/v1"]
    steady = board_entries[1]["steady"]
    expected = [figure for scores in steady.scores for figure in figures_of(scores)]
    assert len(rows) == len(expected) > 300
    assert [float(row["value"]) for row in rows] == [figure.value for figure in expected]
    assert {row["badge"] for row in rows} == {"rescored"}
    key = ("topics", "RR@10", MEAN, "out")
    (mean,) = (figure for figure in expected if key_of(figure) == key)
    assert [mean.value] == [f.value for f in steady.figures if key_of(f) == key]


def table_of(*columns: list[Figure]) -> BoardTable:
    """Return a table of systems, each with the figures of one column."""
    entries = load_entries()[: len(columns)]
    rows = [
        (entry, {(figure.group, figure.figure): figure for figure in figures})
        for entry, figures in zip(entries, columns, strict=True)
    ]
    return BoardTable(BOARDS["mini"], "topics", "RR@10", rows)


def loss(value: float, half: float | None, seeds: int = 3) -> list[Figure]:
    ends = (None, None) if half is None else (value - half, value + half)
    named = Figure("rel_loss", shift="topics", measure="RR@10", group=MEAN, seeds=seeds)
    return [named._replace(value=value, low=ends[0], high=ends[1])]


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([loss(0.1, 0.02), loss(0.2, 0.02)], 0.1),
        ([loss(0.3, 0.02), loss(0.1, 0.02), loss(0.2, 0.02)], 0.1),
        ([loss(0.1, 0.06), loss(0.2, 0.06)], None),
        ([loss(0.1, 0.02), loss(0.2, 0.02, seeds=1)], None),
        ([loss(0.1, 0.02, seeds=1), loss(0.2, 0.02)], None),
        ([loss(0.1, None, seeds=0), loss(0.2, 0.02)], None),
        ([loss(0.1, 0.02)], None),
        ([], None),
    ],
)
def test_the_best_stands_apart_from_the_next_best(
    losses: list[list[Figure]], best: float | None
) -> None:
    assert {figure.value for figure in table_of(*losses).best()} == ({best} - {None})


def test_a_system_trained_on_test_queries_is_the_best_of_nothing(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    page = board_site / "mini/topics-rr-10.html"
    assert not any(best for *_, best in cells(page, "leaky"))
    text = page.read_text("utf-8")
    assert text.index("they stand apart") < text.index('data-system="leaky"')


def test_systems_stand_by_out_and_no_empty_column_is_drawn(board_site: Path) -> None:
    page = (board_site / "ms-marco/topics-rr-10.html").read_text("utf-8")
    order = re.findall(r'data-system="([^"]+)"', page)
    assert order == ["colbert", "monobert", "splade-max", "bi-encoder", "bm25"]
    heads = re.findall(r'data-sort="([^"]+)"', page)
    assert {"year", "out", "group-C4"} < set(heads)
    assert not {"seeds", "leaked", "parameters"} & set(heads)
    assert "95% intervals</label>" not in page
    resampled = (board_site / "ms-marco/resttest-rr-10.html").read_text("utf-8")
    assert 'name="figure"' not in resampled
    assert "group-" not in "".join(re.findall(r'data-sort="([^"]+)"', resampled))


# Files.


def test_every_board_shift_and_measure_has_a_page(board_site: Path) -> None:
    for board in BOARDS.values():
        systems = [entry for entry in load_entries() if entry.board is board]
        for table in board_tables(board, systems):
            page = (board_site / table.path).read_text("utf-8")
            for group, about in table.groups.items():
                assert f">{group}</span>" in page
                assert about in page
        for entry in systems:
            assert (
                board_site / f"{board.id}/systems/{entry.description.system.name}.html"
            ).is_file()
    assert (board_site / "index.html").read_text("utf-8").count("<h1>") == 1
    assert SHIFTS["topics"].groups["C0"] not in (board_site / "mini/topics-rr-10.html").read_text(
        "utf-8"
    )


def test_a_toy_board_says_so_on_every_page(board_site: Path) -> None:
    pages = [*board_site.glob("mini/**/*.html"), *board_site.glob("msmarco-pool/**/*.html")]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text("utf-8")
        assert 'data-kind="toy"' in text
        assert text.index("Not MS MARCO: a") < text.index("<h1>")
    for page in board_site.glob("ms-marco/**/*.html"):
        assert "Not MS MARCO" not in page.read_text("utf-8")


def test_pages_run_and_ask_for_nothing_foreign(board_site: Path) -> None:
    for page in board_site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in text
        assert not re.search(r"<script(?! src=)|<style|\son[a-z]+=|\sstyle=|javascript:", text)
        for address in re.findall(r'(?:src|href)="([^"#]+)', text):
            if not address.startswith("https://"):
                assert (page.parent / address).is_file(), address
        assert not re.search(r'src="http|<link[^>]*href="http', text)


def test_what_lies_beside_a_page_is_not_lost_and_equal_entries_give_equal_bytes(
    strange_site: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(strange_site, tmp_path / "site"))
    stale = copy / "ms-marco" / "stale.html"
    stale.write_text("")
    (copy / "index.html").write_text("")
    (copy / "CNAME").write_text("mine")
    with pytest.raises(UsageError, match="holds CNAME, which is no part of the page"):
        build_site(copy)
    assert (copy / "CNAME").read_text() == "mine"
    (copy / "CNAME").unlink()
    build_strange_site(copy, strange_site.with_name("entries"))
    before, after = (
        {path.relative_to(site): path.read_bytes() for path in site.rglob("*") if path.is_file()}
        for site in (strange_site, copy)
    )
    assert before.keys() == after.keys()
    assert [path for path in before if before[path] != after[path]] == []


@pytest.fixture(scope="module")
def strange_site(make_once: MakeOnce) -> Path:
    return make_once("strange-board", write_strange_site) / "site"


def test_a_script_in_any_field_is_text(strange_site: Path) -> None:
    shown = 0
    for path in strange_site.rglob("*.html"):
        text = path.read_text("utf-8")
        shown += text.count("&lt;script&gt;alert(1)")
        assert "<script>" not in text, path
        assert "<img src=x" not in text, path
        assert "{{" not in text.replace("{{ 7 * 7 }}", ""), path
    assert shown > 20


def test_the_newest_version_counts_and_the_older_ones_stay(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    page = (board_site / "mini/systems/twin.html").read_text("utf-8")
    assert "Trained for longer." in page
    assert "Version 1, 2026-11-21, by its authors" in page


def test_an_entry_of_mine_takes_the_place_of_a_packaged_one(strange_site: Path) -> None:
    page = (strange_site / "mini/length-rr-10.html").read_text("utf-8")
    assert "Mine" in page
    assert "Mine" not in (strange_site / "mini/topics-rr-10.html").read_text("utf-8")
    assert 'data-system="colbert"' in page


def test_without_jinja_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"msshift-bench\[leaderboard\]"):
        build_site(tmp_path / "site")
    assert not (tmp_path / "site").exists()
