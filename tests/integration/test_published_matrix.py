"""Run sets whose per-cell means are the published ones give the published figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.analysis import load_published
from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
from msshift_bench.dataset_builders.write import write_dataset
from msshift_bench.records import Grouping, Row
from msshift_bench.shifts import SHIFTS, Shift
from msshift_bench.stats import Figures
from tests.conftest import Command
from tests.support.figures import read_figures

QUERIES = 2000  # so that a mean in steps of 0.0005 is a whole number of queries at rank 1


def write_test_sets(folder: Path, shift: Shift) -> None:
    """Write a data set whose groups have `QUERIES` test queries, each with one relevant passage."""

    def rows(split: str, count: int) -> tuple[Row, ...]:
        return tuple(
            Row(f"{split}-{group}-{n:04}", f"query {n}", group, (f"doc-{group}-{n:04}",), (1,))
            for group in sorted(shift.groups)
            for n in range(count)
        )

    rows_of = {"train": rows("train", 1), "validation": (), "test": rows("test", QUERIES)}
    cut = ShiftSplits(Grouping(shift.name, {}, "by hand", {}), cut_table(rows_of))
    write_dataset(
        folder,
        [cut],
        edition="rebuilt",
        collection={"name": "hand-made", "text": "raw"},
        parameters={},
    )


def write_run(path: Path, means: Mapping[str, float]) -> None:
    """Write a run with the given MRR@10 on each group: the right passage first, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for group, mean in means.items():
        for n in range(QUERIES):
            doc = f"doc-{group}-{n:04}" if n < round(mean * QUERIES) else "doc-of-no-use"
            lines.append(f"test-{group}-{n:04} Q0 {doc} 1 1.5 hand\n")
    path.write_text("".join(lines))


def evaluate_matrix(
    msshift: Command, folder: Path, rows: Mapping[str, Mapping[str, float]]
) -> Figures:
    """Return the figures of a run set with these means."""
    write_test_sets(folder / "msshift", SHIFTS["topics"])
    for held_out, means in rows.items():
        write_run(folder / "runs" / "splade-max" / "topics" / f"{held_out}.run", means)
    done = msshift("evaluate", "runs", "--format", "json")
    assert done.returncode == 0, done.stderr
    return read_figures(done.stdout)


def published_matrix() -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    matrix = load_published("ms_shift_v1")["splade_topics_matrix"]
    groups = matrix["columns"]
    rows = {name: dict(zip(groups, row, strict=True)) for name, row in matrix["rows"].items()}
    return matrix, rows


@pytest.mark.extended
def test_the_splade_topic_matrix(msshift: Command, tmp_path: Path) -> None:
    matrix, rows = published_matrix()
    figures = evaluate_matrix(msshift, tmp_path, rows)
    cells = figures.where(figure="model_score")
    assert len(cells) == 25
    for cell in cells:
        assert cell.value == pytest.approx(rows[cell.model][cell.group], abs=1e-12)
        assert cell.queries == QUERIES
    for position, group in enumerate(matrix["columns"]):
        loss = {row.figure: row.value for row in figures.where(group=group, model="")}
        assert loss["avg_in"] == pytest.approx(matrix["avg_in"][position], abs=0.0005 + 1e-12)
        assert loss["out"] == pytest.approx(rows[group][group], abs=1e-12)
        # The paper computed its losses before it rounded the cells. From the printed cells all
        # but one come out within 0.1; C3's is 6.2 where the paper has 6.4.
        expected = 6.2 if group == "C3" else matrix["rel_loss_pct"][position]
        assert 100 * loss["rel_loss"] == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("paper", ["ms_shift_v1", "ms_shift_v2"])
def test_every_published_relative_loss_follows_from_its_row(paper: str) -> None:
    published = load_published(paper)
    rows = [*published.get("topics", []), *published["wh_and_length"]]
    assert len(rows) >= 15
    unit = 0.001 if paper == "ms_shift_v1" else 0.1
    for row in rows:
        # Half a unit of rounding in either figure moves the loss by this much at most.
        slack = 100 * unit / 2 * (1 / row["avg_in"]) * (1 + row["out"] / row["avg_in"]) + 0.05
        loss = 100 * (row["avg_in"] - row["out"]) / row["avg_in"]
        assert loss == pytest.approx(row["rel_loss_pct"], abs=slack), row
