"""How often do the intervals hold the truth, and how often do the tests reject a true null?

Simulates RR@10 scores whose expected Avg In, Out and Rel Loss are known in closed form, and counts
over many simulated test sets how often the 95% intervals of `group_loss` contain them. The 95%
interval of Rel Loss must hold the truth in 93 to 97% of the trials; the script exits with 1 if it
does not. Run it from the repository's root (about five minutes on one core)::

    python benchmarks/coverage_simulation.py

The simulation: a query has a difficulty, a model's score on it depends on that difficulty and on
noise of the model's own, so scores of different models are correlated. Their sum is a standard
normal variable, of which thresholds make the rank of the relevant passage: 1 to 10, or beyond (a
score of 0). Models held out have lower thresholds than in-domain ones. With replicates, each seed
moves each model's scores by a normal amount, so the sum stays normal and the truth closed.

Only the rows of a single seed have to hold 93 to 97%. With replicates, crossing queries and seeds
is known to be too wide where models differ by query (Owen 2007: that variance counts up to three
times) and too narrow where few seeds differ much as a whole; the last two rows show both.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msshift_bench.comparing import compare_losses
from msshift_bench.resampling import GroupScores
from msshift_bench.statistics import GroupLoss, group_loss

FIGURES = ("avg_in", "out", "loss", "rel_loss")
RANKS = np.arange(1, 11)
SHAPE = (RANKS / 10) ** 0.35
"""P(rank <= r) / P(rank <= 10): about 45% of the passages in the top ten stand first."""


@dataclass(frozen=True)
class World:
    """What is true: the chance of a hit in the top ten, and how much models agree.

    Attributes:
        found: P(rank <= 10) of an in-domain model.
        kept: P(rank <= 10) of the held-out model, as a fraction of `found`; as the shape of the
            ranks is the same, 1 - `kept` is the true Rel Loss where there is a single seed.
        shared: the share of a score's variance that is the query's difficulty, 0 to 1.
        seed_spread: standard deviation of what a seed adds to all scores of one model.
        models: number of in-domain models.
    """

    found: float = 0.6
    kept: float = 0.9
    shared: float = 0.8
    seed_spread: float = 0.0
    models: int = 4

    def thresholds(self, held_out: bool) -> NDArray[np.float64]:
        """Return the score above which the relevant passage has rank r or better, r = 1 to 10."""
        from scipy.special import ndtri

        chances = SHAPE * self.found * (self.kept if held_out else 1.0)
        return np.asarray(-ndtri(chances))

    def truth(self) -> dict[str, float]:
        """Return the expected Avg In, Out, Loss and Rel Loss, over queries and seeds."""
        from scipy.special import ndtr

        scale = math.hypot(1.0, self.seed_spread)
        avg_in, out = (
            float(np.diff(ndtr(-self.thresholds(held_out) / scale), prepend=0) @ (1 / RANKS))
            for held_out in (False, True)
        )
        return dict(zip(FIGURES, (avg_in, out, avg_in - out, 1 - out / avg_in), strict=True))


def simulate(
    worlds: Sequence[World], queries: int, seeds: int, rng: np.random.Generator
) -> list[GroupScores]:
    """Draw one test set and let one system per world answer it."""
    difficulty = rng.standard_normal(queries)
    systems = []
    for world in worlds:
        noise = rng.standard_normal((seeds, world.models + 1, queries))
        scores = math.sqrt(world.shared) * difficulty + math.sqrt(1 - world.shared) * noise
        scores += world.seed_spread * rng.standard_normal((seeds, world.models + 1, 1))
        systems.append(
            GroupScores(
                _reciprocal_ranks(scores[:, :-1], world.thresholds(held_out=False)),
                _reciprocal_ranks(scores[:, -1], world.thresholds(held_out=True)),
            )
        )
    return systems


def _reciprocal_ranks(
    scores: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> NDArray[np.float64]:
    values = np.append(1 / RANKS, 0.0)
    return np.asarray(values[np.searchsorted(-thresholds, -scores)])


def coverage(
    world: World, queries: int, *, seeds: int = 1, trials: int, resamples: int, seed: int = 0
) -> dict[str, float]:
    """Return the share of simulated test sets whose 95% interval contains the truth, by figure."""
    truth, rng = world.truth(), np.random.default_rng([seed, queries, seeds])
    held = dict.fromkeys(FIGURES, 0)
    for trial in range(trials):
        (scores,) = simulate([world], queries, seeds, rng)
        intervals = _loss(scores, resamples, trial).intervals
        for figure in FIGURES:
            low, high = getattr(intervals, figure)
            held[figure] += low <= truth[figure] <= high
    return {figure: count / trials for figure, count in held.items()}


def false_rejections(
    queries: int, *, trials: int, resamples: int, seed: int = 0
) -> dict[str, float]:
    """Return the share of true null hypotheses that each test rejects at level 0.05.

    For the paired tests no model loses anything. For the comparison, a strong and a weak system
    both lose 10%, and the bootstrap is set beside a permutation of system labels per query.
    """
    rng = np.random.default_rng([seed, queries])
    null, strong, weak = World(kept=1.0), World(found=0.7), World(found=0.25)
    names = ("t-test", "sign flips", "compare: bootstrap", "compare: label permutation")
    rejected = dict.fromkeys(names, 0)
    for trial in range(trials):
        (scores,) = simulate([null], queries, 1, rng)
        tests = _loss(scores, resamples, trial).tests
        a, b = simulate([strong, weak], queries, 1, rng)
        p_values = (
            tests.t_p,
            tests.permutation_p,
            compare_losses(a, b, resamples=resamples, seed=trial).p_value,
            _label_permutation_p(a, b, resamples, rng),
        )
        for name, p in zip(names, p_values, strict=True):
            rejected[name] += p is not None and p <= 0.05
    return {name: count / trials for name, count in rejected.items()}


def _loss(scores: GroupScores, resamples: int, seed: int) -> GroupLoss:
    return group_loss(scores.inside, scores.out, resamples=resamples, seed=seed)


def _label_permutation_p(
    a: GroupScores, b: GroupScores, resamples: int, rng: np.random.Generator
) -> float:
    """Exchange the systems' scores of each query at random; the statistic is the difference."""

    def difference(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(second[..., 1] / second[..., 0] - first[..., 1] / first[..., 0])

    swapped = rng.integers(0, 2, size=(resamples, a.queries)).astype(np.float64)
    moved = swapped @ (b.columns - a.columns)
    sums = a.columns.sum(axis=0), b.columns.sum(axis=0)
    drawn = np.abs(difference(sums[0] + moved, sums[1] - moved))
    return (1 + np.count_nonzero(drawn >= abs(difference(*sums)))) / (resamples + 1)


def main() -> int:
    """Print the tables; return 0 if the interval of Rel Loss does what it says."""
    parser = argparse.ArgumentParser(description="Measure coverage of the bootstrap intervals.")
    parser.add_argument("--trials", type=int, default=2000, help="simulated test sets per row")
    parser.add_argument("--resamples", type=int, default=2000, help="bootstrap resamples in each")
    options = parser.parse_args()
    settings = {"trials": options.trials, "resamples": options.resamples}

    print("| queries | seeds | true Rel Loss | " + " | ".join(FIGURES) + " |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    within = True
    for queries, seeds, world in (
        (300, 1, World()),
        (6000, 1, World()),
        (300, 1, World(found=0.3, kept=0.73)),
        (1500, 5, World(seed_spread=0.02)),
        (1500, 5, World(seed_spread=0.2)),
    ):
        held = coverage(world, queries, seeds=seeds, **settings)
        true = world.truth()["rel_loss"]
        cells = " | ".join(f"{held[figure]:.1%}" for figure in FIGURES)
        print(f"| {queries} | {seeds} | {true:.1%} | {cells} |", flush=True)
        within = within and (seeds > 1 or 0.93 <= held["rel_loss"] <= 0.97)

    print("\n| true null hypotheses rejected at 5%, 300 queries | |\n|---|---:|")
    for name, share in false_rejections(300, **settings).items():
        print(f"| {name} | {share:.1%} |")
    print(f"\n{settings}; coverage of Rel Loss within 93 to 97%: {'yes' if within else 'NO'}")
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main())
