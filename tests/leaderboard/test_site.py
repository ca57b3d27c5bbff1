"""The leaderboard's pages as files: figures, equal bytes, no script of an author."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from msshift_bench.errors import MissingExtraError, NotFoundError, UsageError
from msshift_bench.evaluation import Result
from msshift_bench.leaderboard import site
from msshift_bench.leaderboard.description import BOARDS
from msshift_bench.leaderboard.entries import figures_of, key_of, load_entries
from msshift_bench.leaderboard.site import BoardTable, board_tables, build_site
from msshift_bench.output import to_text
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import MEAN, Figure
from tests.conftest import MakeOnce
from tests.support.file_bytes import file_bytes
from tests.support.synthetic_entries import add_entry, add_figures, description, write_hostile_board

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


def test_a_page_has_the_numbers_of_the_evaluator_s_tables(
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


def test_figures_csv_has_the_figures_of_the_scores(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    with (board_site / "mini/figures.csv").open(newline="") as file:
        of_entry = [row for row in csv.DictReader(file) if row["entry"] == "mini/steady/v1"]
    rows = [row for row in of_entry if not row["against"]]
    steady = board_entries[1]["steady"]
    expected = [figure for scores in steady.scores for figure in figures_of(scores)]
    assert len(rows) == len(expected) > 300
    assert [float(row["value"]) for row in rows] == [figure.value for figure in expected]
    assert {row["badge"] for row in rows} == {"rescored"}
    key = ("topics", "RR@10", MEAN, "out")
    (mean,) = (figure for figure in expected if key_of(figure) == key)
    assert [mean.value] == [f.value for f in steady.figures if key_of(f) == key]


def test_the_page_of_a_system_has_its_leads_over_the_reference(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    steady, bm25 = (board_entries[1][name].scores[0] for name in ("steady", "bm25"))
    places = steady.groups["C0"]
    inside, out = (side.mean() for side in steady.sides("RR@10", "C0", places)[:2])
    score = bm25.of("RR@10", ["all"], places).mean()
    with (board_site / "mini/figures.csv").open(newline="") as file:
        leads = [row for row in csv.DictReader(file) if row["against"] and row["group"] == "C0"]
    found = {
        row["figure"]: row
        for row in leads
        if (row["entry"], row["measure"]) == ("mini/steady/v1", "RR@10")
    }
    assert {row["against"] for row in leads} == {"bm25"}
    assert float(found["lead_in"]["value"]) == pytest.approx(inside - score)
    assert float(found["lead_out"]["value"]) == pytest.approx(out - score)
    assert {row["p"] for row in leads} == {""}
    assert {row["entry"] for row in leads} == {
        f"mini/{name}" for name in ("steady/v1", "twin/v2", "brittle/v1", "leaky/v1", "partly/v1")
    }
    page = (board_site / "mini/systems/steady.html").read_text("utf-8")
    part = page.partition("<summary>Lead over BM25</summary>")[2].partition("</details>")[0]
    assert f"{100 * (inside - score):.1f}" in part
    assert "Lead over" not in (board_site / "mini/systems/bm25.html").read_text("utf-8")


def table_of(*columns: list[Figure], classes: tuple[str, ...] = ()) -> BoardTable:
    """Return a table of systems, each with the figures of one column; `classes` of the first."""
    held_out = ["held-out"] * (len(columns) - len(classes))
    entries: list[Any] = [SimpleNamespace(training_class=name) for name in (*classes, *held_out)]
    rows = [
        (entry, {(figure.group, figure.figure): figure for figure in figures})
        for entry, figures in zip(entries, columns, strict=True)
    ]
    return BoardTable(BOARDS["mini"], "topics", "RR@10", "", rows)


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
def test_the_best_is_apart_from_the_next_best(
    losses: list[list[Figure]], best: float | None
) -> None:
    assert {figure.value for figure in table_of(*losses).best()} == ({best} - {None})


@pytest.mark.parametrize("kind", ["trained-on-test", "trained-on-everything"])
def test_a_system_that_may_have_seen_test_queries_is_never_the_best(kind: str) -> None:
    table = table_of(loss(0.0, 0.01), loss(0.1, 0.02), loss(0.2, 0.02), classes=(kind,))
    assert {figure.value for figure in table.best()} == {0.1}
    table = table_of(loss(0.0, 0.01), loss(0.1, 0.02), classes=(kind,))
    assert table.best() == set()


def test_a_system_trained_on_test_queries_is_never_the_best(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    page = board_site / "mini/topics-rr-10.html"
    assert not any(best for *_, best in cells(page, "leaky"))
    text = page.read_text("utf-8")
    assert text.index("they stand apart") < text.index('data-system="leaky"')


def test_systems_are_sorted_by_out_without_empty_columns(board_site: Path) -> None:
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


# The picture.


MEAN_OF_TOPICS = ("topics", "RR@10", MEAN)


def test_the_picture_has_each_system_in_its_place(
    board_site: Path, board_entries: tuple[Path, dict[str, Result]]
) -> None:
    text = (board_site / "mini/topics-rr-10.html").read_text("utf-8")
    svg = text[text.index('<svg class="scatter"') :].partition("</svg>")[0]
    points = {
        title.lower(): (float(x), float(y))
        for title, x, y in re.findall(
            r'<title>([^:]+):.*?cx="([^"]+)" cy="([^"]+)"', svg, re.DOTALL
        )
    }
    # "leaky" was trained on test queries; "bm25" has no loss and is a line.
    assert points.keys() == {"steady", "twin", "brittle", "partly", "paper"}
    figures = {
        name: {key_of(f)[3]: f.value for f in result.figures if key_of(f)[:3] == MEAN_OF_TOPICS}
        for name, result in board_entries[1].items()
        if name in points
    }
    for place, figure in enumerate(("out", "rel_loss")):
        by_figure = sorted(figures, key=lambda name: figures[name][figure])
        assert by_figure == sorted(figures, key=lambda name: points[name][place])
    names = re.findall(r'class="name" x="([^"]+)" y="([^"]+)" text-anchor="(\w+)">([^<]+)<', svg)
    assert len(names) == 6
    shares = {"start": 0.0, "middle": 0.5, "end": 1.0}
    boxes = []
    for x, y, anchor, name in names:
        left = float(x) - shares[anchor] * 7 * len(name)
        assert 0 < left < left + 7 * len(name) < 860
        boxes.append((left, left + 7 * len(name), float(y)))
    for number, (left, right, y) in enumerate(boxes):
        for other in boxes[:number]:
            assert right <= other[0] or other[1] <= left or abs(y - other[2]) > 10


# Files.


def test_every_board_shift_and_measure_has_a_page(board_site: Path) -> None:
    every = load_entries(board_site.parent / "entries")
    for name in ("mini", "ms-marco"):
        systems = [entry for entry in every if entry.board is BOARDS[name]]
        tables = board_tables(BOARDS[name], systems)
        assert {table.shift for table in tables} <= BOARDS[name].shifts.keys()
        for table in tables:
            page = (board_site / table.path).read_text("utf-8")
            for group, about in table.groups.items():
                assert f">{group}</span>" in page
                assert about in page
        for entry in systems:
            assert (board_site / f"{name}/systems/{entry.description.system.name}.html").is_file()
    assert (board_site / "index.html").read_text("utf-8").count("<h1>") == 1
    # A group has the description of the board's own data.
    mini = (board_site / "mini/topics-rr-10.html").read_text("utf-8")
    assert SHIFTS["topics"].groups["C0"] not in mini


def test_public_systems_have_rows_by_test_set(board_site: Path) -> None:
    own = (board_site / "ms-marco/length-rr-10.html").read_text("utf-8")
    other = (board_site / "ms-marco/length-ndcg-10-trec-dl-2019-and-2020.html").read_text("utf-8")
    rows = [re.findall(r'data-system="(public-[^"]+)"', page) for page in (own, other)]
    assert rows[0] == ["public-ance", "public-sbert", "public-bm25"]
    assert {*rows[1]} == {
        f"public-{name}"
        for name in ("bm25", "bm25-rm3", "tas-b", "ada-002", "splade-ed", "repllama")
    }
    assert "nDCG@10, TREC DL 2019 and 2020</a>" in own
    # Without losses, the columns of groups begin with scores.
    shown = [re.findall(r'id="systems" data-figure="(\w+)"', page) for page in (own, other)]
    assert shown == [["rel_loss"], ["out"]]
    (row,) = re.findall(r'<tr data-system="public-ance".*?</tr>', own, re.DOTALL)
    assert "public checkpoint" in row
    assert 'data-class="trained-on-everything"' in row
    assert 'data-badge="from published rankings"' in row
    assert "may have seen the test queries" in row
    system = (board_site / "ms-marco/systems/public-ance.html").read_text("utf-8")
    leads = system.partition("<summary>Lead over BM25 (k1 0.9, b 0.4)</summary>")[2]
    assert ">17.3<" in leads.partition("</details>")[0]


def test_a_toy_board_has_a_warning_on_every_page(board_site: Path) -> None:
    pages = list(board_site.glob("mini/**/*.html"))
    assert len(pages) > 10
    for page in pages:
        text = page.read_text("utf-8")
        assert 'data-kind="toy"' in text
        assert text.index("Not MS MARCO: a") < text.index("<h1>")
    for page in board_site.glob("ms-marco/**/*.html"):
        assert "Not MS MARCO" not in page.read_text("utf-8")


def test_pages_have_no_inline_script_and_no_broken_or_foreign_address(board_site: Path) -> None:
    for page in board_site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in text
        assert not re.search(r"<script(?! src=)|<style|\son[a-z]+=|\sstyle=|javascript:", text)
        for address in re.findall(r'(?:src|href)="([^"#]+)', text):
            if not address.startswith("https://"):
                assert (page.parent / address).is_file(), address
        assert not re.search(r'src="http|<link[^>]*href="http', text)
        # What a reader without eyes needs, on every page.
        assert '<html lang="en"' in text
        assert text.count("<h1") == text.count("<main") == 1
        assert '<meta name="viewport"' in text
        assert not re.search(r"<img(?![^>]* alt=)|<svg(?![^>]* (role|aria-hidden)=)", text)
        for field in re.findall(r"<(?:input|select)[^>]*>", text):
            assert "aria-label=" in field or re.search(
                rf"<label[^>]*>[^<]*{re.escape(field)}", text
            )


def test_foreign_files_are_kept_and_equal_entries_give_equal_bytes(
    hostile_site: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(hostile_site, tmp_path / "site"))
    stale = copy / "mini" / "stale.html"
    stale.write_text("")
    (copy / "index.html").write_text("")
    (copy / "CNAME").write_text("mine")
    entries = hostile_site.with_name("entries")
    with pytest.raises(UsageError, match="CNAME"):
        build_site(copy, entries, packaged=False)
    assert (copy / "CNAME").read_text() == "mine"
    (copy / "CNAME").unlink()
    build_site(copy, entries, packaged=False)
    assert file_bytes(copy) == file_bytes(hostile_site)


@pytest.fixture(scope="module")
def hostile_site(make_once: MakeOnce) -> Path:
    return make_once("hostile-board", write_hostile_board) / "site"


def test_a_script_in_any_field_is_text(hostile_site: Path) -> None:
    shown = 0
    for path in hostile_site.rglob("*.html"):
        text = path.read_text("utf-8")
        shown += text.count("&lt;script&gt;alert(1)")
        assert "<script>" not in text, path
        assert "<img src=x" not in text, path
        assert "{{" not in text.replace("{{ 7 * 7 }}", ""), path
    assert shown > 20


def test_a_system_s_page_has_its_older_versions(board_site: Path) -> None:
    page = (board_site / "mini/systems/twin.html").read_text("utf-8")
    assert "Trained for longer." in page
    assert "Version 1, 2026-11-21, by its authors" in page
    bm25 = (board_site / "mini/systems/bm25.html").read_text("utf-8")
    assert "msshift build\nmake &#39;a &amp; b&#39;" in bm25


def test_the_packaged_entries_are_included_unless_they_are_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = add_entry(tmp_path / "packaged", description("paper", None), None).parents[2]
    mine = add_entry(tmp_path / "mine", description("mine", None), None)
    figures = [("topics", "RR@10", "C0", "out", 0.5)]
    for entry in (mine, packaged / "mini/paper/v1"):
        add_figures(entry, figures)
    monkeypatch.setattr(site, "entries_folder", lambda: packaged)
    for wanted, names in ((True, {"mine", "paper"}), (False, {"mine"})):
        out = build_site(tmp_path / "site", tmp_path / "mine", packaged=wanted).parent
        assert {path.stem for path in out.glob("mini/systems/*")} == names


def test_a_folder_without_entries_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(NotFoundError, match=r"no entry in .*mine; .*<board>/<system>/v<n>.*mini"):
        build_site(tmp_path / "site", folder, packaged=False)
    assert not (tmp_path / "site").exists()


def test_without_jinja_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"needs the 'leaderboard' extra"):
        build_site(tmp_path / "site")
    assert not (tmp_path / "site").exists()
