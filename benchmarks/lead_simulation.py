"""How often do intervals of leads hold the truth, and how often is an equal lead marked?

Simulates RR@10 scores of a system and a reference, both one model for all groups, whose true leads
are known in closed form, as in `coverage_simulation`. Each trial is a comparison as `msshift
compare --reference` makes it. Run it from the repository's root (four minutes on one core)::

    scripts/bench lead_simulation

For each cell it prints how often the 95% intervals of the first group's lead and lead difference
hold the truth, and the share of comparisons that mark a lead, or a difference, that is 0. The
script exits with 1 if a 99% binomial interval of coverage does not meet 93 to 97% (one model), or
is not above 93% (three seeds), or if more than 7% mark a null.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage_simulation import RANKS, World
from msshift_bench.arrays import Floats
from msshift_bench.evaluation import ScoredRun, Scores, lead_claims, parse_measure
from msshift_bench.runs import FOR_ALL, RunReport
from msshift_bench.shifts import get_shift
from msshift_bench.stats import Figures, Inference, infer

LEVELS = (0.5, 0.6, 0.45, 0.55, 0.5)
"""P(rank <= 10) of the reference on each group: groups differ in difficulty."""

LEADS = {
    ("equal", 2): (0.0, 0.0),
    ("different", 2): (0.1, 0.0),
    ("equal", 5): (0.0,) * 5,
    ("different", 5): (0.1, -0.1, 0.0, 0.0, 0.0),
}
"""The true lead in RR@10 on each group."""

KINDS = ("lead", "lead_difference")
MEASURE = parse_measure("RR@10")
SHIFTS = {2: "length", 5: "topics"}
SHARED = 0.8
_CHUNK = 100
_ZERO = 1e-9
_NO_FLAGS = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Cell:
    """One row of the table.

    Attributes:
        leads: a kind of `LEADS`.
        groups: 2 or 5.
        seeds: 1 for one model as it is, else the number of its seeds.
        queries: test queries per group.
        seed_effect: standard deviation of a seed's effect on the scores of a group. Half of its
            variance is the same on all groups.
    """

    leads: str
    groups: int
    seeds: int
    queries: int = 600
    seed_effect: float = 0.1

    @property
    def truth(self) -> dict[str, Floats]:
        """The true leads of each group, and their differences from the mean of the others."""
        leads = np.array(LEADS[self.leads, self.groups])
        others = (leads.sum() - leads) / (self.groups - 1)
        return dict(zip(KINDS, (leads, leads - others), strict=True))

    def worlds(self) -> Iterator[tuple[World, World]]:
        """Yield the system and the reference on each group."""
        from scipy.optimize import brentq

        effect = self.seed_effect if self.seeds > 1 else 0.0
        for level, lead in zip(LEVELS, LEADS[self.leads, self.groups], strict=False):
            reference = World(level)
            target = reference.truth()["avg_in"] + lead

            def apart(found: float, target: float = target) -> float:
                return World(found, seed_effect=effect).truth()["avg_in"] - target

            yield World(float(brentq(apart, 0.05, 0.95)), seed_effect=effect), reference

    def draw(self, trials: int, seed: int = 0) -> Iterator[tuple[Floats, Floats]]:
        """Yield the scores of the system and of the reference, ``[seeds, groups, queries]``."""
        worlds = list(self.worlds())
        rng = np.random.default_rng([seed, self.groups, self.seeds, len(self.leads), self.queries])
        for start in range(0, trials, _CHUNK):
            count = min(_CHUNK, trials - start)
            ease = rng.standard_normal((count, 1, self.groups, self.queries))
            parts = []
            for place, seeds in enumerate((self.seeds, 1)):
                noise = rng.standard_normal((count, seeds, self.groups, self.queries))
                values = math.sqrt(SHARED) * ease + math.sqrt(1 - SHARED) * noise
                effects = rng.standard_normal((count, seeds, 1, 1))
                effects = effects + rng.standard_normal((count, seeds, self.groups, 1))
                for group, pair in enumerate(worlds):
                    moved = values[:, :, group] + effects[:, :, group] * (
                        pair[place].seed_effect / math.sqrt(2)
                    )
                    found = np.searchsorted(-pair[place].thresholds(False), -moved)
                    values[:, :, group] = np.append(1 / RANKS, 0.0)[found]
                parts.append(values)
            yield from zip(*parts, strict=True)

    def compare(self, system: Floats, reference: Floats) -> Figures:
        """Return the figures of the leads, as `msshift compare` infers them."""
        shift = get_shift(SHIFTS[self.groups])
        size = self.groups * self.queries
        places = np.arange(size).reshape(self.groups, self.queries)
        groups = dict(zip(shift.groups, places, strict=True))
        ids = tuple(map(str, range(size)))
        scores = {}
        for name, cube in (("system", system), ("reference", reference)):
            runs = {}
            for seed, row in enumerate(cube.reshape(len(cube), size)):
                values = {MEASURE.name: row}
                model = FOR_ALL, seed if len(cube) > 1 else None
                report = RunReport(name)
                runs[model] = ScoredRun(report, _NO_FLAGS, _NO_FLAGS, values, values, values)
            scores[name] = Scores(name, shift, ids, groups, runs)
        claims = lead_claims(scores, MEASURE, groups, "macro", "reference")
        return infer(claims, Inference())


def simulate(cell: Cell, trials: int, seed: int = 0) -> dict[str, int]:
    """Return how many comparisons hold the first group's truth, and mark a null, by kind."""
    counts = {f"{kind} {what}": 0 for kind in KINDS for what in ("held", "marked")}
    truth = cell.truth
    for pair in cell.draw(trials, seed):
        figures = cell.compare(*pair)
        for kind in KINDS:
            rows = figures.where(figure=kind)[: cell.groups]
            low, high = rows[0].interval or (math.nan, math.nan)
            counts[f"{kind} held"] += low <= truth[kind][0] <= high
            nulls = [row for row, lead in zip(rows, truth[kind], strict=True) if abs(lead) < _ZERO]
            counts[f"{kind} marked"] += any(row.mark for row in nulls)
    return counts


def binomial_interval(count: int, trials: int, confidence: float = 0.99) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (Biometrika 26, 1934) of a share."""
    from scipy.stats import binomtest

    low, high = binomtest(count, trials).proportion_ci(confidence)
    return float(low), float(high)


def is_sound(cell: Cell, counts: dict[str, int], trials: int) -> bool:
    """Return whether a cell's coverage and its rate of marked nulls meet their targets."""
    for kind in KINDS:
        low, high = binomial_interval(counts[f"{kind} held"], trials)
        is_held = low > 0.93 if cell.seeds > 1 else low <= 0.97 and high >= 0.93
        if not is_held or counts[f"{kind} marked"] > 0.07 * trials:
            return False
    return True


def main() -> int:
    """Print the table; return 0 if every cell meets its targets."""
    parser = argparse.ArgumentParser(description="Measure coverage and size of tests of leads.")
    parser.add_argument("--trials", type=int, default=2000, help="simulated comparisons per row")
    trials = parser.parse_args().trials
    print(
        "| leads | groups | seeds | lead: held | difference: held | lead: null | difference: null |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    sound = True
    for leads, groups in LEADS:
        for seeds in (1, 3):
            cell = Cell(leads, groups, seeds)
            counts = simulate(cell, trials)
            shares = [f"{counts[f'{kind} held'] / trials:.1%}" for kind in KINDS]
            for kind in KINDS:
                has_null = abs(cell.truth[kind]).min() < _ZERO
                shares.append(f"{counts[f'{kind} marked'] / trials:.1%}" if has_null else "-")
            names = (leads, str(groups), str(seeds) if seeds > 1 else "one model")
            print(f"| {' | '.join((*names, *shares))} |", flush=True)
            sound = sound and is_sound(cell, counts, trials)
    print(f"\n{trials} trials a row; all targets met: {sound}")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
