"""Losses of run sets by hand, slices, tables that golden files do not hold, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.arrays import Floats
from msshift_bench.data import DataInfo, open_dataset, read_labels
from msshift_bench.errors import DataError, RunError
from msshift_bench.evaluation import (
    Result,
    Settings,
    differences_of,
    evaluate_run_sets,
    loss_table,
    losses_of,
    parse_measure,
    show_delta,
)
from msshift_bench.evaluation.checks import run_warnings
from msshift_bench.output import to_markdown
from msshift_bench.runs import read_run, write_run
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import Figure, Figures
from tests.conftest import Build
from tests.evaluation.conftest import DENSE
from tests.evaluation.tiny_run_sets import evaluate, score, write_ranks
from tests.support.fabricated import write_runs
from tests.support.golden import Golden
from tests.support.made_scores import RR10, made_scores
from tests.support.refusals import check_refusals
from tests.support.synthetic_entries import scored_report


def values(figures: Figures, figure: str, group: str) -> list[float | None]:
    return [row.value for row in figures.where(figure=figure, group=group)]


def test_losses_and_the_scores_that_they_are_of(tiny_runs: Path) -> None:
    figures = evaluate(tiny_runs).figures
    for group, avg_in, out in (
        ("short", 1.0, 0.375),
        ("long", 0.75, 0.25),
        ("mean", 0.875, 0.3125),
    ):
        assert values(figures, "avg_in", group) == [avg_in]
        assert values(figures, "out", group) == [out]
        assert values(figures, "loss", group) == [avg_in - out]
    rel_losses = [0.625, pytest.approx(2 / 3), pytest.approx((0.625 + 2 / 3) / 2)]
    assert [row.value for row in figures.where(figure="rel_loss")] == rel_losses
    cells = figures.where(figure="model_score", system="dense")
    assert {(row.model, row.group): row.value for row in cells} == {
        ("short", "short"): 0.375, ("short", "long"): 0.75,
        ("long", "short"): 1.0, ("long", "long"): 0.25,
    }  # fmt: skip
    bm25 = figures.where(system="bm25", model="")
    assert bm25.names("figure") == ["score", "missing"]
    scores = bm25.where(figure="score")
    assert [row.value for row in scores] == pytest.approx([0.75, 0.6, 0.675])
    assert {(row.queries, row.seeds) for row in scores} == {(2, None), (4, None)}


def test_missing_queries_score_zero_are_counted_skipped_or_refused(tiny_runs: Path) -> None:
    short = tiny_runs / "dense/length/short.run"
    write_ranks(short, {"s1": 1, "l1": 1, "l2": 1})
    figures = evaluate(tiny_runs).figures.where(system="dense")
    assert values(figures, "out", "short") == [0.5]
    missing = [(row.group, row.value) for row in figures.where(figure="missing")]
    assert missing == [("short", 1), ("long", 0)]
    skipping = evaluate(tiny_runs, missing="skip").figures.where(figure="model_score")
    counts = {row.group: row.queries for row in skipping.where(model=("short", "long"))}
    assert counts == {"short": 1, "long": 2}
    with pytest.raises(RunError, match=r"1 of 4 .*s2"):
        evaluate(tiny_runs, missing="error")
    write_ranks(short, {"s1": 1, "l1": 1})
    write_ranks(short.with_name("long.run"), {"s2": 1, "l1": 1})
    with pytest.raises(DataError, match=r"dense.*short"):
        evaluate(tiny_runs, missing="skip")


def test_models_that_not_every_seed_has_do_not_count(tiny_runs: Path) -> None:
    for group, ranks in DENSE.items():
        (tiny_runs / f"dense/length/{group}.run").unlink()
        write_ranks(tiny_runs / f"dense/length/seed-1/{group}.run", ranks)
    write_ranks(tiny_runs / "dense/length/seed-2/short.run", DENSE["short"])
    allow = ["partial", "identical"]
    (scores,) = score(tiny_runs / "dense", allow=allow)
    assert (scores.models, scores.complete_models) == (["short", "long"], ["short"])
    assert scores.missing_files == ((2, "long"),)
    (warning,) = run_warnings(scores)
    assert warning.startswith(
        "dense/length: no run without long (seed 2); seed 1 alone can be evaluated"
    )
    assert warning.endswith("; the model without long counts in no loss")
    figures = evaluate(tiny_runs / "dense", allow).figures
    assert not figures.where(figure="rel_loss")
    cells = figures.where(figure="model_score", group="long")
    assert {row.model: (row.seeds, row.value) for row in cells} == {
        "short": (2, 0.75), "long": (1, 0.25),
    }  # fmt: skip


def test_a_group_without_rel_loss_leaves_the_shift_without_one() -> None:
    cubes = {"short": np.zeros((2, 2, 20)), "long": np.full((2, 2, 20), 0.5)}
    result = losses_of([made_scores("a", cubes)], DataInfo(), Settings())
    rel_losses = [row.value for row in result.figures.where(figure="rel_loss")]
    assert rel_losses == [None, 0.0, None]
    assert [row.value for row in result.figures.where(figure="avg_in")] == [0.0, 0.5, 0.25]
    (table,) = result.tables()
    assert [cell.text for cell in table.rows[2]] == ["", "Rel Loss", "-", "0.0%", "-"]


def test_resttest_is_averaged_over_its_queries() -> None:
    result = scored_report("brittle", 0.2, shifts=["resttest", "length"], seeds=(1, 2))
    assert result.figures.where(shift="resttest", group="all queries")
    assert not result.figures.where(shift="length", group="all queries")
    assert [table.header[-1] for table in result.tables()[::3]] == ["all queries", "mean"]
    chosen = scored_report("brittle", 0.2, shifts=["resttest"], settings=Settings(average="macro"))
    assert chosen.figures.where(figure="rel_loss", group="mean")


def test_settings_are_checked() -> None:
    assert [str(measure) for measure in Settings(("MRR@10", "rr@10")).measures] == ["RR@10"]
    assert Settings("nDCG@10, rr@10") == Settings((parse_measure("nDCG@10"), "RR@10"))
    check_refusals({
        "UnknownNameError 'RRR@10'": partial(Settings, ("RRR@10",)),
        "UsageError RR@10": partial(Settings, measures=()),
        "UnknownNameError 'hulm'": partial(Settings, correction="hulm"),
        "UnknownNameError 'random' trec": partial(Settings, ties="random"),
        "UnknownNameError 'ignore' skip": partial(Settings, missing="ignore"),
        "UnknownNameError 'micro'": partial(Settings, average="micro"),
        "UsageError 0 1 95": partial(Settings, confidence=95),
        "UsageError 0 1 1.0": partial(Settings, confidence=1.0),
        **{
            f"{name}: UsageError {name} score": partial(
                evaluate_run_sets, "runs", settings=Settings(("RR@10", name))
            )
            for name in ("NumQ", "Accuracy(rel=2)")
        },
    })  # fmt: skip


# ---- slices, and labels that belong elsewhere ----------------------------------------------------


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture(scope="module")
def queries(data: Path) -> Mapping[str, list[str]]:
    """The test queries of each group of length."""
    tests = open_dataset(data).test_sets(SHIFTS["length"])
    return {group: [row.query_id for row in rows] for group, rows in tests.items()}


@pytest.fixture
def lacking(data: Path, queries: Mapping[str, list[str]], tmp_path: Path) -> Path:
    """A system with a run that lacks the first query of `short`."""
    folder = write_runs(tmp_path / "runs" / "dense", data)
    path = folder / "length" / "short.run.gz"
    run = read_run(path)
    del run[queries["short"][0]]
    write_run(path, run)
    return folder


def test_slices_without_a_query_that_counts_do_without_the_group_or_are_left_out(
    lacking: Path, data: Path, queries: Mapping[str, list[str]]
) -> None:
    gone, short, long = queries["short"][0], queries["short"][1:], queries["long"]
    labels = {gone: "mixed", short[0]: "kept", **dict.fromkeys(long[:30], "mixed")}
    skip = Settings(missing="skip")
    result = evaluate_run_sets(lacking, data, settings=skip, labels=labels)
    outs = result.figures.where(slice="mixed", figure="out")
    assert [(row.group, row.queries) for row in outs] == [("long", 30), ("mean", 30)]
    assert outs[0].value == outs[1].value
    assert result.warnings == []
    counted_as_zero = evaluate_run_sets(lacking, data, labels=labels).figures
    outs = counted_as_zero.where(slice="mixed", figure="out")
    assert outs.names("group") == ["short", "long", "mean"]

    rare = {gone: "rare", long[0]: "kept"}
    result = evaluate_run_sets(lacking, data, settings=skip, labels=rare)
    assert result.figures.names("slice") == ["", "kept", "others"]
    assert result.warnings == [
        "dense/length: no slice rare, because a run lacks each of its queries"
    ]


def test_labels_of_other_queries_are_refused(
    lacking: Path, data: Path, tmp_path: Path, build_once: Build
) -> None:
    """Else every query would stand in one slice, `others`, as if it had been left unlabelled."""
    files = {name: tmp_path / f"{name}.tsv" for name in ("others", "again")}
    files["others"].write_text("zz1\teasy\nzz2\thard\n")
    files["again"].write_text("zz1\teasy\nzz1\thard\nzz2\n")
    others = read_labels(str(files["others"]), data)
    more = build_once("mini:500", "length", "wh-words", "resttest", "rare-terms")
    assert set(read_labels("le", more).values()) == {"short", "long"}
    refusals = {
        "DataError 178 zz1": lambda: evaluate_run_sets(lacking, data, labels=others),
        "DataError 178": lambda: evaluate_run_sets(lacking, data, labels={}),
        "DataError 178 144": lambda: evaluate_run_sets(lacking, data, labels={144: "ids are text"}),  # type: ignore[dict-item]
        "CollectionError [repeated-id] [field-count] again.tsv:2 again.tsv:3 'zz1' 1": lambda: (
            read_labels(str(files["again"]), data)
        ),
        "UnknownNameError 'r' resttest rare-terms": lambda: read_labels("r", more),
        "UnknownNameError '' length": lambda: read_labels("", more),
    }
    check_refusals(refusals)


# ---- tables --------------------------------------------------------------------------------------


SETTINGS = Settings()


def together(*results: Result, settings: Settings = SETTINGS) -> Result:
    scores = [scores for result in results for scores in result.scores]
    return losses_of(scores, DataInfo(), settings)


def test_tables_and_notes_that_the_made_world_does_not_have(
    tiny_runs: Path, golden: Golden
) -> None:
    both = Settings("RR@10 nDCG@10")
    write_ranks(tiny_runs / "twin/length/short.run", DENSE["short"])
    write_ranks(tiny_runs / "twin/length/long.run", {"s1": 1, "s2": 1, "l1": 1, "l2": 1})
    resttest = partial(scored_report, loss=0.2, shifts=["resttest"], settings=both)
    sizes = (scored_report("dense", 0.2, shifts=[f"restrain-{size}"]) for size in ("45k", "14k"))
    best = evaluate(tiny_runs)
    shown = {
        # Of negative losses the greatest is best.
        "the best of several systems": best.layout(best.figures),
        "two seeds": together(scored_report("brittle", 0.3, shifts=["length"], seeds=(1, 2))),
        "Deltas as in Table 7": together(
            resttest("bm25", per_group=False), resttest("dense", seeds=(1, 2)), settings=both
        ),
        "sizes of a shift share a table": together(*sizes),
    }
    lines = []
    for name, result in shown.items():
        lines += [f"# {name}", ""]
        if isinstance(result, Result):
            sections = [*result.layout(result.figures, delta="two" not in name)]
            notes = [note.text for note in result.notes]
        else:
            sections, notes = [*result], []
        lines += [to_markdown(table) for section in sections for table in section.tables]
        lines += [line for section in sections for line in section.notes] + notes
    golden.check("more-tables.md", "\n".join([*lines, ""]))
    brief = loss_table(best.figures, SETTINGS.measures[0], SETTINGS, brief=True)
    names = ["", "Avg In", "Out", "Rel Loss"]
    assert [row[1].text for row in brief.rows] == [*names, *names[1:]]


SIZES = {"many": (20, 21), "few": (20, 19), "one-group": (20, 0), "hardly": (3, 4)}
"""Label -> queries of short and of long with that label."""


@pytest.mark.parametrize("seeds", [1, 2], ids=["one seed", "two seeds"])
def test_slices_show_their_queries_and_no_figures_of_few(seeds: int, golden: Golden) -> None:
    rng = np.random.default_rng(3)
    groups = dict(zip(("short", "long"), zip(*SIZES.values(), strict=True), strict=True))
    cubes = {group: rng.random((seeds, 2, sum(sizes))) for group, sizes in groups.items()}
    dense = made_scores("dense", cubes)
    labels = {
        query_id: label
        for group, sizes in groups.items()
        for query_id, label in zip(dense.ids_of(group), np.repeat([*SIZES], sizes), strict=True)
    }
    bm25 = made_scores("bm25", {group: cube[0, 0] for group, cube in cubes.items()})
    result = losses_of([dense, bm25], DataInfo(), SETTINGS, labels=labels)
    tables = {table.title.rpartition("only ")[2]: table for table in result.tables()}
    for label, (short, long) in SIZES.items():
        (first, _, *counts), *rows = ([cell.text for cell in row] for row in tables[label].rows)
        assert (first, counts[2]) == ("queries", str(short + long))
        for _, _, *cells in rows:
            shown = zip(cells, (short, long), strict=False)
            assert all(cell in ("-", "") for cell, count in shown if count < 20)
    golden.check(f"few-queries-{seeds}.md", "\n".join(map(to_markdown, result.tables())))
    assert "slices: no figures of fewer than 20 queries" in [note.text for note in result.notes]
    few = result.figures.first(figure="rel_loss", slice="few", group="long")
    assert few.value is not None


def test_a_delta_is_a_turned_rel_loss() -> None:
    assert show_delta(0.1234, (0.1, 0.15)) == "-12.3% [-15.0, -10.0]"
    assert show_delta(-0.01, (-0.02, 0.0001)) == "+1.0% [0.0, +2.0]"
    assert show_delta(0.0, (-0.01, 0.01)) == "0.0% [-1.0, +1.0]"
    assert (show_delta(-0.0), show_delta(None)) == ("0.0%", "-")


# ---- comparisons of systems ----------------------------------------------------------------------


Cubes = Mapping[str, Floats]
GROUPS = ("short", "long")


def system(
    loss: float, noise: int, *, seeds: int = 3, level: float = 1.0, queries: int = 400
) -> Cubes:
    """A system that loses about `loss`, on queries that all systems share."""
    cubes = {}
    for place, group in enumerate(GROUPS):
        difficulty = np.random.default_rng(place).choice(RR10, size=queries)
        cube = level * difficulty + np.random.default_rng([noise, place]).normal(
            0, 0.1, (seeds, 2, queries)
        )
        cube[:, place] -= level * loss * difficulty
        cubes[group] = cube
    return cubes


def compare(systems: Mapping[str, Cubes]) -> Result:
    scores = [made_scores(name, cubes) for name, cubes in systems.items()]
    return differences_of(scores, DataInfo(), Settings())


def difference(result: Result, first: str, second: str, **names: str) -> Figure:
    names = {"figure": "rel_loss", "group": "mean", **names}
    (row,) = result.figures.where(system=first, against=second, **names)
    return row


def turned(interval: tuple[float, float] | None) -> Any:
    """What the interval of the difference the other way round is about."""
    return pytest.approx((-interval[1], -interval[0]))


def ranks(result: Result) -> dict[str, tuple[float | None, float | None, float | None]]:
    rows = result.figures.where(figure="rank")
    return {row.system: (row.value, row.low, row.high) for row in rows}


def test_the_system_that_loses_less_is_found() -> None:
    result = compare({"a": system(0.05, 1), "b": system(0.25, 2)})
    row = difference(result, "a", "b")
    alone = [result.figures.where(system=name, against="", figure="rel_loss") for name in "ab"]
    assert row.value == pytest.approx(alone[0][2].number - alone[1][2].number)
    of_groups = [difference(result, "a", "b", group=group) for group in GROUPS]
    assert row.value == pytest.approx(np.mean([part.number for part in of_groups]))
    assert row.interval[0] < row.number < row.interval[1] < 0
    assert (row.p or 1) < 0.02
    assert (row.mark, row.counts, row.seeds, row.queries) == ("*", "queries and seeds", 3, 800)
    back = difference(compare({"b": system(0.25, 2), "a": system(0.05, 1)}), "b", "a")
    assert (back.interval, back.p) == (turned(row.interval), pytest.approx(row.p))


def test_undefined_losses_have_no_difference_and_no_place() -> None:
    nothing = {group: np.zeros((3, 2, 400)) for group in GROUPS}
    half = {**system(0.2, 2), "long": nothing["long"]}
    result = compare({"a": system(0.1, 1), "b": half, "c": nothing})
    row = difference(result, "a", "b", group="long")
    assert (row.value, row.interval, row.p) == (None, None, None)
    assert difference(result, "a", "b", group="short").p is not None
    assert difference(result, "a", "b").value is None
    assert list(ranks(result)) == ["a"]
    one_query = {
        name: {group: cube[:, :, :1] for group, cube in system(loss, 1, seeds=1).items()}
        for name, loss in (("a", 0.1), ("b", 0.2))
    }
    row = difference(compare(one_query), "a", "b", figure="out", group="short")
    assert row.value is not None
    assert (row.interval, row.p) == (None, None)


def test_two_starts_of_one_pretraining_each_have_an_interval_and_no_p() -> None:
    losses = {"a": 0.05, "b": 0.25, "c": 0.3}
    scores = [made_scores(name, system(loss, n)) for n, (name, loss) in enumerate(losses.items())]
    result = differences_of(scores, DataInfo(), Settings(), starts={("a", "b"), ("b", "a")})
    row, other = difference(result, "a", "b"), difference(result, "a", "c")
    assert row.interval
    assert (row.p, row.mark, row.family) == (None, "", "")
    assert other.family == "holm over 2 tests (pairs)"
    texts = [note.text for note in result.notes]
    assert any(text.startswith("a and b: the same baseline from two starts") for text in texts)
