"""The rows of a board: their order, their ranks, and what is said of a system."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.synthetic_entries import (
    SETTINGS,
    add_entry,
    few_entries,
    scored_report,
    submission_json,
)
from msshift_bench.data.manifest import TrainingSets
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.leaderboard import ranks
from msshift_bench.leaderboard.board_view import by_out, pareto_front, view_board
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.entries import load_entries
from msshift_bench.leaderboard.results import Result, ShownFigure, show_interval
from msshift_bench.leaderboard.site import build_site
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Interval
from tests.support.site_files import registered


def test_the_best_of_a_column_was_not_trained_on_its_queries(site: Path) -> None:
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    out = {name: row["cells"]["mean"]["out"] for name, row in rows.items()}
    best = {name for name, cell in out.items() if cell[5:] and cell[5] & 2}
    assert best == {"steady"}
    assert "leaky" not in {name for name, row in rows.items() if row["front"]}


@pytest.mark.slow
def test_work_on_many_systems_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MOST_RANKED", 2)
    few_entries(tmp_path / "entries")
    site = build_site(tmp_path / "entries", tmp_path / "site").parent
    rows = registered(site / "mini/data/tables/topics-rr-10.js")["rows"]
    assert [name for name, row in rows.items() if row["rank"] is not None] == ["steady", "twin"]
    assert rows["brittle"]["unranked"] == "only the 2 systems with the best Out are ranked"
    pairs = registered(site / "mini/data/pairs/topics-rr-10.js")
    assert [(one["a"], one["b"]) for one in pairs] == [
        ("bm25", "steady"), ("bm25", "twin"), ("steady", "twin"),
    ]  # fmt: skip


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_system_that_finds_nothing_has_no_loss_to_be_ranked_by() -> None:
    reports = {
        name: scored_report(name, 0.1, level=level, shifts=("length",), queries=5, seeds=(1, 2))
        for name, level in (("able", 0.6), ("blind", -9.0), ("good", 0.9))
    }
    scores = {name: report.systems[0].scores for name, report in reports.items()}
    found = ranks.rank_systems(SHIFTS["length"], "RR@10", scores)
    assert found.unranked == {"blind": "its Rel Loss is undefined, as its Avg In is 0"}
    assert sorted(found.ranked) == ["able", "good"]
    compared = {
        figure: {system for pair in pairs for system in pair}
        for figure, pairs in found.pairs.items()
    }
    assert compared == {"out": {"able", "blind", "good"}, "rel_loss": {"able", "good"}}


def test_without_a_system_on_all_shifts_there_is_no_mean_over_them(tmp_path: Path) -> None:
    for shift in ("topics", "wh-words", "length"):
        report = scored_report(f"only-{shift}", 0.1, shifts=(shift,), queries=5)
        add_entry(tmp_path, submission_json(f"only-{shift}", report), report)
    tables = view_board(BOARDS["mini"], load_entries(tmp_path)).tables()
    assert tables == dict.fromkeys(("topics", "wh-words", "length"), ("RR@10", "nDCG@10"))


def test_an_interval_is_shown_where_there_is_one() -> None:
    assert show_interval("out", "RR@10", Interval(0.1234, 0.2), seeds=3) == "[12.3, 20.0]"
    assert show_interval("rel_loss", "RR@10", Interval(-0.01, 0.5), seeds=3) == "[-1.0, 50.0]"
    one_seed = show_interval("out", "RR@10", Interval(0.1234, 0.2), seeds=1)
    assert one_seed == "[12.3, 20.0] queries only"
    assert show_interval("out", "RR@10", None, seeds=3) == ""


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


def test_the_pareto_front() -> None:
    points = {"a": (0.4, 0.1), "b": (0.3, 0.05), "c": (0.3, 0.2), "d": (0.4, 0.1), "e": (0.1, 0.05)}
    assert pareto_front(points, higher_is_better=True) == {"a", "b", "d"}
    assert pareto_front(points, higher_is_better=False) == {"e"}
    assert pareto_front({}, higher_is_better=True) == frozenset()


def test_every_system_s_page_says_how_to_make_it_again(
    site: Path, entries: tuple[Path, dict[str, Report]]
) -> None:
    for name, told in (
        ("bm25", "msshift build\nmake &#39;a &amp; b&#39;</pre>"),
        ("bm25", "The figures repeat to the last digit."),
        ("paper", "Reported from a paper"),
        ("steady", "Its authors give no commands"),
    ):
        text = (site / "mini" / "systems" / f"{name}.html").read_text("utf-8")
        assert told in text.partition('id="reproduce"')[2], name
    (record,) = (one for one in entries[1]["bm25"].record().systems if one.shift == "length")
    mean = float(np.mean([cell.mean for cell in record.measures["RR@10"].cells]))
    page = (site / "mini" / "systems" / "bm25.html").read_text("utf-8")
    row = page.partition('id="reproduce"')[2].partition("Query length</th>")[2]
    assert row.startswith(2 * f'<td class="num">{100 * mean:.1f}</td>')
    systems = registered(site / "mini/data/board.js")["systems"]
    assert [name for name, one in systems.items() if one["hasCommands"]] == ["bm25"]
