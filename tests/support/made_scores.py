"""Made-up scores, for the tests of statistics and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.evaluation import ScoredRun, Scores
from msshift_bench.runs import FOR_ALL, RunReport
from msshift_bench.shifts import get_shift
from msshift_bench.stats import Estimate

__all__ = ["RR10", "losses", "made_scores", "sides"]

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])
"""The values of RR@10."""


def sides(seed: int, seeds: int, queries: int, loss: float = 0.0) -> tuple[Floats, Floats]:
    """Return drawn scores inside, each a mean over three models, and out, ``[seeds, queries]``."""
    rng = np.random.default_rng(seed)
    inside = rng.choice(RR10, size=(seeds, 3, queries)).mean(axis=1)
    return inside, rng.choice(RR10, size=(seeds, queries)) * (1 - loss)


def losses(
    inside: Floats, out: Floats, sign: int = 1, training: str = "a", sample: str = "short"
) -> dict[str, Estimate | None]:
    """Return Avg In, Out, loss and Rel Loss of scores, ``[seeds, queries]``."""
    avg_in, mean_out = (Estimate.mean(side, training, sample) for side in (inside, out))
    loss = float(sign) * (avg_in - mean_out)
    return {"avg_in": avg_in, "out": mean_out, "loss": loss, "rel_loss": loss / avg_in}


def made_scores(
    system: str,
    groups: Mapping[str, Floats],
    *,
    shift: str = "length",
    seeds: Sequence[int | None] | None = None,
    measure: str = "RR@10",
) -> Scores:
    """Return scores of a system.

    Args:
        system: its name.
        groups: group -> the scores of every model on its queries, ``[seeds, models, queries]``, the
            models in the order of the shift's groups; ``[seeds, queries]`` of one model for all
            groups, or ``[queries]`` of its ranking without seeds.
        shift: the shift.
        seeds: its seeds; by default 1, 2, ..., and `None` for a single one.
        measure: the measure.
    """
    places: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    ids: list[str] = []
    for group, values in groups.items():
        places[group] = len(ids) + np.arange(values.shape[-1])
        ids += [f"{group}-{number}" for number in range(values.shape[-1])]
    together = np.concatenate(list(groups.values()), axis=-1)
    rows = {(FOR_ALL, None): together}
    if together.ndim == 2:
        rows = {(FOR_ALL, seed): row for seed, row in enumerate(together, 1)}
    if together.ndim == 3:
        count = len(together)
        names = seeds or ([None] if count == 1 else range(1, count + 1))
        rows = {
            (model, seed): together[number, place]
            for number, seed in enumerate(names)
            for place, model in enumerate(get_shift(shift).groups)
        }
    flags = np.zeros(len(ids), np.bool_)
    runs = {}
    for (model, seed), row in rows.items():
        scores = {measure: row}
        report = RunReport(f"{model}-{seed}.run")
        runs[model, seed] = ScoredRun(report, flags, flags, scores, scores, scores)
    return Scores(system, get_shift(shift), tuple(ids), places, runs)
