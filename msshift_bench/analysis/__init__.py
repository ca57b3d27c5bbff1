"""Why systems lose: links between losses and similarity, with how sure they are, and predictions.

An `Analysis` holds every figure; `link_losses` computes the link of any losses with any
similarities. It may use `stats`, `data`, `output`, `arrays` and `errors`.
"""

from msshift_bench.analysis.analysed import Analysis
from msshift_bench.analysis.binned_losses import BinnedLosses, BoxPlot, Distribution, LossBin
from msshift_bench.analysis.decomposing import LossByWords, LossShare
from msshift_bench.analysis.group_links import (
    MEAN_OF_SYSTEMS,
    GroupLink,
    LinkVerdict,
    LossPoint,
    SystemLink,
    link_losses,
)
from msshift_bench.analysis.line_fits import FittedLine, LineBand, fit_line
from msshift_bench.analysis.mixed_models import MixedModel, fit_mixed_model
from msshift_bench.analysis.plans import DetectableLoss
from msshift_bench.analysis.query_links import QueryLink
from msshift_bench.analysis.rank_correlations import RankCorrelation
from msshift_bench.analysis.slope_tests import SlopeTest, slope_test

__all__ = [
    "Analysis",
    "BinnedLosses",
    "BoxPlot",
    "DetectableLoss",
    "Distribution",
    "FittedLine",
    "GroupLink",
    "LineBand",
    "LossBin",
    "LossShare",
    "LossByWords",
    "LossPoint",
    "MEAN_OF_SYSTEMS",
    "MixedModel",
    "QueryLink",
    "RankCorrelation",
    "SlopeTest",
    "SystemLink",
    "LinkVerdict",
    "fit_line",
    "fit_mixed_model",
    "link_losses",
    "slope_test",
]
