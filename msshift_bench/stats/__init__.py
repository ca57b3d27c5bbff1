"""Statistics of losses: estimates, intervals, p-values and ranks from scores.

An `Estimate` is a figure with the contribution of every query and seed; arithmetic keeps
contributions. `FIGURES` is the table of the kinds of figures. `infer` turns claims, which are
estimates with names, into `Figures` with intervals, p-values and stars. `annotator_agreement` is
Cohen's kappa, `clustered_share` a precision with its interval. `detectable_rel_loss` and
`detectable_loss` compute the smallest loss that a test set, or a plan of queries and seeds, can
show. `fit_line` and `rank_correlation` link the losses of a few groups to an indicator. No function
reads a file. It may use `arrays`, `errors` and `shifts`.
"""

from msshift_bench.stats.estimates import (
    FIXED,
    GROUPS,
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    Estimate,
    Part,
    Uncertainty,
    average,
    rel_loss,
)
from msshift_bench.stats.figures import (
    AVERAGES,
    DAGGER,
    MEAN,
    SIGNIFICANT,
    STAR,
    UNCORRECTED,
    UNTESTED,
    Claim,
    Figure,
    Figures,
    Inference,
    adjust,
    infer,
    rank_ranges,
)
from msshift_bench.stats.kinds import FIGURES, FigureKind, Sides, compute_figures, contrast_of
from msshift_bench.stats.lines import (
    FEWEST_GROUPS,
    RANK_CORRELATIONS,
    Line,
    Slope,
    correlate_ranks,
    fit_line,
    fit_parallel_lines,
    rank_correlation,
    slope_inside_groups,
)
from msshift_bench.stats.planning import (
    ASSUMED_CORRELATION,
    ASSUMED_DEVIATION,
    POWER,
    PUBLISHED_LOSS,
    detectable_loss,
    detectable_rel_loss,
    more_seeds_to_halve,
    queries_to_detect,
)
from msshift_bench.stats.shares import Agreement, annotator_agreement, clustered_share

__all__ = [
    "ASSUMED_CORRELATION",
    "ASSUMED_DEVIATION",
    "AVERAGES",
    "Agreement",
    "Claim",
    "DAGGER",
    "Estimate",
    "FIGURES",
    "FIXED",
    "GROUPS",
    "Figure",
    "FigureKind",
    "Figures",
    "FEWEST_GROUPS",
    "Line",
    "RANK_CORRELATIONS",
    "Slope",
    "correlate_ranks",
    "fit_line",
    "fit_parallel_lines",
    "rank_correlation",
    "slope_inside_groups",
    "Inference",
    "MEAN",
    "POWER",
    "PUBLISHED_LOSS",
    "Part",
    "QUERIES_AND_SEEDS",
    "QUERIES_ONLY",
    "SIGNIFICANT",
    "STAR",
    "Sides",
    "UNCORRECTED",
    "UNTESTED",
    "Uncertainty",
    "adjust",
    "annotator_agreement",
    "average",
    "clustered_share",
    "compute_figures",
    "contrast_of",
    "detectable_loss",
    "detectable_rel_loss",
    "infer",
    "more_seeds_to_halve",
    "queries_to_detect",
    "rank_ranges",
    "rel_loss",
]
