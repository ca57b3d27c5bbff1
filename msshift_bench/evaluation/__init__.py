"""From runs to figures: measures, scores, results, and comparisons of systems.

`score_runs` scores single runs, `evaluate_run_sets` computes Avg In, Out and Rel Loss of run sets,
`evaluate_also_tests` scores them on other queries, and `compare_run_sets` compares systems. Each
returns a `Result`. It may use `data`, `runs`, `search`, `stats`, `output`, `plumbing`, `shifts`,
`records`, `arrays`, `errors` and `_version`.
"""

from msshift_bench.evaluation.also_tests import evaluate_also_tests
from msshift_bench.evaluation.checks import ALLOWANCES, Checks, count_trained
from msshift_bench.evaluation.claims import ALL_QUERIES, WHOLE, LeftOut, estimates_of, loss_claims
from msshift_bench.evaluation.evaluating import (
    by_shift,
    compare_run_sets,
    differences_of,
    evaluate_run_sets,
    losses_of,
    read_labels,
    read_scores,
    score_run_sets,
    system_claims,
)
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.notes import data_notes, policy_notes, tie_notes, what_counts
from msshift_bench.evaluation.per_query import read_per_query, scores_table
from msshift_bench.evaluation.results import Note, Result, Section, TableSpec, tabulated
from msshift_bench.evaluation.scores import ScoredRun, Scores, judgements_of, slice_scores
from msshift_bench.evaluation.scoring import open_test_set, score_files, score_runs
from msshift_bench.evaluation.settings import MeasureNames, Settings, SettingsSource, parse_measure
from msshift_bench.evaluation.tables import (
    FEWEST_IN_SLICE,
    WITH_ENDS,
    figure_ends,
    figure_text,
    loss_table,
    matrix_table,
    show_delta,
)

__all__ = [
    "count_trained",
    "ALLOWANCES",
    "ALL_QUERIES",
    "Checks",
    "FEWEST_IN_SLICE",
    "LeftOut",
    "Measure",
    "MeasureNames",
    "Note",
    "Result",
    "ScoredRun",
    "Scores",
    "Section",
    "Settings",
    "SettingsSource",
    "TableSpec",
    "WHOLE",
    "WITH_ENDS",
    "by_shift",
    "compare_run_sets",
    "data_notes",
    "differences_of",
    "estimates_of",
    "evaluate_also_tests",
    "evaluate_run_sets",
    "judgements_of",
    "figure_ends",
    "figure_text",
    "loss_claims",
    "loss_table",
    "losses_of",
    "matrix_table",
    "open_test_set",
    "parse_measure",
    "policy_notes",
    "read_labels",
    "read_per_query",
    "read_scores",
    "score_files",
    "score_run_sets",
    "system_claims",
    "score_runs",
    "scores_table",
    "show_delta",
    "tabulated",
    "tie_notes",
    "what_counts",
    "slice_scores",
]
