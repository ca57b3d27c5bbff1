"""The leaderboard's page as files: its numbers, its ranks, and that it runs nothing foreign."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.support.synthetic_entries import (
    SETTINGS,
    add_entry,
    few_entries,
    hostile_entries,
    scored_report,
    submission_json,
)
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.data.manifest import DataInfo, TrainingSets
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.parsing import parse_measure
from msshift_bench.evaluation.report import Report
from msshift_bench.leaderboard import load_published, ranks
from msshift_bench.leaderboard.board_view import by_out, pareto_front
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.query_columns import queries_json
from msshift_bench.leaderboard.results import Result, ShownFigure
from msshift_bench.leaderboard.site import build_site
from msshift_bench.output.table import show_p, show_percent
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats.differences import compare_systems

FIGURES = ("avg_in", "out", "rel_loss")


def registered(script: Path) -> Any:
    """Return what a data script registers."""
    text = script.read_text("ascii")
    arguments = text.removeprefix("msshift.register(").removesuffix(");\n")
    _, value = json.loads(f"[{arguments}]")
    return value


class Cells(HTMLParser):
    """Collects the text and attributes of every element that carries a raw value."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self.panel: dict[str, str | None] = {}
        self.by_panel: dict[tuple[str | None, str | None], list[Any]] = {}
        self.open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self.panel = given if "data-shift" in given else {}
        self.open = "data-value" in given and bool(self.panel)
        if self.open:
            key = self.panel["data-shift"], self.panel["data-measure"]
            self.by_panel.setdefault(key, []).append([given, ""])

    def handle_data(self, data: str) -> None:
        if self.open:
            key = self.panel["data-shift"], self.panel["data-measure"]
            self.by_panel[key][-1][1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = False


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Report]]:
    folder = tmp_path_factory.mktemp("entries")
    return folder, few_entries(folder)


@pytest.fixture(scope="module")
def site(entries: tuple[Path, dict[str, Report]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(entries[0], tmp_path_factory.mktemp("site") / "site").parent


def shown(figure: str, measure: str, value: float) -> str:
    return show_percent(value) if figure == "rel_loss" else parse_measure(measure).show(value)


def losses(reports: dict[str, Report]) -> Iterator[tuple[str, str, str, Any]]:
    for name, report in reports.items():
        for result in report.systems:
            for measure, found in result.measures.items():
                yield name, result.shift.name, measure, found


def test_every_cell_of_every_table_is_the_reports(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    compared = 0
    for name, shift, measure, found in losses(entries[1]):
        file = f"{shift}-{measure}".lower().replace("@", "-")
        row = registered(site / f"mini/data/tables/{file}.js")["rows"][name]
        if found.loss is None:
            for group in SHIFTS[shift].groups:
                value = found.mean(group)
                for figure in ("avg_in", "out"):
                    assert row["cells"][group][figure] == [
                        value,
                        parse_measure(measure).show(value),
                    ]
                    compared += 1
            continue
        for column, one in {**found.loss.groups, "mean": found.loss}.items():
            for figure in FIGURES:
                value = getattr(one, figure)
                low, high = getattr(one.intervals, figure)
                ends = [shown(figure, measure, end).removesuffix("%") for end in (low, high)]
                interval = f"[{', '.join(ends)}]" + " queries only" * (found.loss.seeds == 1)
                expected = [value, shown(figure, measure, value), low, high, interval]
                cell = row["cells"][column][figure]
                assert cell[:5] == expected
                marks = cell[5] if len(cell) > 5 else 0
                p_value = found.loss.adjusted_p.get(column) if found.loss.seeds > 1 else None
                starred = figure == "rel_loss" and p_value is not None and p_value <= 0.05
                assert bool(marks & 1) == starred
                compared += 1
    assert compared == 4 * 2 * (6 + 4 + 3) * 3 + 2 * 6 * 3 + 2 * (5 + 3 + 2) * 2


def test_every_number_of_a_systems_page_is_the_reports(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    compared = 0
    pages = {}
    for name, shift, measure, found in losses(entries[1]):
        if name not in pages:
            pages[name] = Cells()
            pages[name].feed((site / f"mini/systems/{name}.html").read_text("utf-8"))
        groups = list(SHIFTS[shift].groups)
        expected = []
        if found.loss is None:
            values = [found.mean(group) for group in groups]
            values.append(sum(values) / len(values))
            expected += [(value, parse_measure(measure).show(value)) for value in values]
        else:
            for held_out in groups:
                values = [found.mean(group, held_out) for group in groups]
                expected += [(value, parse_measure(measure).show(value)) for value in values]
            for one in [*found.loss.groups.values(), found.loss]:
                for figure in ("avg_in", "out", "loss", "rel_loss"):
                    value = getattr(one, figure)
                    expected.append((value, shown(figure, measure, value)))
        cells = pages[name].by_panel[shift, measure]
        assert [(float(given["data-value"]), text) for given, text in cells] == expected
        compared += len(expected)
    assert compared == 4 * 2 * (25 + 9 + 4 + 4 * 13) + 2 * (25 + 24) + 2 * 13


def test_statistics_of_a_systems_page(site: Path, entries: tuple[Path, dict[str, Report]]) -> None:
    page = (site / "mini/systems/brittle.html").read_text("utf-8")
    loss = entries[1]["brittle"].systems[0].measures["RR@10"].loss
    assert loss is not None
    panel = page[page.index('data-shift="topics"') :]
    for group, one in loss.groups.items():
        row = panel[panel.index(f'<th scope="row">{group} ') :].partition("</tr>")[0]
        cells = [html.unescape(text) for text in re.findall(r'<td class="num">([^<]*)</td>', row)]
        assert one.tests.d_z is not None
        assert one.spread is not None
        assert cells == [
            show_p(loss.adjusted_p[group]),
            f"{one.tests.d_z:.2f}",
            show_percent(one.spread.rel_loss),
            "40",
            "0",
            "0",
            f"{parse_measure('RR@10').show(one.out)} to {parse_measure('RR@10').show(one.out)}",
        ]


def test_the_plot_of_a_systems_losses(site: Path, entries: tuple[Path, dict[str, Report]]) -> None:
    page = (site / "mini/systems/brittle.html").read_text("utf-8")
    loss = entries[1]["brittle"].systems[0].measures["RR@10"].loss
    assert loss is not None
    plot = page[page.index('<figure class="losses">') :].partition("</figure>")[0]
    (packed,) = re.findall(r'data-losses="([^"]*)"', plot)
    for row, (name, one) in zip(
        json.loads(html.unescape(packed)), [*loss.groups.items(), ("mean", loss)], strict=True
    ):
        assert (row["name"], row["value"]) == (name, one.rel_loss)
        assert row["text"] == show_percent(one.rel_loss)
        assert (row["low"], row["high"]) == tuple(one.intervals.rel_loss)
        assert row["significant"] == (loss.adjusted_p.get(name, 1.0) <= 0.05)
    # BM25 has nothing to lose.
    assert 'class="losses"' not in (site / "mini/systems/words.html").read_text("utf-8")


def test_topics_are_described_as_the_board_has_them(site: Path) -> None:
    page = (site / "mini/systems/brittle.html").read_text("utf-8")
    for described in BOARDS["mini"].groups["topics"].values():
        assert described in page
        assert described in (site / "mini/data/board.js").read_text("ascii")
    assert SHIFTS["topics"].groups["C0"] not in page
    assert SHIFTS["length"].groups["short"] in page


def test_queries_are_those_of_the_report(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    for name in ("steady", "words"):
        result = entries[1][name].systems[0]
        data = registered(site / f"mini/data/queries/{name}/topics.js")
        found = result.measures["nDCG@10"]
        packed = data["measures"]["nDCG@10"]
        columns = {
            column: [packed["values"][at] for at in places]
            for column, places in packed["columns"].items()
        }
        assert data["ids"] == list(result.scores.query_ids)
        assert packed["texts"] == [f"{value:.3f}" for value in packed["values"]]
        if name == "words":
            assert columns == {"score": result.scores.runs[0].scores["nDCG@10"].tolist()}
            continue
        for column, pick in (
            ("avg_in", lambda one: one.inside.mean(axis=(0, 1))),
            ("out", lambda one: one.out.mean(axis=0)),
            ("loss", lambda one: one.differences()),
        ):
            assert columns[column] == [v for one in found.scores.values() for v in pick(one)]


def test_ranks_and_differences_are_those_of_the_scores(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    scores = {
        name: report.systems[0].measures["RR@10"].scores
        for name, report in entries[1].items()
        if name not in ("leaky", "words")
    }
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    compared = compare_systems(dict(sorted(scores.items())))
    for one in compared.ranking:
        assert rows[one.system]["rank"] == one.rank
        if one.rank is not None:
            assert rows[one.system]["range"] == f"{one.best_rank}-{one.worst_rank}"
    why = {name: row["unranked"] for name, row in rows.items() if row["rank"] is None}
    assert why == {
        "leaky": "trained on test queries",
        "partly": "one seed",
        "words": "not trained per group",
        "paper": "taken from a paper, so there are no per-query scores to test",
    }
    pairs = registered(site / "mini/data/pairs/topics-rr-10.js")
    assert len(pairs) == 6
    for pair in pairs:
        a, b = pair["a"], pair["b"]
        expected = compared.pairs[a, b]
        for row in pair["rows"]:
            whole = row["name"] == "whole shift"
            one = expected.overall if whole else expected.groups[row["name"]]
            p_value = expected.adjusted_overall_p if whole else expected.adjusted_p[row["name"]]
            if "partly" in (a, b):
                p_value = None
                assert row["interval"].endswith("] queries only")
                assert not row["apart"]
            else:
                assert row["interval"].endswith("]")
            assert (row["value"], row["p"]) == (one.difference, p_value)
            assert (row["text"], row["p_text"]) == (show_percent(one.difference), show_p(p_value))


def test_the_mean_over_shifts_needs_all_of_them(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    rows = registered(site / "mini/data/tables/all-rr-10.js")["rows"]
    assert sorted(rows) == ["brittle", "leaky", "steady", "twin", "words"]
    for result in entries[1]["twin"].systems:
        loss = result.measures["RR@10"].loss
        assert loss is not None
        assert rows["twin"]["cells"][result.shift.name]["out"][0] == loss.out
    cells = rows["twin"]["cells"]
    shifts = [cells[shift]["rel_loss"][0] for shift in ("topics", "wh-words", "length")]
    assert rows["twin"]["cells"]["mean"]["rel_loss"][0] == pytest.approx(sum(shifts) / 3)
    assert {row["unranked"] for row in rows.values()} == {
        "systems are ranked on each shift, not over all of them"
    }


def test_the_best_of_a_column_was_not_trained_on_its_queries(site: Path) -> None:
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    out = {name: row["cells"]["mean"]["out"] for name, row in rows.items()}
    best = {name for name, cell in out.items() if cell[5:] and cell[5] & 2}
    assert best == {"steady"}
    assert "leaky" not in {name for name, row in rows.items() if row["front"]}


def test_the_papers_board_holds_the_papers_numbers(tmp_path: Path) -> None:
    site = build_site(None, tmp_path / "site").parent
    published = load_published("ms_shift_v2")
    compared = 0
    for row in (*published["topics"], *published["wh_and_length"]):
        shift = next(name for name, one in SHIFTS.items() if row["group"] in one.groups)
        cells = registered(site / f"ms-marco/data/tables/{shift}-rr-10.js")["rows"][row["system"]]
        cell = cells["cells"][row["group"]]
        assert cell["avg_in"][1] == f"{row['avg_in']:.1f}"
        assert cell["out"][1] == f"{row['out']:.1f}"
        assert cell["rel_loss"][1] == f"{row['rel_loss_pct']:.1f}%"
        compared += 3
    assert compared == 4 * 10 * 3
    page = (site / "ms-marco/systems/colbert.html").read_text("utf-8")
    assert ">Held out, as reported</span>" in page
    rows = registered(site / "ms-marco/data/tables/topics-rr-10.js")["rows"]
    notes = {name: row["notes"] for name, row in rows.items() if row["notes"]}
    assert notes == {"monobert": ["reranks BM25's first 1000"]}
    head = registered(site / "ms-marco/data/board.js")
    classes = {one["trainingClass"] for one in head["systems"].values()}
    assert classes == {"Held out, as reported", "Not trained"}
    history = page[page.index('<ol class="history"') :]
    assert history.index("Version 2") < history.index("superseded")
    assert "41.9" in history  # How questions, as version 1 of the paper had them.


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


def test_work_on_many_systems_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MOST_RANKED", 2)
    few_entries(tmp_path / "entries")
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    assert [name for name, row in rows.items() if row["rank"] is not None] == ["steady", "twin"]
    assert rows["brittle"]["unranked"] == "only the 2 systems with the best Out are ranked"
    assert len(registered(site / "mini/data/pairs/topics-rr-10.js")) == 1


def test_the_board_is_ordered_by_out_and_not_by_what_is_lost(tmp_path: Path) -> None:
    # What learns nothing loses nothing, and must not stand first.
    for name, loss, level in (("idle", 0.0, 0.1), ("able", 0.1, 0.6), ("good", 0.2, 0.9)):
        report = scored_report(name, loss, level=level, queries=20, seeds=(1, 2))
        changes = {"training.seeds": [1, 2]}
        add_entry(tmp_path / "entries", submission_json(name, report, **changes), report)
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    for shift in ("topics", "length", "all"):
        rows = registered(site / f"mini/data/tables/{shift}-rr-10.js")["rows"]
        means = [row["cells"]["mean"]["out"][0] for row in rows.values()]
        assert list(rows) == ["good", "able", "idle"]
        assert means == sorted(means, reverse=True)
    page = (site / "index.html").read_text("utf-8")
    listed = page[page.index("<noscript>") : page.index("</noscript>")]
    assert listed.index("Good") < listed.index("Able") < listed.index("Idle")
    assert "a system that learns nothing loses nothing" in page


def test_where_lower_is_better_the_lowest_out_comes_first() -> None:
    def result(out: float | None) -> Result:
        figures = {} if out is None else {"mean": {"out": ShownFigure(out, "")}}
        return Result("ASL@10", figures, True, 2, {})

    results = {"b": result(3.0), "none": result(None), "a": result(3.0), "c": result(1.0)}
    assert list(by_out(results, higher_is_better=False)) == ["c", "a", "b", "none"]
    assert list(by_out(results, higher_is_better=True)) == ["a", "b", "c", "none"]


def test_one_seed_gives_no_star_and_no_rank_and_says_so(tmp_path: Path) -> None:
    for name, seeds in (("single", (None,)), ("a", (1, 2)), ("b", (1, 2))):
        report = scored_report(name, 0.4, shifts=("length",), seeds=seeds)
        changes = {"training.seeds": [1, 2] if name != "single" else [0]}
        add_entry(tmp_path / "entries", submission_json(name, report, **changes), report)
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    rows = registered(site / "mini/data/tables/length-rr-10.js")["rows"]
    assert (rows["single"]["rank"], rows["single"]["unranked"]) == (None, "one seed")
    assert {rows["a"]["rank"], rows["b"]["rank"]} <= {1, 2}
    for column in ("short", "long", "mean"):
        cells = rows["single"]["cells"][column]
        assert all(cell[4].endswith("] queries only") for cell in cells.values())
        assert len(cells["rel_loss"]) == 5 or not cells["rel_loss"][5] & 1
    page = (site / "mini/systems/single.html").read_text("utf-8")
    assert 'class="star"' not in page
    assert len(re.findall(r'class="interval">\[[^<]*\] queries only<', page)) == 2 * 3 * 4
    assert not re.search(r"\]<", page.partition("Facts")[0]), "every interval is labelled"
    assert "one seed, no test" in page
    plot = re.findall(r'data-losses="([^"]*)"', page)[0]
    for row in json.loads(html.unescape(plot)):
        assert row["interval"].endswith("queries only")
        assert not row["significant"]
    assert "queries only" not in (site / "mini/systems/a.html").read_text("utf-8")


def test_a_system_that_reranks_says_so_in_its_row_and_on_its_page(site: Path) -> None:
    for table in ("topics-rr-10", "length-ndcg-10", "all-rr-10"):
        rows = registered(site / f"mini/data/tables/{table}.js")["rows"]
        assert rows["brittle"]["notes"] == ["reranks BM25's first 50"]
        assert all(row["notes"] == [] for name, row in rows.items() if name != "brittle")
    page = html.unescape((site / "mini/systems/brittle.html").read_text("utf-8"))
    assert '<span class="chip caveat">reranks BM25\'s first 50</span>' in page
    assert "chip caveat" not in (site / "mini/systems/steady.html").read_text("utf-8")


def test_systems_of_unbalanced_data_say_so_in_their_rows(tmp_path: Path) -> None:
    # Question words as the pool has them without the default: topics give as many queries each.
    data = replace(
        scored_report("one", 0.1, shifts=("length",)).data,
        training={
            "topics": TrainingSets(True, dict.fromkeys(SHIFTS["topics"].groups, 50)),
            "wh-words": TrainingSets(False, {"wha": 2548, "how": 696, "who": 8323}),
        },
    )
    for name, per_group in (("trained", True), ("words", False)):
        report = replace(scored_report(name, 0.1, per_group=per_group), data=data)
        add_entry(tmp_path / "entries", submission_json(name, report), report)
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    notes = {
        shift: {
            name: row["notes"]
            for name, row in registered(site / f"mini/data/tables/{shift}-rr-10.js")["rows"].items()
        }
        for shift in ("topics", "wh-words", "length", "all")
    }
    nobody: dict[str, list[str]] = {"trained": [], "words": []}
    marked = {"trained": ["unbalanced training sets"], "words": []}
    assert notes == {"topics": nobody, "wh-words": marked, "length": nobody, "all": marked}
    page = (site / "mini/systems/trained.html").read_text("utf-8")
    assert '<span class="chip caveat">unbalanced training sets</span>' in page
    assert "Unbalanced training sets</dt>" in (site / "index.html").read_text("utf-8")


def test_systems_on_other_test_sets_are_not_ranked_together(tmp_path: Path) -> None:
    for name, queries in (("a", 20), ("b", 20), ("c", 19)):
        report = scored_report(name, 0.1, shifts=("length",), queries=queries, seeds=(1, 2))
        changes = {"training.seeds": [1, 2]}
        add_entry(tmp_path / "entries", submission_json(name, report, **changes), report)
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    rows = registered(site / "mini/data/tables/length-rr-10.js")["rows"]
    assert rows["c"]["unranked"] == "scored on another test set than most"
    assert rows["a"]["rank"] is not None


def test_the_measure_that_a_report_leads_with_comes_first(tmp_path: Path) -> None:
    settings = replace(SETTINGS, measures=("nDCG@10", "RR@10"))
    report = scored_report("one", 0.1, shifts=("length",), settings=settings)
    add_entry(tmp_path / "entries", submission_json("one", report), report)
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    head = registered(site / "mini/data/board.js")
    assert head["shifts"][0]["measures"] == ["nDCG@10", "RR@10"]


def test_it_is_counted_how_many_runs_are_missing_a_query() -> None:
    scores = scored_report("one", 0.1, shifts=("length",), queries=3).systems[0].scores
    missing = np.array([query == "length-short-001" for query in scores.query_ids])
    runs = tuple(replace(run, missing=missing) for run in scores.runs)
    packed = queries_json(replace(scores, runs=runs), ["RR@10"])
    assert dict(zip(packed["ids"], packed["missing"], strict=True)) == {
        query: 2 * (query == "length-short-001") for query in scores.query_ids
    }


def test_the_pareto_front() -> None:
    points = {"a": (0.4, 0.1), "b": (0.3, 0.05), "c": (0.3, 0.2), "d": (0.4, 0.1), "e": (0.1, 0.05)}
    assert pareto_front(points, higher_is_better=True) == {"a", "b", "d"}
    assert pareto_front(points, higher_is_better=False) == {"e"}
    assert pareto_front({}, higher_is_better=True) == frozenset()
