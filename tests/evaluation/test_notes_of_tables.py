"""Tables and their notes: marks with their legend, corrections, constant values, and names."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from markdown_it import MarkdownIt

from msshift_bench.evaluation import Result, Settings, evaluate_run_sets, score_runs
from msshift_bench.output import RENDERERS, Table
from msshift_bench.stats import DAGGER, MEAN, STAR, Estimate
from tests.support.command_line import run_msshift

# ---- the share of the variance that comes from seeds ------------------------------------------


def test_seeds_that_agree_add_little_to_the_variance() -> None:
    """Seeds agree, and the noise of single queries leaves v_q = 0: the floor decides."""
    rng = np.random.default_rng(3)
    scores = 0.3 + 0.05 * rng.standard_normal((3, 200))
    scores += np.array([[0.297], [0.3], [0.303]]) - scores.mean(axis=1, keepdims=True)
    seeds, queries = scores.shape
    residuals = scores - scores.mean(axis=0) - scores.mean(axis=1)[:, None] + scores.mean()
    v_f = scores.mean(axis=0).var(ddof=1) / queries
    v_q = max(0.0, v_f - (residuals**2).sum() / ((seeds - 1) * (queries - 1)) / (seeds * queries))
    v_s = scores.mean(axis=1).var(ddof=1) / seeds
    assert v_s / (v_q + v_s) > 0.9
    known = Estimate.mean(scores, "a", "short").uncertainty()
    assert known.seed_share == pytest.approx(v_s / max(v_q + v_s, v_f))


@pytest.mark.parametrize("spread", [0.0005, 0.003])
def test_the_share_follows_the_seeds_at_the_floor(spread: float) -> None:
    rng = np.random.default_rng(5)
    scores = 0.3 + 0.5 * rng.standard_normal((3, 200))
    scores += 0.3 + spread * np.array([[-1], [0], [1]]) - scores.mean(axis=1, keepdims=True)
    known = Estimate.mean(scores, "a", "short").uncertainty()
    low, high = known.interval(0.3, 0.95)
    per_query = scores.mean(axis=0)
    half = scipy.stats.t.ppf(0.975, 199) * per_query.std(ddof=1) / 200**0.5
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half))
    assert known.seed_share == pytest.approx(spread**2 / 3 / (per_query.var(ddof=1) / 200))
    assert known.seed_share < 0.05


# ---- marks and their legend --------------------------------------------------------------------

CALLS = {
    "losses": "evaluate runs",
    "delta": "evaluate runs --delta",
    "extra": "evaluate runs --extra-test graded=graded",
    "extra variants": "evaluate runs --extra-test mistyped=mistyped",
    "variants": "evaluate runs --shift length --extra-test typos=typos.tsv",
    "compare": "compare runs --shift length --shift wh-words",
    "reference": "compare runs --shift length --reference dense",
    "uncorrected losses": "evaluate runs --shift length --correction none",
    "uncorrected pairs": "compare runs --shift length --correction none",
    "uncorrected leads": "compare runs --shift length --reference dense --correction none",
    "leaked": "evaluate runs --shift length --without-leaked leaked",
    "analyse": "analyse runs --shift length --shift wh-words --shift topics",
    "published": "analyse --published",
}


@pytest.fixture(scope="module")
def results(world: Path) -> dict[str, Result]:
    """The results of `CALLS`, as the command line prints them."""
    shown: dict[str, Result] = {}
    with pytest.MonkeyPatch.context() as patch:
        from msshift_bench.cli.options import Printing

        for name, words in CALLS.items():

            def keep(_: Printing, result: Result, *, name: str = name, **view: bool) -> None:
                shown[name] = result
                views[name] = view

            patch.setattr(Printing, "show", keep)
            done = run_msshift(words.split(), world)
            assert done.returncode == 0, done.stderr
    return shown


views: dict[str, dict[str, bool]] = {}


@pytest.mark.extended
@pytest.mark.parametrize("name", CALLS)
def test_a_legend_explains_exactly_the_marks_of_its_table(
    name: str, results: dict[str, Result]
) -> None:
    result = results[name]
    sections = list(result.sections(verbose=True, **views[name]))
    tables = [table for part, _ in sections for table in part]
    for table in tables:
        marks = {cell.mark for row in table.rows for cell in row} - {""}
        explained = {mark for mark in (STAR, DAGGER) if f"{mark}: p at most" in table.note}
        assert explained == marks, table.title
        assert {*table.title} & {STAR, DAGGER} <= marks
    tested = [row for row in result.figures if row.mark]
    if not tested:
        assert not any(DAGGER in note for _, notes in sections for note in notes)
    if tested and name != "published":
        assert any(cell.mark for table in tables for row in table.rows for cell in row)


@pytest.mark.extended
def test_delta_has_the_mark_of_its_rel_loss(results: dict[str, Result]) -> None:
    result = results["delta"]
    (table,) = (
        table
        for tables, _ in result.sections(**views["delta"])
        for table in tables
        if "(length)" in table.title
    )
    losses = result.figures.where(figure="rel_loss", group=MEAN, shift="length", slice="")
    expected = {row.system: row.mark for row in losses}
    assert {STAR, DAGGER} <= {*expected.values()}
    shown = {row[0].text: row[-1].mark for row in table.rows}
    assert {name: shown[name] for name in expected} == expected


@pytest.mark.extended
def test_intervals_that_disagree_with_a_corrected_p_are_explained(
    results: dict[str, Result],
) -> None:
    result = results["losses"]
    for (tables, _), shift in zip(result.sections(), ("topics", "wh-words", "length"), strict=True):
        rows = result.figures.where(shift=shift, figure="rel_loss", model="")
        disagrees = [
            row for row in rows if row.p is not None and row.p > 0.05 and row.low * row.high > 0
        ]
        assert disagrees
        assert "intervals are not corrected" in tables[0].note


@pytest.mark.extended
def test_each_note_on_p_names_its_tables(results: dict[str, Result]) -> None:
    for name in ("compare", "variants"):
        for tables, notes in results[name].sections(verbose=True, **views[name]):
            named = [note for note in notes if "p: holm over" in note]
            assert len(named) > 1
            assert not any(note.startswith("p:") for note in named)
            for table in tables:
                if table.note:
                    (of_table,) = (note for note in named if note.endswith(f": {table.note}"))
                    title = table.title.partition("; ")[0]
                    assert any(part in title for part in of_table.split(": p:")[0].split(", "))
    (_, notes), *_ = results["losses"].sections(verbose=True)
    assert [note for note in notes if note.startswith("p: holm over")]


def test_a_difference_without_variance_is_explained() -> None:
    qrels = {str(n): {"a": 1} for n in range(30)}
    first, second = ({query: {"a": score, "b": 2.0} for query in qrels} for score in (3.0, 1.0))
    result = score_runs([first, second], qrels, Settings("RR@10"), reference=first)
    (lead,) = result.figures.where(against="<mapping>", figure="score")
    assert (lead.value, lead.interval, lead.p) == (-0.5, (-0.5, -0.5), None)
    *_, table = result.tables()
    assert "all queries have the same value" in table.note


# ---- no correction ------------------------------------------------------------------------------


@pytest.mark.extended
def test_without_a_correction_p_is_that_of_the_paper(world: Path) -> None:
    """A paired t-test of Avg In and Out, for a system of one seed; no mark, and no rank."""
    settings = Settings(correction="none")
    with contextlib.chdir(world):
        result = evaluate_run_sets(["runs/late"], shifts=["length"], settings=settings)
        words = "compare runs --shift length --correction none --format json"
        compared = json.loads(run_msshift(words.split(), world).stdout)
    (scores,) = result.scores
    values = {run[0]: scored.scores["RR@10"] for run, scored in scores.runs.items()}
    for group, other in (("short", "long"), ("long", "short")):
        places = scores.groups[group]
        test = scipy.stats.ttest_rel(values[other][places], values[group][places])
        (row,) = result.figures.where(figure="rel_loss", group=group, model="")
        assert (row.p, row.p_uncorrected) == (pytest.approx(test.pvalue), row.p)
        assert (row.mark, row.family) == ("", "uncorrected over 2 tests (systems x groups)")
    assert not [row for row in compared["figures"] if "mark" in row or row["figure"] == "rank"]
    assert [row for row in compared["figures"] if row.get("p", 1) < 0.01]


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["_bm25_", "__init__", "<b>x</b>", "a*b*c", "k1=0.9|b", "doc_id"])
def test_markdown_shows_names_as_they_are(name: str) -> None:
    table = Table.plain(f"{name} x 100", ("system", name), [(name, "<0.001")])
    html = MarkdownIt("commonmark").enable("table").render(RENDERERS["markdown"](table))
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", html)
    shown = name.replace("<", "&lt;").replace(">", "&gt;")
    assert cells == ["system", shown, shown, "&lt;0.001"]
    assert f"<strong>{shown} x 100</strong>" in html


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["/data/runs/bm25/length.run", "/data/runs/dense/length.run"], ["bm25", "dense"]),
        (["runs/a.run", "b.run"], ["runs/a.run", "b.run"]),
        (["x/y/my.run.gz"], ["my.run.gz"]),
        (["bm25", "", "dense"], ["bm25", "", "dense"]),
        (["a/x/c", "b/x/c"], ["a", "b"]),
    ],
)
def test_latex_has_the_shortest_names_that_differ(names: list[str], shown: list[str]) -> None:
    table = Table.plain("runs", ("run", "RR@10"), [(name, "1.0") for name in names])
    text = RENDERERS["latex"](table)
    assert re.findall(r"(?m)^(.*) & 1\.0 ", text) == shown
    wide = text.index(r"\begin{adjustbox}{max width=\linewidth}")
    assert wide < text.index(r"\begin{tabular}") < text.index(r"\end{adjustbox}")
    assert text.startswith(
        "% needs \\usepackage{booktabs}; \\usepackage{adjustbox} scales it if wide\n"
    )
