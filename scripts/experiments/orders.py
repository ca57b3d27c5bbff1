"""The order of systems by Rel Loss beside the paper's, pair by pair, as a table in Markdown.

Usage: python -m scripts.experiments.orders DATA RUNS ...

RUNS hold run sets of one shift, whose systems are named like those of Tables 2 and 3 of MS-Shift
(ECIR 2023) or, for ReSTTest, are systems of Table 7 of Zhan et al. (CIKM 2022). The papers have
neither seeds nor intervals: their order is that of MS-Shift's means over the groups of the shift,
and of minus Zhan et al.'s Delta, over all queries.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean

from msshift_bench import compare_run_sets
from msshift_bench.analysis import load_published
from msshift_bench.errors import MsShiftError
from msshift_bench.evaluation import ALL_QUERIES
from msshift_bench.output import Table, show_p, show_percent, show_percent_interval, to_markdown
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import MEAN, SIGNIFICANT, Figures

PAPER_NAME = {"splade": "splade-max"}
"""Our systems that MS-Shift calls otherwise."""

ZHAN_NAME = {"bi-encoder": "DR", "colbert": "ColBERT", "splade": "SPLADE", "monobert": "Reranker"}
"""Our systems as Zhan et al. call them."""


def published(shift: str) -> dict[str, float]:
    """Return system -> a paper's Rel Loss on a shift: the mean over groups, or over all queries."""
    if shift == "resttest":
        table = load_published("interpolation_extrapolation")["resttest_msmarco_dev"]
        inter, extra = map(table["columns"].index, ("MRR@10 inter", "MRR@10 extra"))
        return {
            name: 1 - table[theirs][extra] / table[theirs][inter]
            for name, theirs in ZHAN_NAME.items()
        }
    tables = load_published("ms_shift_v2")
    rows = [*tables["topics"], *tables["wh_and_length"]]
    ours = {paper: own for own, paper in PAPER_NAME.items()}
    losses: dict[str, list[float]] = {}
    for row in rows:
        if row["group"] in SHIFTS[shift].groups:
            name = ours.get(row["system"], row["system"])
            losses.setdefault(name, []).append(row["rel_loss_pct"] / 100)
    return {name: mean(values) for name, values in losses.items()}


def verdict(difference: float, p: float, paper: float) -> str:
    """Say whether a difference has the sign of the paper's.

    Args:
        difference: ours, of the average Rel Loss of two systems.
        p: its p-value, corrected over all pairs.
        paper: the paper's difference.
    """
    if p > SIGNIFICANT:
        return "cannot tell"
    return "agrees" if difference * paper > 0 else "disagrees"


def compared(shift: str, differences: Figures) -> Table:
    """Return a row for each pair of systems: our difference and its test, the paper's, a verdict.

    Args:
        shift: the shift.
        differences: of the average Rel Loss of every two systems.

    Raises:
        KeyError: if the paper has no figures of a system.
    """
    paper = published(shift)
    rows = []
    for row in differences:
        assert row.p is not None
        theirs = paper[row.system] - paper[row.against]
        rows.append(
            (
                f"{row.system} - {row.against}",
                show_percent(row.value),
                show_percent_interval(row.interval),
                show_p(row.p),
                show_percent(theirs),
                verdict(row.number, row.p, theirs),
            )
        )
    header = ("pair", "difference", "interval", "p (holm)", "the paper's", "the paper's order")
    return Table.plain(f"{shift}: differences of average Rel Loss", header, rows)


def main(arguments: list[str]) -> int:
    """Print the orders and the table."""
    parser = argparse.ArgumentParser(prog="python -m scripts.experiments.orders")
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    try:
        result = compare_run_sets(given.runs, given.data)
    except MsShiftError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    averages = result.figures.where(figure="rel_loss", group=(MEAN, ALL_QUERIES))
    for (shift,), losses in averages.each("shift"):
        differences = Figures([row for row in losses if row.against])
        print(to_markdown(compared(shift, differences)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
