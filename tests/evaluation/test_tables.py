"""The tables of losses that golden files do not hold: slices of few, and Deltas as Zhan et al.'s."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.support.synthetic_entries import scored_report
from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Result, Settings, loss_table, losses_of, show_delta
from msshift_bench.output import to_markdown
from tests.conftest import REPOSITORY
from tests.support.golden import Golden
from tests.support.made_scores import made_scores
from tests.support.tiny_run_sets import evaluate, write_ranks

SETTINGS = Settings()


def notes_of(result: Result) -> str:
    return "\n".join(note.text for note in result.notes)


def together(*results: Result, settings: Settings = SETTINGS) -> Result:
    scores = [scores for result in results for scores in result.scores]
    return losses_of(scores, DataInfo(), settings)


def test_the_best_of_several_systems_is_marked(tiny_runs: Path) -> None:
    ranks = {"s1": 2, "s2": 4, "l1": 1, "l2": 2}
    write_ranks(tiny_runs / "twin/length/short.run", ranks)
    write_ranks(tiny_runs / "twin/length/long.run", {"s1": 1, "s2": 1, "l1": 1, "l2": 1})
    result = evaluate(tiny_runs)
    (table,) = result.tables()
    best = [row[3].text for row in table.rows if row[1].text == "Rel Loss" and row[3].best]
    assert best == ["-33.3%"]
    assert not any(cell.best for cell in table.rows[0])
    brief = loss_table(result.figures, SETTINGS.measures[0], SETTINGS, brief=True)
    names = ["", "Avg In", "Out", "Rel Loss"]
    assert [row[1].text for row in brief.rows] == [*names, *names[1:]]


def test_notes_say_what_makes_an_interval_wide_and_what_would_halve_it() -> None:
    result = scored_report("brittle", 0.3, shifts=["length"], seeds=(1, 2))
    (row,) = result.figures.where(figure="rel_loss", group="mean", measure="RR@10")
    assert row.seed_share is not None
    assert "two seeds do not tell agreement from luck" in notes_of(result)
    assert (
        f"{100 * row.seed_share:.0f}% of the variance of its average Rel Loss is what its 2 seeds "
        "differ by, noise included"
    ) in notes_of(result)
    assert "no number of seeds would halve its interval" in notes_of(result)


# ---- slices: how many queries they have, and no percentage of too few ------------------------

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
    assert "slices: no figures of fewer than 20 queries" in notes_of(result)
    few = result.figures.first(figure="rel_loss", slice="few", group="long")
    assert few is not None
    assert few.value is not None


# ---- Deltas ---------------------------------------------------------------------------------

PUBLISHED: dict[str, Any] = json.loads(
    (REPOSITORY / "msshift_bench/analysis/published/interpolation_extrapolation.json").read_text(
        "utf-8"
    )
)

DELTAS = {
    "6 14k": {"BM25": (1, 1), "Reranker": (-5, -1), "ColBERT": (-2, 7), "SPLADE": (-18, -7),
              "DR": (-14, -7)},
    "6 45k": {"Reranker": (-2, -1), "ColBERT": (-2, 3), "SPLADE": (-17, -8), "DR": (-14, -8)},
    "6 200k": {"Reranker": (-1, 1), "ColBERT": (-2, 3), "SPLADE": (-5, -5), "DR": (-11, -9)},
    "7": {"BM25": (-1, 0), "Reranker": (-6, -1), "ColBERT": (-9, -3), "SPLADE": (-13, -6),
          "DR": (-12, -7)},
}  # fmt: skip
"""Table -> system -> its columns Delta of both measures, in percent."""


def printed() -> Iterator[tuple[str, float, float, int]]:
    """Yield every cell of Tables 6 to 9 that has a Delta: where, Inter., Extra., Delta."""
    cells = {f"6 {size}": rows for size, rows in PUBLISHED["restrain_trec_dl_19_20"].items()}
    cells["7"] = PUBLISHED["resttest_msmarco_dev"]
    for table, deltas in DELTAS.items():
        for system, pair in deltas.items():
            for place, delta in enumerate(pair):
                row = cells[table][system]
                yield f"{table} {system}", *row[2 * place : 2 * place + 2], delta
    for model, parts in PUBLISHED["table_8_training_methods"].items():
        if model != "columns":
            for measures in parts.values():
                for inter, extra, delta in measures.values():
                    yield f"8 {model}", inter, extra, int(delta.rstrip("%"))
    for model, row in PUBLISHED["table_9_pretraining"].items():
        if model != "columns":
            for part in ("restrain_45k_R@100", "resttest_R@100"):
                inter, extra, delta = row[part]
                yield f"9 {model}", inter, extra, int(delta.rstrip("%"))


def test_all_published_deltas_follow_from_their_printed_cells() -> None:
    cells = list(printed())
    wrong = [
        where for where, inter, extra, delta in cells if round(100 * extra / inter - 100) != delta
    ]
    assert (len(cells), wrong) == (66, [])


def test_deltas_have_the_layout_of_table_7() -> None:
    settings = Settings("RR@10 nDCG@10")
    bm25, dense = (
        scored_report(name, 0.2, shifts=["resttest"], settings=settings, **options)
        for name, options in (("bm25", {"per_group": False}), ("dense", {"seeds": (1, 2)}))
    )
    result = together(bm25, dense, settings=settings)
    (section,) = result.layout(result.figures, delta=True)
    (table,) = section.tables
    header = ("system", "MRR@10 Inter.", "Extra.", "Delta", "nDCG@10 Inter.", "Extra.", "Delta")
    assert table.header == header
    of_bm25, of_dense = ([cell.text for cell in row] for row in table.rows)
    assert of_bm25[1] == of_bm25[2] != "-"
    assert of_bm25[3] == of_bm25[6] == "0.0%"
    rows = result.figures.where(system="dense", measure="RR@10", group="all queries")
    avg_in, out, rel_loss = (
        rows.where(figure=name)[0].number for name in ("avg_in", "out", "rel_loss")
    )
    assert of_dense[1:3] == [f"{100 * avg_in:.1f}", f"{100 * out:.1f}"]
    assert of_dense[3].startswith(f"{-100 * rel_loss:+.1f}% [")
    (line,) = section.notes
    assert "minus Rel Loss" in line
    assert "queries only" not in line


def test_sizes_of_a_shift_share_a_table() -> None:
    sized = (scored_report("dense", 0.2, shifts=[f"restrain-{size}"]) for size in ("45k", "14k"))
    result = together(*sized)
    first, second = result.layout(result.figures, delta=True)
    assert (len(first.tables), len(second.tables)) == (1, 0)
    assert first.tables[0].header[:2] == ("#Q", "system")
    assert len(first.tables[0].rows) == 2


@pytest.mark.parametrize(
    ("rel_loss", "interval", "shown"),
    [
        (0.1234, (0.1, 0.15), "-12.3% [-15.0, -10.0]"),
        (-0.01, (-0.02, 0.0001), "+1.0% [0.0, +2.0]"),
        (0.0, (-0.01, 0.01), "0.0% [-1.0, +1.0]"),
        (-0.0, None, "0.0%"),
        (None, None, "-"),
    ],
)
def test_a_delta_is_a_turned_rel_loss(
    rel_loss: float | None, interval: tuple[float, float] | None, shown: str
) -> None:
    assert show_delta(rel_loss, interval) == shown
