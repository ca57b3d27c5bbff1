"""A mixed model over queries, with the group and the seed as random effects.

    loss[g, s, q] = intercept + slope * x[g, q] + group[g] + seed[s] + noise[g, s, q]

The loss of a query counts in units of the group's Avg In, so that its mean over the queries of a
group is the Rel Loss. The model is fitted by restricted maximum likelihood (Laird and Ware,
Biometrics 38, 1982), by statsmodels.

Its rows are means of blocks of queries that are adjacent in the indicator, 30 per group: means of
blocks carry the same information on slope, groups and seeds as single queries do, and a fit takes
a second rather than minutes. `slope_error` does not know how many groups there are. The test that
takes it for a normal deviate (Wald) is therefore too bold with few groups; t with the number of
groups minus 2 is not. See docs/statistics.md for how often each of them errs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from msshift_bench.analysis.slope_tests import ALIKE
from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import DataError, check_installed

__all__ = ["MixedModel", "check_statsmodels", "fit_mixed_model"]

_BLOCKS = 30


@dataclass(frozen=True, slots=True)
class MixedModel:
    """A fitted mixed model.

    Attributes:
        slope: the change of Rel Loss, a fraction, per 1 of the indicator.
        slope_error: its standard error.
        wald_p: the p-value that takes slope / `slope_error` for normal: too bold with few groups.
        p: the p-value by Student's t with `df` degrees of freedom.
        df: the number of groups minus 2.
        group_deviation: the standard deviation of the groups' random effects.
        seed_deviation: of the seeds' random effects; `None` for a single seed.
        query_deviation: of single queries about the rest of the model.
        queries: how many queries the model is fitted to.
        seeds: the number of seeds.
        converged: whether the likelihood has been maximised.
    """

    slope: float
    slope_error: float
    wald_p: float
    p: float
    df: int
    group_deviation: float
    seed_deviation: float | None
    query_deviation: float
    queries: int
    seeds: int
    converged: bool


def check_statsmodels(what: str) -> None:
    """Check that statsmodels is installed.

    Args:
        what: what needs it, for the message.

    Raises:
        MissingExtraError: if it is not.
    """
    check_installed("statsmodels", "analysis", what)


def fit_mixed_model(
    losses: Mapping[str, Floats], indicator: Mapping[str, Floats]
) -> MixedModel | None:
    """Fit the model by restricted maximum likelihood.

    Args:
        losses: group -> each query's loss in units of the group's Avg In, ``[seeds, queries]``; all
            groups with the same number of seeds.
        indicator: group -> the indicator's values, ``[queries]``.

    Returns:
        The model; `None` if all queries of each group lose the same, which leaves no noise to
        compare an effect with.

    Raises:
        DataError: if there are fewer than 3 groups, or the indicator is the same everywhere.
        MissingExtraError: if statsmodels is not installed.
    """
    check_statsmodels("a mixed model")
    from scipy.special import ndtr, stdtr
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    if len(losses) < 3:
        raise DataError(f"a mixed model takes at least 3 groups, and there are {len(losses)}")
    y, x, group, seed, sizes = _rows(losses, indicator)
    if float(np.ptp(x)) <= 1e-12 * float(np.abs(x).max()):
        raise DataError(
            f"all {len(losses)} groups are equally similar ({x[0]:.4g}), so that nothing can "
            "depend on it; take another indicator, or a shift with other groups"
        )
    if all(float(np.ptp(of_group, axis=1).max()) <= ALIKE for of_group in losses.values()):
        return None
    seeds = int(seed.max()) + 1
    effects = {"group": np.eye(len(losses))[group]}
    if seeds > 1:
        effects["seed"] = np.eye(seeds)[seed]
    names = list(effects)
    columns = [[f"{name}{place}" for place in range(effects[name].shape[1])] for name in names]
    spec = VCSpec(names, [[one] for one in columns], [[effects[name]] for name in names])
    centre, scale = float(x.mean()), float(x.std())
    design = np.column_stack([np.ones(len(x)), (x - centre) / scale])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixedLM(y, design, groups=np.zeros(len(y)), exog_vc=spec)
        found = model.fit(reml=True, method=["powell"])
    slope, error = float(found.fe_params[1]) / scale, float(found.bse_fe[1]) / scale
    t = abs(slope / error) if error else math.inf
    df = len(losses) - 2
    spread = dict(zip(names, np.sqrt(np.maximum(found.vcomp, 0.0)), strict=True))
    return MixedModel(
        slope=slope,
        slope_error=error,
        wald_p=float(2 * ndtr(-t)),
        p=float(2 * stdtr(df, -t)),
        df=df,
        group_deviation=float(spread["group"]),
        seed_deviation=float(spread["seed"]) if seeds > 1 else None,
        query_deviation=math.sqrt(float(found.scale) * sizes),
        queries=sum(values.shape[1] for values in losses.values()),
        seeds=seeds,
        converged=bool(found.converged),
    )


def _rows(
    losses: Mapping[str, Floats], indicator: Mapping[str, Floats]
) -> tuple[Floats, Floats, Ints, Ints, float]:
    """Return losses, indicator, group and seed of every block, and the queries of a block."""
    y, x, group, seed, sizes = [], [], [], [], []
    for place, (name, values) in enumerate(losses.items()):
        order = np.argsort(indicator[name], kind="stable")
        blocks = np.array_split(order, min(_BLOCKS, len(order)))
        sizes += [len(block) for block in blocks]
        for number in range(len(values)):
            y += [values[number, block].mean() for block in blocks]
            x += [indicator[name][block].mean() for block in blocks]
            group += [place] * len(blocks)
            seed += [number] * len(blocks)
    return np.array(y), np.array(x), np.array(group), np.array(seed), float(np.mean(sizes))
