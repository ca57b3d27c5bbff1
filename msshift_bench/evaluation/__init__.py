"""From runs to figures: measures, scores, reports, and comparisons of systems.

`evaluate_run_sets` reports on the run sets of a shift, `evaluate_runs` scores single runs. It may
use `data`, `runs`, `stats`, `output`, `plumbing`, `shifts`, `records`, `arrays`, `errors` and
`_version`.
"""

from msshift_bench.evaluation.common_notes import data_notes, policy_notes
from msshift_bench.evaluation.comparing import (
    ComparisonReport,
    compare_run_sets,
    compare_runs,
)
from msshift_bench.evaluation.comparison import Comparison
from msshift_bench.evaluation.delta_tables import delta_notes, delta_table
from msshift_bench.evaluation.drawing import check_plot
from msshift_bench.evaluation.drawn_parts import GridCell, draw_grid, draw_losses
from msshift_bench.evaluation.evaluator import Evaluator, MeasureResult, SystemResult
from msshift_bench.evaluation.extra_test_report import (
    ExtraDrop,
    ExtraFigure,
    ExtraTestReport,
    evaluate_extra_tests,
)
from msshift_bench.evaluation.figures import MEAN, Figure, figures_of
from msshift_bench.evaluation.fitting import (
    check_answers,
    check_distinct,
    check_models,
    check_passages,
    check_sidecars,
    misfits,
)
from msshift_bench.evaluation.loss_tables import FEWEST_IN_SLICE, loss_table, matrix_table, notes
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.parsing import parse_measure
from msshift_bench.evaluation.per_query import read_per_query, system_table
from msshift_bench.evaluation.report_layout import (
    LossRecord,
    MeasureRecord,
    ReportRecord,
    RunRecord,
    SettingsRecord,
    SystemRecord,
)
from msshift_bench.evaluation.results import Note, Result, Section
from msshift_bench.evaluation.run_set_report import Report, evaluate_run_sets
from msshift_bench.evaluation.scored_runs import Cell, ScoredRun
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.single import (
    EvaluatedRuns,
    JudgedQueries,
    RunResult,
    evaluate_run,
    evaluate_runs,
)
from msshift_bench.evaluation.slices import read_labels, slice_scores
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.evaluation.variant_report import evaluate_variants
from msshift_bench.evaluation.variant_tables import (
    CompoundFigure,
    VariantFigure,
    VariantReport,
)

__all__ = [
    "FEWEST_IN_SLICE",
    "GridCell",
    "MeasureResult",
    "SystemResult",
    "draw_grid",
    "draw_losses",
    "slice_scores",
    "Cell",
    "Comparison",
    "ComparisonReport",
    "CompoundFigure",
    "Evaluator",
    "ExtraDrop",
    "ExtraFigure",
    "ExtraTestReport",
    "JudgedQueries",
    "Figure",
    "LossRecord",
    "MEAN",
    "Measure",
    "MeasureRecord",
    "Note",
    "Report",
    "Result",
    "Section",
    "ReportRecord",
    "RunRecord",
    "RunResult",
    "EvaluatedRuns",
    "ScoredRun",
    "Settings",
    "SettingsRecord",
    "SystemRecord",
    "SystemScores",
    "VariantFigure",
    "VariantReport",
    "check_answers",
    "check_distinct",
    "check_models",
    "check_passages",
    "check_plot",
    "check_sidecars",
    "compare_run_sets",
    "compare_runs",
    "data_notes",
    "delta_notes",
    "delta_table",
    "evaluate_extra_tests",
    "evaluate_run",
    "evaluate_run_sets",
    "evaluate_runs",
    "evaluate_variants",
    "figures_of",
    "loss_table",
    "matrix_table",
    "misfits",
    "notes",
    "parse_measure",
    "policy_notes",
    "read_labels",
    "read_per_query",
    "system_table",
]
