"""What `msshift evaluate` prints of variants: tables by model, method and group, notes and rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_run
from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.records import Row
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture
def runs(data: Path, tmp_path: Path) -> Path:
    """A relevant passage first, or fourth where a model without the group meets a typing error."""
    tests = open_dataset(data).test_sets(SHIFTS["length"]).values()
    rows: list[Row] = [row for members in tests for row in members]
    for group in ("short", "long"):
        for place, mark in (("length", ""), ("also/typed/length", "#a")):
            rankings = []
            for row in rows:
                filler = 3 if mark and row.group == group else 0
                ranking = [*(f"filler{n}" for n in range(filler)), row.relevant_doc_ids[0]]
                rankings.append((row.query_id + mark, ranking))
            write_run(tmp_path / f"runs/dense/{place}/{group}.run", rankings, group)
    write_variants(tmp_path / "typed.tsv", [Variant(row.query_id, "typo", "a") for row in rows])
    return tmp_path / "runs"


def test_the_tables_say_what_models_and_groups_lose(
    data: Path, runs: Path, msshift: Command
) -> None:
    ask = ("evaluate", runs, "--data", data, "--also-test", "typed=typed.tsv")
    done = msshift(*ask, "--measures", "RR@10,P@1", "--format", "markdown")
    assert done.returncode == 0, done.stderr
    title = "typed, Query length (length), MRR@10 x 100: "
    losses, compounds = f"{title}what each model loses", f"{title}does the shift add to it?"
    assert done.stdout.count("what each model loses") == 2
    own = {"short": 44, "long": 62}
    lines = done.stdout.partition(losses)[2].partition(compounds)[0].splitlines()
    cells = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert cells[0] == ["system", "without", "queries", "as is", "changed", "loss", "95%", "p"]
    for row, (group, members) in zip(cells[2:], own.items(), strict=False):
        changed = 100 * (1 - 0.75 * members / 106)
        loss = 100 - changed
        assert row[1:6] == [group, "106", "100.0", f"{changed:.1f}", f"{loss:.1f}%"]
    assert cells[2][0] == "dense"
    # One method is no comparison of methods.
    assert "by method" not in done.stdout
    lines = done.stdout.partition(compounds)[2].splitlines()
    cells = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    for row, group in zip(cells[2:5], (*own, "mean"), strict=True):
        assert [row[1], *row[3:6]] == [group, "0.0%", "75.0%", "75.0%"]
        assert row[-2:] == ["0.0%", "75.0%"]
    for said in (
        "- typed (length): 106 variants, 0 of them as the query",
        "above 0, their difference says that shift and change compound (p corrected over groups:",
        "- 95% intervals: queries only; variants are taken as they are",
    ):
        assert said in done.stdout


def test_every_figure_is_a_row_of_csv(data: Path, runs: Path, msshift: Command) -> None:
    done = msshift(
        *("evaluate", runs, "--data", data, "--also-test", "typed=typed.tsv", "--format", "csv")
    )
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    values = {(row["group"], row["label"], row["figure"]): row for row in rows}
    assert len(values) == len(rows)
    changed = values["typed", "short/all", "changed"]
    assert float(changed["value"]) == pytest.approx(1 - 0.75 * 44 / 106)
    assert (changed["queries"], changed["seeds"], changed["low"]) == ("106", "1", "")
    loss = values["typed", "short/all", "loss_by_change"]
    low, value, high = (float(loss[name]) for name in ("low", "value", "high"))
    assert value == pytest.approx(0.75 * 44 / 106)
    assert low < value < high
    for group in ("short", "long", "mean"):
        found = {
            figure: float(values[group, "typed", figure]["value"])
            for figure in ("loss_by_change_in", "loss_by_change_out", "out_minus_in")
        }
        assert list(found.values()) == pytest.approx([0, 0.75, 0.75])
        assert float(values[group, "typed", "rel_loss_changed"]["value"]) == pytest.approx(0.75)
    assert "typed (length): 106 variants" in done.stderr
