"""Every number on the leaderboard's page is the evaluator's."""

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
    scored_report,
)
from msshift_bench.evaluation.parsing import parse_measure
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.leaderboard import load_published
from msshift_bench.leaderboard.query_columns import queries_json
from msshift_bench.leaderboard.site import build_site
from msshift_bench.output.table import show_p, show_percent
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats.differences import compare_systems
from tests.support.site_files import registered

FIGURES = ("avg_in", "out", "rel_loss")


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
    assert 'class="losses"' not in (site / "mini/systems/bm25.html").read_text("utf-8")


def test_queries_are_those_of_the_report(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    for name in ("steady", "bm25"):
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
        if name == "bm25":
            assert columns == {"score": result.scores.runs[0].scores["nDCG@10"].tolist()}
            continue
        for column, pick in (
            ("avg_in", lambda one: one.inside.mean(axis=(0, 1))),
            ("out", lambda one: one.out.mean(axis=0)),
            ("loss", lambda one: one.differences()),
        ):
            assert columns[column] == [v for one in found.scores.values() for v in pick(one)]


def test_it_is_counted_how_many_runs_are_missing_a_query() -> None:
    scores = scored_report("one", 0.1, shifts=("length",), queries=3).systems[0].scores
    missing = np.array([query == "length-short-001" for query in scores.query_ids])
    runs = tuple(replace(run, missing=missing) for run in scores.runs)
    packed = queries_json(replace(scores, runs=runs), ["RR@10"])
    assert dict(zip(packed["ids"], packed["missing"], strict=True)) == {
        query: 2 * (query == "length-short-001") for query in scores.query_ids
    }


def test_ranks_and_differences_are_those_of_the_scores(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    scores = {
        name: report.systems[0].measures["RR@10"].scores
        for name, report in entries[1].items()
        if name not in ("leaky", "bm25")
    }
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    compared = compare_systems(scores := dict(sorted(scores.items())))
    untrained = entries[1]["bm25"].systems[0].scores
    beside = {"bm25": untrained.untrained_scores("RR@10", untrained.groups), **scores}
    by_figure = {"rel_loss": compared, "out": compare_systems(beside, figure="out")}
    for one in compared.ranking:
        assert rows[one.system]["rank"] == one.rank
        if one.rank is not None:
            assert rows[one.system]["range"] == f"{one.best_rank}-{one.worst_rank}"
    why = {name: row["unranked"] for name, row in rows.items() if row["rank"] is None}
    assert why == {
        "leaky": "trained on test queries",
        "partly": "one seed",
        "bm25": "not trained per group",
        "paper": "taken from a paper, so there are no per-query scores to test",
    }
    pairs = registered(site / "mini/data/pairs/topics-rr-10.js")
    tested = {figure: len(one.pairs) for figure, one in by_figure.items()}
    assert tested == {"rel_loss": 6, "out": 10}
    for pair in pairs:
        a, b = pair["a"], pair["b"]
        assert ("rel_loss" in pair["figures"]) == ("bm25" not in (a, b))
        for figure, rows in pair["figures"].items():
            tested[figure] -= 1
            expected = by_figure[figure].pairs[a, b]
            for row in rows:
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
                text = shown(figure, "RR@10", one.difference or 0.0)
                assert (row["text"], row["p_text"]) == (text, show_p(p_value))
    assert not any(tested.values())


def test_the_mean_over_shifts_needs_all_of_them(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    rows = registered(site / "mini/data/tables/all-rr-10.js")["rows"]
    assert sorted(rows) == ["bm25", "brittle", "leaky", "steady", "twin"]
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


@pytest.mark.slow
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
