"""Why systems lose: links between losses and similarity, with how sure they are, and predictions.

`analyse_run_sets` evaluates run sets and links what they lose to the similarity of the groups;
`analyse_report` does so for a report. An `Analysis` holds every figure. `predict_losses` applies a
link to new queries. `link_losses` links any losses to any similarities. `load_published` returns
the papers' own tables as numbers, which `analyse_published` and `align_published` link. It may use
`evaluation`, `similarity`, `stats`, `data`, `output`, `plumbing`, `schema`, `shifts`, `arrays` and
`errors`.
"""

from msshift_bench.analysis.alignment import Alignment, PrintedAlignment, align_scores
from msshift_bench.analysis.alignment_tables import alignment_panels
from msshift_bench.analysis.analysed import Analysis
from msshift_bench.analysis.analysing import analyse_report, analyse_run_sets
from msshift_bench.analysis.binned_losses import BinnedLosses, BoxPlot, Distribution, LossBin
from msshift_bench.analysis.decomposing import LossByWords, LossShare
from msshift_bench.analysis.dependent_correlations import (
    CorrelationDifference,
    OutsideAlignment,
    compare_correlations,
    fieller_interval,
)
from msshift_bench.analysis.group_links import (
    MEAN_OF_SYSTEMS,
    GroupLink,
    LinkVerdict,
    LossPoint,
    SystemLink,
    link_losses,
)
from msshift_bench.analysis.line_fits import FittedLine, LineBand, fit_line
from msshift_bench.analysis.link_tables import Panel, analysis_panels, prediction_panel
from msshift_bench.analysis.mixed_models import MixedModel, fit_mixed_model
from msshift_bench.analysis.model_scores import ModelScores, read_model_scores
from msshift_bench.analysis.paper_tables import (
    align_published,
    analyse_published,
    load_published,
    published_tables,
)
from msshift_bench.analysis.plans import DetectableLoss
from msshift_bench.analysis.predicting import (
    ForetoldLoss,
    Prediction,
    predict_losses,
    read_links,
)
from msshift_bench.analysis.query_links import QueryLink, what_bands_count
from msshift_bench.analysis.rank_correlations import RANK_CORRELATIONS, RankCorrelation
from msshift_bench.analysis.slope_tests import SlopeTest, slope_test

__all__ = [
    "align_published",
    "analyse_published",
    "load_published",
    "published_tables",
    "Alignment",
    "Analysis",
    "BinnedLosses",
    "BoxPlot",
    "CorrelationDifference",
    "DetectableLoss",
    "Distribution",
    "FittedLine",
    "ForetoldLoss",
    "GroupLink",
    "LineBand",
    "LinkVerdict",
    "LossBin",
    "LossByWords",
    "LossPoint",
    "LossShare",
    "MEAN_OF_SYSTEMS",
    "MixedModel",
    "ModelScores",
    "OutsideAlignment",
    "Panel",
    "Prediction",
    "PrintedAlignment",
    "QueryLink",
    "RANK_CORRELATIONS",
    "RankCorrelation",
    "SlopeTest",
    "SystemLink",
    "align_scores",
    "alignment_panels",
    "analyse_report",
    "analyse_run_sets",
    "analysis_panels",
    "compare_correlations",
    "fieller_interval",
    "fit_line",
    "fit_mixed_model",
    "link_losses",
    "predict_losses",
    "prediction_panel",
    "read_links",
    "read_model_scores",
    "slope_test",
    "what_bands_count",
]
