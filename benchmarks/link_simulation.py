"""How often do intervals of links hold the truth, and how often is a true null rejected?

Simulates RR@10 scores of systems whose Rel Loss depends on the similarity of groups, and on an
indicator of queries inside the groups, in a known way. Counts over many simulated run sets how
often

- the 95% interval of the slope over groups, and of the mean slope inside groups, holds the truth,
- these tests find a link where there is none,
- the 95% prediction interval holds the loss of one more group,
- a loss of the size of `detectable_loss` is significant, which it should be in 80 of 100 cases.

Run it from the repository's root (fifteen minutes on one core)::

    scripts/bench link_simulation

It exits with 1 if an interval holds the truth in fewer than 93 or more than 97 of 100 cases, a test
rejects a true null in fewer than 3 or more than 7, or the loss that is found in 80 of 100 cases
differs from `detectable_loss` by more than a tenth.

The simulation: a query has a difficulty, and a model's score on it depends on that and on noise of
the model's own; their sum is a standard normal variable, of which the rank of the relevant passage
is made (as in `coverage_simulation`). The model that never saw the group has the chances of all
ranks multiplied by 1 - loss, so that its true Rel Loss is `loss`. A seed moves all scores of a
model, the same on all groups.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage_simulation import RANKS, SHAPE
from msshift_bench.arrays import Floats
from msshift_bench.stats import (
    STAR,
    Claim,
    Estimate,
    Figure,
    Inference,
    Part,
    Slope,
    Uncertainty,
    detectable_loss,
    fit_line,
    infer,
    rel_loss,
    slope_inside_groups,
)

Sides = tuple[Floats, Floats]
"""The mean scores of the in-domain models, and those of the one held out, ``[seeds, queries]``."""

VALUES = np.append(1 / RANKS, 0.0)

FOUND = 0.7
"""P(rank <= 10) of an in-domain model."""
SHARED = 0.8
"""The share of a score's variance that is the query's difficulty."""

SIMILARITIES = np.array([0.263, 0.322, 0.333, 0.369, 0.470])
"""Upstream's weighted Jaccard of the five topics, rounded."""
NEW = 0.40
"""The similarity of the group whose loss is predicted."""


@dataclass(frozen=True)
class Truth:
    """What the losses depend on.

    Attributes:
        slope: over groups, change of Rel Loss per 1 of similarity.
        scatter: standard deviation of the groups' true losses about the line.
        inner: mean slope inside groups, per 1 of the indicator, which is standard normal.
        inner_scatter: standard deviation of the groups' own slopes about `inner`.
        seed_effect: standard deviation of what a seed adds to all scores of one model.
    """

    slope: float = 0.0
    scatter: float = 0.03
    inner: float = 0.0
    inner_scatter: float = 0.02
    seed_effect: float = 0.05


def simulate_group(
    loss: Floats | float, effects: Floats, queries: int, rng: np.random.Generator
) -> Sides:
    """Draw the scores of all models on one group's queries.

    Args:
        loss: the true Rel Loss, of each query or of all.
        effects: what a seed adds to every model's scores, ``[seeds, models]``; the last model is
            the one that never saw the group.
        queries: the number of queries.
        rng: draws.
    """
    from scipy.special import ndtr

    difficulty = rng.standard_normal(queries)
    noise = rng.standard_normal((*effects.shape, queries))
    scores = np.sqrt(SHARED) * difficulty + np.sqrt(1 - SHARED) * noise + effects[..., None]
    chances = ndtr(-scores) / FOUND
    chances[:, -1] /= np.maximum(1 - loss, 1e-9)
    ranked = VALUES[np.searchsorted(SHAPE, chances)]
    return ranked[:, :-1].mean(axis=1), ranked[:, -1]


@dataclass(frozen=True)
class RunSets:
    """One simulated system on a shift, and on one more group.

    Attributes:
        scores: group -> scores.
        indicator: group -> the indicator of its queries.
        another: the scores on the group that is predicted.
    """

    scores: dict[str, Sides]
    indicator: dict[str, Floats]
    another: Sides

    def relative(self) -> dict[str, Floats]:
        """Return group -> losses in units of Avg In, ``[seeds, queries]``."""
        return {
            group: (inside - out) / inside.mean() for group, (inside, out) in self.scores.items()
        }


def simulate(truth: Truth, queries: int, seeds: int, rng: np.random.Generator) -> RunSets:
    """Draw a system: five groups, their models, and one more group with models of its own."""
    groups = len(SIMILARITIES)
    effects = truth.seed_effect * rng.standard_normal((seeds, groups))
    scores, indicator = {}, {}
    for place, similarity in enumerate(SIMILARITIES):
        name = f"C{place}"
        indicator[name] = rng.standard_normal(queries)
        loss = _loss(truth, similarity, rng)
        inner = truth.inner + truth.inner_scatter * rng.standard_normal()
        order = [*(m for m in range(groups) if m != place), place]
        scores[name] = simulate_group(
            loss + inner * indicator[name], effects[:, order], queries, rng
        )
    others = truth.seed_effect * rng.standard_normal((seeds, groups))
    another = simulate_group(_loss(truth, NEW, rng), others, queries, rng)
    return RunSets(scores, indicator, another)


def _loss(truth: Truth, similarity: float, rng: np.random.Generator) -> float:
    centred = similarity - float(SIMILARITIES.mean())
    return 0.15 + truth.slope * centred + truth.scatter * rng.standard_normal()


def loss_of(scores: Sides) -> Estimate:
    """Return the Rel Loss of a group."""
    inside, out = (Estimate.mean(side, "a", "g") for side in scores)
    estimate = rel_loss(inside, out)
    assert estimate is not None
    return estimate


def known(slope: Slope) -> Figure:
    """Return a slope with its interval and its test."""
    (figure,) = infer([Claim(Figure("slope"), slope, ("alone",))], Inference())
    return figure


def holds(figure: Figure, truth: float) -> bool:
    """Return whether the interval of a figure holds the truth."""
    low, high = figure.interval or (truth, truth)
    return low <= truth <= high


def count_links(
    truth: Truth, queries: int, seeds: int, trials: int, seed: int = 0
) -> dict[str, float]:
    """Return the shares of trials in which intervals hold the truth, and tests reject 0.

    Args:
        truth: what the losses depend on.
        queries: test queries per group.
        seeds: seeds per model.
        trials: how many run sets are drawn.
        seed: of the random numbers.
    """
    rng = np.random.default_rng([seed, queries, seeds, round(100 * abs(truth.slope))])
    counts = dict.fromkeys(_COLUMNS, 0)
    for _ in range(trials):
        drawn = simulate(truth, queries, seeds, rng)
        line = fit_line(SIMILARITIES, [loss_of(sides).value for sides in drawn.scores.values()])
        slope = known(line.slope)
        counts["slope held"] += holds(slope, truth.slope)
        counts["slope rejected"] += slope.mark == STAR
        low, high = line.interval(NEW, of_a_group=True)
        counts["prediction held"] += bool(low <= loss_of(drawn.another).value <= high)
        relative = {group: losses.mean(axis=0) for group, losses in drawn.relative().items()}
        inside = slope_inside_groups(relative, drawn.indicator)
        assert inside is not None
        counts["inner held"] += holds(known(inside), truth.inner)
        counts["inner rejected"] += known(inside).mark == STAR
    return {name: count / trials for name, count in counts.items()}


def count_detected(
    queries: int, seeds: int, seed_effect: float, trials: int, seed: int = 0
) -> dict[str, float]:
    """Return the detectable loss, and the loss that tests find in 80 of 100 cases.

    The first is computed from the mean uncertainty of 200 run sets with a loss of 0.1; the second
    is found among losses of 0.8 to 1.2 times that, by interpolation.
    """
    rng = np.random.default_rng([seed, queries, seeds])

    def draw(loss: float) -> tuple[float | None, Uncertainty]:
        effects = seed_effect * rng.standard_normal((seeds, 5))
        scores = simulate_group(loss, effects, queries, rng)
        estimate = loss_of(scores)
        uncertainty = estimate.uncertainty()
        assert uncertainty is not None
        return uncertainty.p_value(estimate.value), uncertainty

    drawn = [draw(0.1)[1] for _ in range(200)]
    queries_part, trained_part = (
        Part(float(np.mean([part.scale**2 for part in parts])) ** 0.5, parts[0].df)
        for parts in ([error.queries for error in drawn], [error.trained for error in drawn])
    )
    noise = float(np.mean([error.noise**2 for error in drawn])) ** 0.5
    typical = Uncertainty(queries_part, trained_part, seeds, noise)
    planned = detectable_loss(typical)
    assert planned is not None
    factors = np.array([0.8, 1.0, 1.2])
    found = np.array(
        [
            np.mean(
                [(p := draw(factor * planned)[0]) is not None and p <= 0.05 for _ in range(trials)]
            )
            for factor in factors
        ]
    )
    simulated = planned * float(np.interp(0.8, np.maximum.accumulate(found), factors))
    return {"planned": planned, "simulated": simulated, "found": float(found[1])}


def main() -> int:
    """Print the tables; return 1 if a share is out of its limits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    arguments = parser.parse_args()
    wrong = 0
    print("| true slope | seeds | seed effect | " + " | ".join(_COLUMNS) + " |")
    for slope, inner in ((0.0, 0.0), (-0.5, -0.05)):
        for seeds, effect in ((1, 0.05), (3, 0.05), (3, 0.2)):
            truth = Truth(slope=slope, inner=inner, seed_effect=effect)
            shares = count_links(truth, 600, seeds, arguments.trials)
            wrong += sum(not 0.93 <= shares[name] <= 0.97 for name in _COLUMNS[:3])
            if not slope:
                wrong += sum(not 0.03 <= shares[name] <= 0.07 for name in _COLUMNS[3:5])
            cells = [f"{100 * shares[name]:.1f}%" for name in _COLUMNS]
            print(f"| {slope} | {seeds} | {effect} | " + " | ".join(cells) + " |", flush=True)
    print("\n| queries | seeds | seed effect | detectable | found in 80% | ratio | found |")
    for queries in (300, 1000):
        for seeds, effect in ((1, 0.0), (2, 0.02), (3, 0.05), (5, 0.05), (5, 0.2)):
            one = count_detected(queries, seeds, effect, arguments.trials // 4)
            ratio = one["planned"] / one["simulated"]
            wrong += not 0.9 <= ratio <= 1.1
            print(
                f"| {queries} | {seeds} | {effect} | {100 * one['planned']:.1f}% | "
                f"{100 * one['simulated']:.1f}% | {ratio:.2f} | {100 * one['found']:.1f}% |",
                flush=True,
            )
    print(f"\n{wrong} figures out of their limits")
    return int(wrong > 0)


_COLUMNS = ("slope held", "inner held", "prediction held", "slope rejected", "inner rejected")

if __name__ == "__main__":
    raise SystemExit(main())
