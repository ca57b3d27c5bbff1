"""Avg In, Out and Rel Loss of run sets by hand, and what is said of missing runs and queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench.data import DataInfo
from msshift_bench.errors import DataError, RunError, UnknownNameError, UsageError
from msshift_bench.evaluation import Settings, losses_of, parse_measure
from msshift_bench.stats import Figures, average
from tests.support.made_scores import losses, made_scores, sides
from tests.support.synthetic_entries import scored_report
from tests.support.tiny_run_sets import evaluate, score, write_ranks

DENSE = {
    "short": {"s1": 2, "s2": 4, "l1": 1, "l2": 2},
    "long": {"s1": 1, "s2": 1, "l1": 2, "l2": 0},
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for group, ranks in DENSE.items():
        write_ranks(tmp_path / f"dense/length/{group}.run", ranks)
    write_ranks(tmp_path / "bm25/length.run", {"s1": 1, "s2": 2, "l1": 5, "l2": 1})
    return tmp_path


def values(figures: Figures, figure: str, group: str) -> list[float | None]:
    return [row.value for row in figures.where(figure=figure, group=group)]


def test_avg_in_out_and_rel_loss(runs: Path) -> None:
    figures = evaluate(runs).figures
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
    bm25 = figures.where(system="bm25", model="")
    assert bm25.names("figure") == ["score", "missing"]
    scores = bm25.where(figure="score")
    assert [row.value for row in scores] == pytest.approx([0.75, 0.6, 0.675])
    assert {(row.queries, row.seeds) for row in scores} == {(2, None), (4, None)}


def test_the_matrix_has_a_row_per_model(runs: Path) -> None:
    cells = evaluate(runs).figures.where(figure="model_score", system="dense")
    assert {(row.model, row.group): row.value for row in cells} == {
        ("short", "short"): 0.375, ("short", "long"): 0.75,
        ("long", "short"): 1.0, ("long", "long"): 0.25,
    }  # fmt: skip


def test_missing_queries_score_zero_are_counted_skipped_or_refused(runs: Path) -> None:
    write_ranks(runs / "dense/length/short.run", {"s1": 1, "l1": 1, "l2": 1})
    figures = evaluate(runs).figures.where(system="dense")
    assert values(figures, "out", "short") == [0.5]
    missing = [(row.group, row.value) for row in figures.where(figure="missing")]
    assert missing == [("short", 1), ("long", 0)]
    skipping = evaluate(runs, missing="skip").figures.where(system="dense", model=("short", "long"))
    counts = {row.group: row.queries for row in skipping.where(figure="model_score")}
    assert counts == {"short": 1, "long": 2}
    with pytest.raises(RunError, match="1 of 4 test queries are not in it: s2"):
        evaluate(runs, missing="error")
    write_ranks(runs / "dense/length/short.run", {"s1": 1, "l1": 1})
    write_ranks(runs / "dense/length/long.run", {"s2": 1, "l1": 1})
    with pytest.raises(DataError, match="dense: every test query of short is missing"):
        evaluate(runs, missing="skip")


def test_an_incomplete_run_set_gets_no_aggregate_unless_asked(runs: Path) -> None:
    (runs / "dense/length/long.run").unlink()
    with pytest.raises(RunError, match="trained without 'long'"):
        evaluate(runs)
    result = evaluate(runs, ["partial"])
    figures = result.figures.where(system="dense")
    assert not figures.where(figure=("avg_in", "out", "loss", "rel_loss"))
    assert values(figures, "model_score", "short") == [0.375]
    (table,) = result.tables()
    assert [cell.text for cell in table.rows[1]] == ["dense", "too few runs", "", "", ""]
    texts = "\n".join(note.text for note in result.notes)
    assert "dense: 1 run file, 1 seed, no run of the model trained without long; " in texts
    assert "bm25: 1 run file, not trained per group; " in texts


def test_models_that_not_every_seed_has_do_not_count(runs: Path) -> None:
    for group, ranks in DENSE.items():
        (runs / f"dense/length/{group}.run").unlink()
        write_ranks(runs / f"dense/length/seed-1/{group}.run", ranks)
    write_ranks(runs / "dense/length/seed-2/short.run", DENSE["short"])
    (scores,) = score(runs / "dense", allow=["partial"])
    assert (scores.models, scores.complete_models) == (["short", "long"], ["short"])
    assert scores.missing_files == ((2, "long"),)
    figures = evaluate(runs / "dense", ["partial"]).figures
    assert not figures.where(figure="rel_loss")
    cells = figures.where(figure="model_score", group="long")
    assert {row.model: (row.seeds, row.value) for row in cells} == {
        "short": (2, 0.75), "long": (1, 0.25),
    }  # fmt: skip


def test_replicates_are_averaged(runs: Path) -> None:
    for seed, rank in ((1, 1), (2, 2)):
        folder = runs / f"seeded/length/seed-{seed}"
        write_ranks(folder / "short.run", {"s1": 4, "s2": 4, "l1": rank, "l2": 1})
        write_ranks(folder / "long.run", {"s1": rank, "s2": 1, "l1": 4, "l2": 4})
    figures = evaluate(runs).figures.where(system="seeded", group="short")
    assert values(figures, "avg_in", "short") == [pytest.approx((1 + 0.75) / 2)]
    assert values(figures, "out", "short") == [0.25]
    (row,) = figures.where(figure="rel_loss")
    assert (row.seeds, row.counts) == (2, "queries and seeds")
    assert row.seed_sd is not None


def test_lower_is_better_for_search_lengths(runs: Path) -> None:
    figures = evaluate(runs, measures="ASL@100").figures
    ((avg_in,), (out,), (loss,)) = (
        values(figures, name, "short") for name in ("avg_in", "out", "loss")
    )
    # s1 at rank 2 has one passage above it; s2 has 3 above one and misses the other, 100.
    assert out == pytest.approx((1 + (3 + 100) / 2) / 2)
    assert avg_in is not None
    assert loss == pytest.approx(out - avg_in)
    assert loss > 0


def test_scores_can_be_restricted_afterwards(runs: Path) -> None:
    (dense,) = score(runs / "dense")
    figures = losses_of([dense.restricted_to({"s1", "l1"})], DataInfo(), Settings()).figures
    assert [row.value for row in figures.where(figure="out")] == [0.5, 0.5, 0.5]
    only_short = losses_of([dense.restricted_to({"s1"})], DataInfo(), Settings()).figures
    assert only_short.where(figure="out").names("group") == ["short", "mean"]


@pytest.mark.parametrize("averaged", ["macro", "pooled"])
def test_a_shift_is_averaged_by_group_or_by_query(averaged: str) -> None:
    drawn = {"short": sides(1, 3, 50, loss=0.2), "long": sides(2, 3, 110, loss=0.1)}
    cubes = {group: np.stack(pair[:: 1 if group == "long" else -1], axis=1)
             for group, pair in drawn.items()}  # fmt: skip
    figures = losses_of(
        [made_scores("a", cubes)], DataInfo(), Settings(average=averaged)
    ).figures.where(group=("mean", "all queries"))
    assert figures.names("group") == ["mean" if averaged == "macro" else "all queries"]
    if averaged == "macro":
        of_groups = [losses(*pair, sample=group) for group, pair in drawn.items()]
        expected = {name: average(part[name] for part in of_groups) for name in of_groups[0]}
    else:
        together = [np.concatenate(side, axis=1) for side in zip(*drawn.values(), strict=True)]
        expected = losses(*together)
    for name, estimate in expected.items():
        assert estimate is not None
        (row,) = figures.where(figure=name)
        uncertainty = estimate.uncertainty()
        assert uncertainty is not None
        assert (row.value, row.queries) == (pytest.approx(estimate.value), 160)
        assert row.interval == pytest.approx(uncertainty.interval(estimate.value, 0.95))


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
    for wrong, message in (
        ({"measures": ("RRR@10",)}, "measure 'RRR@10'"),
        ({"correction": "hulm"}, "correction"),
        ({"ties": "random"}, "tie policy"),
        ({"missing": "ignore"}, "policy for missing queries"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            Settings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one measure"):
        Settings(measures=())
