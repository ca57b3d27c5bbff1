"""How often does anything get a star where nothing is lost, and which test of seeds finds most?

Five simulations, each with fixed random seeds, for docs/statistics.md::

    scripts/bench star_simulation [--part tables|floor|candidates|links|weak]

- ``tables``: four systems on five groups, none of which loses anything: the share of tables with a
  star among the groups, and among the means. RR@10 is drawn as `coverage_simulation` draws it.
- ``floor``: two seeds that agree by luck: how often the sum of two t's alone would be narrower than
  with the models fixed, and how often intervals hold the truth, overall and at the floor.
- ``candidates``: three ways to count seeds: the sum of two t's, Satterthwaite's degrees of freedom,
  and variances that groups learn from each other (Smyth 2004), each with the floor.
- ``links``: the share of `leakage experiment`'s tables with a star, and of calls of `analyse` with
  a verdict, where everything is unrelated.
- ``weak``: how often intervals hold the truth where few queries score, or seeds differ by much; the
  notes of `evaluate` warn of that.

The rates of ``tables`` and ``links`` must be at most 7% at the upper end of their 95% interval, and
coverage in ``floor`` at least 93%; the script exits with 1 if they are not.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import digamma, expit, polygamma, stdtr, stdtrit
from scipy.stats import binomtest

from benchmarks.coverage_simulation import World, rel_losses, simulate
from msshift_bench.analysis import find_links, link_losses
from msshift_bench.arrays import Floats
from msshift_bench.leakage.experiment import (
    LEAKAGE_KINDS,
    RerankedTopic,
    TrainingPair,
    leakage_experiment,
)
from msshift_bench.stats import (
    MEAN,
    STAR,
    Claim,
    Estimate,
    Figure,
    Inference,
    Part,
    Uncertainty,
    average,
    infer,
    rel_loss,
)

MOST = 0.07
"""The highest rate of tables with a star where nothing is lost, at its upper 95% end."""

QUERIES_SD, NOISE_SD = 0.4, 0.5
"""Standard deviations of a query's loss, in units of Avg In: its own, and noise."""

CANDIDATES = ("two t's", "Satterthwaite", "shared")
FORMS = ("equal", "one thrice", "skewed")

Rate = tuple[int, int]
"""How many of how many."""


def show(rate: Rate) -> str:
    """Return a rate with the upper end of its 95% interval."""
    return f"{rate[0] / rate[1]:.1%} ({upper_end(rate):.1%})"


def upper_end(rate: Rate) -> float:
    """Return the upper end of a rate's 95% interval, after Clopper and Pearson."""
    return float(binomtest(*rate).proportion_ci(0.95).high)


def null_tables(seeds: int, effect: float, trials: int) -> tuple[Rate, Rate]:
    """Return in how many tables a group has a star, and a mean, where no system loses anything."""
    worlds = [World(found, 1.0, seed_effect=effect) for found in (0.7, 0.6, 0.5, 0.4)]
    rng = np.random.default_rng([seeds, round(100 * effect)])
    starred = {"groups": 0, MEAN: 0}
    for _ in range(trials):
        claims = []
        for name, system in enumerate(simulate(worlds, 5, 600, seeds, rng)):
            losses = [
                rel_losses({group: scores}, str(name))["group"] for group, scores in system.items()
            ]
            claims += [Claim(Figure("groups"), loss, ("groups",)) for loss in losses]
            claims.append(Claim(Figure(MEAN), average(losses), (MEAN,)))
        figures = infer(claims, Inference())
        for name in starred:
            starred[name] += any(row.mark == STAR for row in figures.where(figure=name))
    return (starred["groups"], trials), (starred[MEAN], trials)


def floor(seed_sd: float, trials: int) -> dict[str, Rate]:
    """Return how often the floor is needed by two seeds, and how often intervals hold the truth."""
    rng = np.random.default_rng([2, round(1000 * seed_sd)])
    held, at_floor, held_there = 0, 0, 0
    for _ in range(trials):
        scores = QUERIES_SD * rng.standard_normal(600) + NOISE_SD * rng.standard_normal((2, 600))
        scores += seed_sd * rng.standard_normal((2, 1))
        estimate = Estimate.mean(scores, "system", "queries")
        known = estimate.uncertainty()
        assert known is not None
        low, high = known.interval(estimate.value, 0.95)
        is_at_floor = replace(known, noise=0.0).half_width(0.95) < known.half_width(0.95)
        held += low <= 0 <= high
        at_floor += is_at_floor
        held_there += is_at_floor and low <= 0 <= high
    return {"floor": (at_floor, trials), "held": (held, trials), "there": (held_there, at_floor)}


# The candidates are compared on the sufficient statistics, all tables at once.


class Drawn:
    """Estimates and mean squares of tables, ``[tables, systems, groups]``, whose truth is 0.

    Attributes:
        estimate: the losses.
        queries, seeds, fixed: what queries and seeds add to the variance, and the floor's.
        query_df, seed_df: their degrees of freedom.
    """

    def __init__(self, seeds: int, groups: int, form: str, seed_sd: float, trials: int) -> None:
        key = [seeds, groups, FORMS.index(form), round(1000 * seed_sd)]
        rng, queries = np.random.default_rng(key), 6200
        shape = (trials, 4, groups, seeds)
        drawn = rng.exponential(1, shape) - 1 if form == "skewed" else rng.standard_normal(shape)
        if form == "one thrice":
            drawn[:, :, 0] *= 3
        of_seeds = seed_sd * drawn + NOISE_SD / queries**0.5 * rng.standard_normal(shape)
        own = QUERIES_SD / queries**0.5 * rng.standard_normal(shape[:-1])
        self.estimate = of_seeds.mean(axis=-1) + own
        self.seeds, self.seed_df = of_seeds.var(axis=-1, ddof=1) / seeds, seeds - 1.0
        noise_df = (seeds - 1) * (queries - 1)
        noise = NOISE_SD**2 * rng.chisquare(noise_df, shape[:-1]) / noise_df
        total = seeds * QUERIES_SD**2 + NOISE_SD**2
        self.query_df = queries - 1.0
        squares = total * rng.chisquare(self.query_df, shape[:-1]) / self.query_df
        self.fixed = squares / (seeds * queries)
        self.queries = np.maximum(squares - noise, 0) / (seeds * queries)

    def p_values(self, candidate: str, loss: float = 0.0) -> Floats:
        """Return two-sided p-values of "nothing is lost", in the shape of the estimates."""
        distance = np.abs(self.estimate + loss)
        at_least = 2 * stdtr(self.query_df, -distance / np.sqrt(self.fixed))
        variance, df = self.seeds, np.full_like(self.seeds, self.seed_df)
        if candidate == "Satterthwaite":
            both = self.queries + variance
            df = both**2 / (self.queries**2 / self.query_df + variance**2 / df)
            return np.maximum(at_least, 2 * stdtr(df, -distance / np.sqrt(both)))
        if candidate == "shared":
            variance, df = squeezed(variance, self.seed_df)
        scales = np.sqrt(self.queries), np.sqrt(variance)
        return np.maximum(at_least, two_ts(distance, scales, (self.query_df, df)))


def squeezed(variances: Floats, df: float) -> tuple[Floats, Floats]:
    """Return variances that the groups of a system learn from each other, and their df.

    Source: Smyth, "Linear models and empirical Bayes methods", Statistical Applications in Genetics
    and Molecular Biology 3, 2004, section 6.2.
    """
    logs = np.log(variances) - digamma(df / 2) + np.log(df / 2)
    mean = logs.mean(axis=-1, keepdims=True)
    excess = logs.var(axis=-1, ddof=1, keepdims=True) - polygamma(1, df / 2)
    target = np.maximum(excess, 1e-6)
    half = 0.5 + 1 / target
    for _ in range(30):
        slope = polygamma(1, half)
        half = half + slope * (1 - slope / target) / polygamma(2, half)
    prior_df = np.where(excess > 0, 2 * half, 1e6)
    prior = np.exp(mean + digamma(prior_df / 2) - np.log(prior_df / 2))
    return (prior_df * prior + df * variances) / (prior_df + df), prior_df + df + 0 * variances


def two_ts(distance: Floats, scales: Sequence[Floats], dfs: Sequence[Any]) -> Floats:
    """Return what `stats.estimates.two_sided_p` does, for many sums at once."""
    alone = [
        2 * stdtr(df, -distance / np.maximum(scale, 1e-300))
        for scale, df in zip(scales, dfs, strict=True)
    ]
    is_second = alone[1] > alone[0]
    wide = [np.where(is_second, pair[1], pair[0]) for pair in (scales, dfs)]
    narrow = [np.where(is_second, pair[0], pair[1]) for pair in (scales, dfs)]
    steps = np.arange(-4 * 32, 1) / 32
    chances = expit(np.pi * np.sinh(steps))
    weights = np.pi * np.cosh(steps) * chances * (1 - chances) / 32
    weights[-1] /= 2
    p = np.zeros_like(distance)
    for chance, weight in zip(chances, weights, strict=True):
        moved = narrow[0] * stdtrit(narrow[1], chance)
        p += 2 * weight * stdtr(wide[1], (-distance + moved) / wide[0])
        p += 2 * weight * stdtr(wide[1], (-distance - moved) / wide[0])
    return np.minimum(p, 1)


def check_p_values() -> None:
    """Raise if the p-values of the simulation are not those of `msshift_bench.stats`."""
    drawn = Drawn(3, 5, "equal", 0.005, 5)
    places = np.ndindex(drawn.estimate.shape)
    for place, p in zip(places, drawn.p_values("two t's").flat, strict=True):
        queries = Part(float(drawn.queries[place]) ** 0.5, drawn.query_df)
        trained = Part(float(drawn.seeds[place]) ** 0.5, drawn.seed_df)
        noise = float(max(0.0, drawn.fixed[place] - drawn.queries[place])) ** 0.5
        known = Uncertainty(queries, trained, 3, noise)
        expected = known.p_value(float(drawn.estimate[place])) or 0.0
        if abs(p - expected) > 1e-6:
            raise ValueError(f"p is {p} here, and {expected} in msshift_bench.stats")


def candidates(seeds: int, seed_sd: float, trials: int) -> list[str]:
    """Return for each candidate its lowest coverage, highest rate of null tables, and power."""
    cells = []
    for candidate in CANDIDATES:
        held, starred = [], []
        for groups in (2, 3, 5):
            for form in FORMS:
                drawn = Drawn(seeds, groups, form, seed_sd, trials)
                p = drawn.p_values(candidate)
                held.append(float((p > 0.05).mean(axis=(0, 1)).min()))
                smallest = p.reshape(trials, -1).min(axis=1)
                starred.append(float((smallest <= 0.05 / p[0].size).mean()))
                if (groups, form) == (5, "equal"):
                    power = float((drawn.p_values(candidate, 0.083) <= 0.05 / p[0].size).mean())
        cells += [f"{min(held):.1%}", f"{max(starred):.1%}", f"{power:.0%}"]
    return cells


def null_experiment(seeds: int, trials: int) -> Rate:
    """Return in how many tables of `leakage_experiment` a difference has a star by chance.

    Models differ by their training alone, with leakage as without: 40 topics, 10 passages each.
    """
    rng, names, tables = np.random.default_rng([3, seeds]), ("one", "two"), 0
    doc_ids = tuple(f"d{number}" for number in range(10))
    topics = [
        RerankedTopic(f"topic {number}", "words", {"d0": 1, "d1": 1}, doc_ids, 10, 10)
        for number in range(40)
    ]
    pair = TrainingPair("query", "words", "d0", "d9", "topic 0")
    leaks = {kind: [pair] for kind in LEAKAGE_KINDS[1:]}
    facts = {
        "systems": names, "sizes": (8,), "leaked": 1, "seeds": tuple(range(seeds)), "depth": 10,
        "topics": 40, "epochs": 1, "leaking_pairs": 1, "planted_pairs": 0, "test_pairs": 1,
        "judged_not_relevant": 1,
    }  # fmt: skip
    starred = 0
    for _ in range(trials):
        easy = rng.standard_normal((40, 10))
        scores = {}
        for system in names:
            for kind in LEAKAGE_KINDS:
                for seed in range(seeds):
                    strength = 1 + 0.3 * rng.standard_normal()
                    drawn = easy + rng.standard_normal((40, 10))
                    drawn[:, :2] += strength
                    scores[system, kind, 8, seed] = list(drawn)
        figures = leakage_experiment(scores, topics, leaks, facts).figures
        for _, of_measure in figures.where(figure="difference", slice="all topics").each("measure"):
            tables += 1
            starred += any(row.mark == STAR for row in of_measure)
    return starred, tables


def null_analysis(trials: int) -> Rate:
    """Return in how many calls of `link_losses` a verdict finds a link between unrelated numbers.

    Two systems lose on three question words and two lengths; each of three indicators has a link on
    the words, and one over both shifts.
    """
    rng, found = np.random.default_rng(4), 0
    shifts = {"wh-words": ("wha", "how", "who"), "length": ("short", "long")}
    for _ in range(trials):
        rows = []
        for shift, groups in shifts.items():
            for group in groups:
                named = Figure("rel_loss", shift=shift, group=group, measure="RR@10", seeds=1)
                rows += [
                    named._replace(system=system, value=float(rng.normal(0.1, 0.05)))
                    for system in ("one", "two")
                ]
                near = Figure("similarity", shift=shift, group=group, slice="test")
                rows += [
                    near._replace(against=indicator, value=float(rng.uniform()))
                    for indicator in ("weighted-jaccard", "unseen-words", "overlap")
                ]
        figures = link_losses(rows).figures
        found += any(link.verdict(figures).mark for link in find_links(figures))
    return found, trials


def weak(world: World, queries: int, seeds: int, trials: int) -> tuple[float, float, Rate]:
    """Return Avg In, the mean sd of seeds of a Rel Loss, and how often its interval is right."""
    rng = np.random.default_rng([5, queries, seeds, round(100 * world.found)])
    truth, held, spread, defined = world.truth(), 0, 0.0, 0
    for _ in range(trials):
        (system,) = simulate([world], 2, queries, seeds, rng)
        inside, out = (Estimate.mean(side, "a", "C0") for side in system["C0"])
        loss = rel_loss(inside, out)
        known = None if loss is None else loss.uncertainty()
        if loss is not None and known is not None:
            low, high = known.interval(loss.value, 0.95)
            held += low <= truth["rel_loss"] <= high
            spread += known.trained.scale * known.seeds**0.5
            defined += 1
    return truth["avg_in"], spread / defined, (held, defined)


def report_tables(trials: int, run: Callable[..., Iterator[Any]]) -> bool:
    """Print the rates of null tables; return whether they are low enough."""
    print("| seeds | seed effect | a star among groups | a star among means |")
    print("|---:|---:|---:|---:|")
    rows = [(seeds, effect) for seeds in (2, 3) for effect in (0.0, 0.05, 0.2)]
    is_sound = True
    for (seeds, effect), rates in zip(rows, run(null_tables, rows, trials), strict=True):
        print(f"| {seeds} | {effect} | {' | '.join(map(show, rates))} |", flush=True)
        is_sound = is_sound and max(map(upper_end, rates)) <= MOST
    return is_sound


def report_floor(trials: int, run: Callable[..., Iterator[Any]]) -> bool:
    """Print what the floor does; return whether intervals hold the truth often enough."""
    print("\n| seeds' sd | at the floor | truth held | held at the floor |")
    print("|---:|---:|---:|---:|")
    rows = [(0.0,), (0.02,), (0.05,)]
    is_sound = True
    for (seed_sd,), rates in zip(rows, run(floor, rows, trials), strict=True):
        shares = [f"{count / of:.1%}" for count, of in rates.values()]
        print(f"| {seed_sd} | {' | '.join(shares)} |", flush=True)
        is_sound = is_sound and rates["held"][0] / trials >= 0.93
    return is_sound


def report_candidates(trials: int, run: Callable[..., Iterator[Any]]) -> bool:
    """Print the table of candidates."""
    check_p_values()
    heads = [
        f"{name}: {figure}" for name in CANDIDATES for figure in ("held", "null tables", "found")
    ]
    print(f"\n| seeds | seeds' sd | {' | '.join(heads)} |")
    print(f"|---:|---:|{'---:|' * len(heads)}")
    rows = [(seeds, sd) for seeds in (2, 3, 5) for sd in (0.001, 0.005, 0.02)]
    for (seeds, sd), cells in zip(rows, run(candidates, rows, trials), strict=True):
        print(f"| {seeds} | {sd} | {' | '.join(cells)} |", flush=True)
    return True


def report_links(trials: int, run: Callable[..., Iterator[Any]]) -> bool:
    """Print how often unrelated numbers are linked, and leakage that does nothing is found."""
    print("\n| what is unrelated | a star or a verdict |")
    print("|---|---:|")
    rows = [(2,), (3,)]
    is_sound = True
    for (seeds,), rate in zip(rows, run(null_experiment, rows, trials // 3), strict=True):
        print(f"| leakage experiment, {seeds} seeds | {show(rate)} |", flush=True)
        is_sound = is_sound and upper_end(rate) <= MOST
    (rate,) = run(null_analysis, [()], trials)
    print(f"| analyse, three indicators | {show(rate)} |", flush=True)
    return is_sound and upper_end(rate) <= MOST


def report_weak(trials: int, run: Callable[..., Iterator[Any]]) -> bool:
    """Print how often weak intervals hold the truth."""
    print("\n| Avg In | queries | queries x Avg In | Rel Loss | held |\n|---:|---:|---:|---:|---:|")
    rows: list[tuple[Any, ...]] = [
        (World(found, kept), queries, 1)
        for found in (0.17, 0.3, 0.5)
        for queries in (20, 60)
        for kept in (0.9, 0.6)
    ]
    for (world, queries, _), (avg_in, _, rate) in zip(rows, run(weak, rows, trials), strict=True):
        cells = f"{avg_in:.2f}", queries, f"{queries * avg_in:.1f}", f"{1 - world.kept:.0%}"
        print(f"| {' | '.join(map(str, cells))} | {rate[0] / rate[1]:.1%} |", flush=True)
    print("\n| seeds | sd of seeds of Rel Loss | held |\n|---:|---:|---:|")
    rows = [
        (World(0.5, 0.9, seed_effect=effect, held_out_factor=factor), 600, seeds)
        for seeds in (2, 3, 5)
        for effect, factor in ((0.3, 1.0), (0.6, 1.0), (0.5, 3.0))
    ]
    for (_, _, seeds), (_, spread, rate) in zip(rows, run(weak, rows, trials), strict=True):
        print(f"| {seeds} | {spread:.0%} | {rate[0] / rate[1]:.1%} |", flush=True)
    return True


PARTS = {
    "tables": report_tables,
    "floor": report_floor,
    "candidates": report_candidates,
    "links": report_links,
    "weak": report_weak,
}


def _call(work: tuple[Callable[..., Any], tuple[Any, ...], int]) -> Any:
    function, row, trials = work
    return function(*row, trials)


def _run(
    pool: Any, function: Callable[..., Any], rows: Sequence[tuple[Any, ...]], trials: int
) -> Iterator[Any]:
    results: Iterator[Any] = pool.imap(_call, [(function, row, trials) for row in rows])
    return results


def main() -> int:
    """Print the tables; return 0 if rates and coverage meet their targets."""
    parser = argparse.ArgumentParser(description="Measure how often a star stands by chance.")
    parser.add_argument("--trials", type=int, default=4000, help="simulated tables per row")
    parser.add_argument("--part", choices=PARTS, help="one of the simulations; by default all")
    parser.add_argument("--processes", type=int, default=1, help="rows computed at once")
    options = parser.parse_args()
    chosen = [options.part] if options.part else list(PARTS)
    with multiprocessing.Pool(options.processes) as pool:
        sound = [PARTS[part](options.trials, partial(_run, pool)) for part in chosen]
    print(f"\n{options.trials} tables a row; within the targets: {all(sound)}")
    return 0 if all(sound) else 1


if __name__ == "__main__":
    raise SystemExit(main())
