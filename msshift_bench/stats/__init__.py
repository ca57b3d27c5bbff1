"""The statistics of losses: from scores of queries and seeds to intervals, p-values and ranks.

`shift_loss` computes Avg In, Out and Rel Loss with intervals and p-values, `group_loss` those of
one group; `compound_losses` says what changing the queries adds, `kept_differences` what leaving
some out changes; `compare_systems` compares systems; `annotator_agreement` is Cohen's kappa,
`clustered_share` a precision with its interval; `detectable_rel_loss` says what a test set can
show, and `detectable_loss` what a plan of queries and seeds can; `fit_line` and `rank_correlation`
link the losses of a handful of groups to something else. Nothing here reads a file. It may
use `arrays` and `errors`.
"""

from msshift_bench.stats.agreement import Agreement, annotator_agreement
from msshift_bench.stats.changed_queries import ON_AVERAGE, CompoundLoss, compound_losses
from msshift_bench.stats.clustered_shares import ClusteredShare, clustered_share
from msshift_bench.stats.differences import (
    COMPARED_FIGURES,
    ComparedSystems,
    Difference,
    RankedSystem,
    ScoresByGroup,
    SystemPair,
    compare_systems,
)
from msshift_bench.stats.estimates import FIXED, GROUPS, Estimate, average, rel_loss
from msshift_bench.stats.figures import MEAN, Claim, Figure, Figures, infer
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import AVERAGES, SEED_VARIANCES, Inference
from msshift_bench.stats.kept_queries import KeptDifference, kept_differences
from msshift_bench.stats.lines import (
    FEWEST_GROUPS,
    RANK_CORRELATIONS,
    Line,
    RankCorrelation,
    Slope,
    correlate_ranks,
    fit_line,
    fit_parallel_lines,
    rank_correlation,
    slope_inside_groups,
)
from msshift_bench.stats.losses import (
    GroupLoss,
    OverallLoss,
    ShiftLoss,
    group_loss,
    shift_loss,
)
from msshift_bench.stats.planning import detectable_loss
from msshift_bench.stats.power import (
    ASSUMED_CORRELATION,
    ASSUMED_DEVIATION,
    POWER,
    PUBLISHED_LOSS,
    detectable_rel_loss,
    queries_to_detect,
)
from msshift_bench.stats.significance import SIGNIFICANT, adjust, paired_tests
from msshift_bench.stats.uncertainty import (
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    Contributions,
    Interval,
    Uncertainty,
)

__all__ = [
    "ASSUMED_CORRELATION",
    "ASSUMED_DEVIATION",
    "POWER",
    "PUBLISHED_LOSS",
    "detectable_loss",
    "detectable_rel_loss",
    "queries_to_detect",
    "AVERAGES",
    "Claim",
    "Estimate",
    "FIXED",
    "GROUPS",
    "Figure",
    "Figures",
    "MEAN",
    "average",
    "infer",
    "rel_loss",
    "FEWEST_GROUPS",
    "Line",
    "RANK_CORRELATIONS",
    "RankCorrelation",
    "Slope",
    "correlate_ranks",
    "fit_line",
    "fit_parallel_lines",
    "rank_correlation",
    "slope_inside_groups",
    "Agreement",
    "annotator_agreement",
    "COMPARED_FIGURES",
    "ClusteredShare",
    "clustered_share",
    "ON_AVERAGE",
    "CompoundLoss",
    "Contributions",
    "GroupLoss",
    "GroupScores",
    "Inference",
    "Interval",
    "KeptDifference",
    "kept_differences",
    "paired_tests",
    "Difference",
    "OverallLoss",
    "QUERIES_AND_SEEDS",
    "QUERIES_ONLY",
    "RankedSystem",
    "SEED_VARIANCES",
    "SIGNIFICANT",
    "ScoresByGroup",
    "SystemPair",
    "ShiftLoss",
    "ComparedSystems",
    "Uncertainty",
    "adjust",
    "compare_systems",
    "compound_losses",
    "group_loss",
    "shift_loss",
]
