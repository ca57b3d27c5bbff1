"""How often do the intervals hold the truth, and how often does `compare` reject a true null?

Simulates RR@10 scores of systems whose true Rel Loss is known in closed form, and counts over many
simulated shifts how often the 95% interval of Rel Loss contains it, on one group and for the mean
of the groups, and how often two systems that lose the same share are told apart at level 0.05. Run
it from the repository's root (half an hour on one core; ``--processes`` for more)::

    scripts/bench coverage_simulation

With two seeds or more, intervals must hold the truth in at least 93% of the trials and `compare`
must reject in at most 7%; the script exits with 1 if they do not. Cells that are more cautious than
97% and 3% are marked with "c".

The simulation: a query has a difficulty, a model's score on it depends on that difficulty and on
noise of the model's own, so scores of different models are correlated. Their sum is a standard
normal variable, of which thresholds make the rank of the relevant passage: 1 to 10, or beyond (a
score of 0). Models held out have lower thresholds than in-domain ones. A seed moves all scores of a
model by a normal amount, the same on all groups, so that the sum stays normal and the truth closed.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.stats import MEAN, Estimate, Uncertainty, average, rel_loss

RANKS = np.arange(1, 11)
SHAPE = (RANKS / 10) ** 0.35
"""P(rank <= r) / P(rank <= 10): about 45% of the passages in the top ten stand first."""

SEEDS = (1, 2, 3, 5)
SEED_EFFECTS = (0.0, 0.05, 0.2)
GROUPS = (2, 5)

System = dict[str, tuple[Floats, Floats]]
"""Group -> the scores in and out on its queries, ``[seeds, queries]``."""


@dataclass(frozen=True)
class World:
    """The truth about a system: the chance of a hit in the top ten, and how much models agree.

    Attributes:
        found: P(rank <= 10) of an in-domain model.
        kept: P(rank <= 10) of the held-out model, as a fraction of `found`; as the shape of the
            ranks is the same, 1 - `kept` is the true Rel Loss where seeds have no effect.
        shared: the share of a score's variance that is the query's difficulty, 0 to 1.
        seed_effect: standard deviation of what a seed adds to all scores of one model.
        held_out_factor: by how much more a seed moves a model on the group that it never saw.
    """

    found: float = 0.7
    kept: float = 0.9
    shared: float = 0.8
    seed_effect: float = 0.0
    held_out_factor: float = 1.0

    def thresholds(self, held_out: bool) -> Floats:
        """Return the score above which the relevant passage has rank r or better, r = 1 to 10."""
        from scipy.special import ndtri

        chances = SHAPE * self.found * (self.kept if held_out else 1.0)
        return np.asarray(-ndtri(chances))

    def truth(self) -> dict[str, float]:
        """Return the expected Avg In, Out and Rel Loss, over queries and seeds."""
        from scipy.special import ndtr

        spreads = {False: self.seed_effect, True: self.seed_effect * self.held_out_factor}
        avg_in, out = (
            float(
                np.diff(ndtr(-self.thresholds(held_out) / math.hypot(1.0, spread)), prepend=0)
                @ (1 / RANKS)
            )
            for held_out, spread in spreads.items()
        )
        return {"avg_in": avg_in, "out": out, "rel_loss": 1 - out / avg_in}

    def losing_as_much_as(self, other: World) -> World:
        """Return this world with the true Rel Loss of another, by another `kept`."""
        from scipy.optimize import brentq

        target = other.truth()["rel_loss"]
        kept = brentq(lambda k: replace(self, kept=k).truth()["rel_loss"] - target, 0.2, 1.3)
        return replace(self, kept=float(kept))


def simulate(
    worlds: Sequence[World], groups: int, queries: int, seeds: int, rng: np.random.Generator
) -> list[System]:
    """Draw the test sets of a shift and let one system per world answer them."""
    difficulties = rng.standard_normal((groups, queries))
    systems = []
    for world in worlds:
        effects = world.seed_effect * rng.standard_normal((seeds, groups, 1))
        system: System = {}
        for group in range(groups):
            moved = effects.copy()
            moved[:, group] *= world.held_out_factor
            noise = rng.standard_normal((seeds, groups, queries))
            scores = math.sqrt(world.shared) * difficulties[group]
            scores = scores + math.sqrt(1 - world.shared) * noise + moved
            inside = _reciprocal_ranks(np.delete(scores, group, axis=1), world.thresholds(False))
            out = _reciprocal_ranks(scores[:, group], world.thresholds(True))
            system[f"C{group}"] = inside.mean(axis=1), out
        systems.append(system)
    return systems


def _reciprocal_ranks(scores: Floats, thresholds: Floats) -> Floats:
    values = np.append(1 / RANKS, 0.0)
    return np.asarray(values[np.searchsorted(-thresholds, -scores)])


def rel_losses(system: System, name: str = "a") -> dict[str, Estimate]:
    """Return the Rel Loss of the first group, and the mean of those of all groups."""
    losses = [
        rel_loss(Estimate.mean(inside, name, group), Estimate.mean(out, name, group))
        for group, (inside, out) in system.items()
    ]
    first, mean = losses[0], average(losses)
    assert first is not None
    assert mean is not None
    return {"group": first, MEAN: mean}


def _error(estimate: Estimate) -> Uncertainty:
    uncertainty = estimate.uncertainty()
    assert uncertainty is not None
    return uncertainty


@dataclass(frozen=True)
class Setting:
    """One row of the tables."""

    groups: int
    queries: int
    seeds: int
    seed_effect: float
    held_out_factor: float = 1.0

    @property
    def world(self) -> World:
        """The system that is simulated."""
        return World(seed_effect=self.seed_effect, held_out_factor=self.held_out_factor)


def coverage(setting: Setting, trials: int, seed: int = 0) -> dict[str, float]:
    """Return the share of trials whose 95% interval of Rel Loss contains the truth.

    Keys are ``group`` and ``mean``.
    """
    truth = setting.world.truth()["rel_loss"]
    rng = np.random.default_rng([seed, setting.groups, setting.queries, setting.seeds])
    covered = {"group": 0, MEAN: 0}
    for _ in range(trials):
        (system,) = simulate([setting.world], setting.groups, setting.queries, setting.seeds, rng)
        for key, estimate in rel_losses(system).items():
            low, high = _error(estimate).interval(estimate.value, 0.95)
            covered[key] += low <= truth <= high
    return {key: count / trials for key, count in covered.items()}


def false_rejections(setting: Setting, trials: int, seed: int = 0) -> dict[str, float]:
    """Return how often two systems that lose the same share get p <= 0.05.

    One system is strong and one weak, with the same true Rel Loss, and the seeds of both have the
    same effect. Permuting the systems' labels per query is set beside it, for one seed.
    """
    strong = setting.world
    weak = replace(strong, found=0.25).losing_as_much_as(strong)
    rng = np.random.default_rng([seed, setting.groups, setting.queries, setting.seeds, 1])
    rejected = {"group": 0, MEAN: 0}
    for _ in range(trials):
        systems = simulate([strong, weak], setting.groups, setting.queries, setting.seeds, rng)
        first, second = map(rel_losses, systems, "ab")
        for key in rejected:
            difference = first[key] - second[key]
            p = _error(difference).p_value(difference.value)
            assert p is not None
            rejected[key] += p <= 0.05
    return {key: count / trials for key, count in rejected.items()}


def label_permutation(trials: int, patterns: int = 500, seed: int = 0) -> float:
    """Return how often a permutation of system labels per query rejects the same true null."""
    strong = World()
    weak = replace(strong, found=0.25).losing_as_much_as(strong)
    rng = np.random.default_rng(seed)
    rejected = 0
    for _ in range(trials):
        columns = [
            np.stack([side[0] for side in system["C0"]], axis=1)
            for system in simulate([strong, weak], 2, 600, 1, rng)
        ]
        sums = [column.sum(axis=0) for column in columns]
        moved = rng.integers(0, 2, size=(patterns, 600)) @ (columns[1] - columns[0])
        first, second = sums[0] + moved, sums[1] - moved
        drawn = np.abs(second[:, 1] / second[:, 0] - first[:, 1] / first[:, 0])
        observed = abs(sums[1][1] / sums[1][0] - sums[0][1] / sums[0][0])
        rejected += (1 + np.count_nonzero(drawn >= observed)) / (patterns + 1) <= 0.05
    return rejected / trials


def measure(setting: Setting, trials: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return `coverage` and `false_rejections` of one row."""
    return coverage(setting, trials), false_rejections(setting, trials)


def show(setting: Setting, covered: dict[str, float], rejected: dict[str, float]) -> str:
    """Return a row of the table; "c" marks what is more cautious than 97% and 3%."""
    cells = [f"{share:.1%}{' c' if share > 0.97 else ''}" for share in covered.values()]
    cells += [f"{share:.1%}{' c' if share < 0.03 else ''}" for share in rejected.values()]
    place = (setting.groups, setting.queries, setting.seeds, setting.seed_effect)
    return "| " + " | ".join([*map(str, place), *cells]) + " |"


def main() -> int:
    """Print the tables; return 0 if intervals and tests meet their targets."""
    parser = argparse.ArgumentParser(description="Measure coverage of intervals, size of tests.")
    parser.add_argument("--trials", type=int, default=2000, help="simulated shifts per row")
    parser.add_argument("--queries", type=int, default=600, help="test queries per group")
    parser.add_argument("--processes", type=int, default=1, help="rows computed at once")
    options = parser.parse_args()
    settings = [
        Setting(groups, options.queries, seeds, effect)
        for groups in GROUPS
        for seeds in SEEDS
        for effect in SEED_EFFECTS
    ]
    print(
        "| groups | queries | seeds | seed effect | group | mean | compare: group | compare: mean |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    sound = True
    with multiprocessing.Pool(options.processes) as pool:
        rows = pool.imap(partial(measure, trials=options.trials), settings)
        for setting, (covered, rejected) in zip(settings, rows, strict=True):
            print(show(setting, covered, rejected), flush=True)
            if setting.seeds > 1:
                sound = sound and min(covered.values()) >= 0.93
                sound = sound and max(rejected.values()) <= 0.07
        print("\n| held-out models vary twice as much over seeds | group |")
        print("|---|---:|")
        uneven = [Setting(5, options.queries, seeds, 0.1, 2.0) for seeds in SEEDS[1:]]
        shares = pool.imap(partial(coverage, trials=options.trials), uneven)
        for setting, covered in zip(uneven, shares, strict=True):
            print(f"| {setting.seeds} seeds | {covered['group']:.1%} |")
            sound = sound and covered["group"] >= 0.93
    share = label_permutation(min(options.trials, 1000))
    print(f"\na permutation of system labels per query rejects the same true null in {share:.1%}")
    print(f"{options.trials} trials a row; within 93% and 7% from two seeds on: {sound}")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
