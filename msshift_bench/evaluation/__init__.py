"""From runs to figures: measures, scores, results, and comparisons of systems.

`OpenedRuns` is the input of every evaluation, and only `score_opened` computes `Scores` from it.
`score_runs` scores single runs, `evaluate_run_sets` computes Avg In, Out and Rel Loss of run sets,
`evaluate_extra_tests` scores them on other queries, and `compare_run_sets` compares systems. These
four return a `Result`. It may use `data`, `runs`, `search`, `stats`, `output`, `plumbing`,
`shifts`, `records`, `arrays`, `errors`, `exclusions`, `libraries`, `words` and `_version`.
"""

from msshift_bench.evaluation.checks import ALLOWANCES, apply_checks, mismatches
from msshift_bench.evaluation.claims import ALL_QUERIES, WHOLE, estimates_of, lead_claims
from msshift_bench.evaluation.evaluating import (
    by_shift,
    compare_run_sets,
    differences_of,
    evaluate_run_sets,
    losses_of,
    system_claims,
)
from msshift_bench.evaluation.extra_tests import evaluate_extra_tests
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.notes import (
    data_caveats,
    data_notes,
    interval_sources,
    policy_notes,
    seen_notes,
    tie_notes,
)
from msshift_bench.evaluation.opening import (
    OpenedRun,
    OpenedRuns,
    OpenedRunSet,
    RunSetsSource,
    open_extra_tests,
    open_run_sets,
    open_runs,
    open_test_set,
    test_set_of_shift,
)
from msshift_bench.evaluation.per_query import read_per_query, scores_table
from msshift_bench.evaluation.results import Note, Result, Section, TableSpec, tabulated
from msshift_bench.evaluation.scores import ScoredRun, Scores, judgements_of
from msshift_bench.evaluation.scoring import Scored, score_opened, score_runs
from msshift_bench.evaluation.settings import (
    LeakedQueries,
    MeasureNames,
    Settings,
    SettingsSource,
    parse_measure,
)
from msshift_bench.evaluation.tables import (
    WITH_ENDS,
    figure_ends,
    figure_text,
    lead_table,
    loss_table,
    matrix_table,
    scale_of,
    show_delta,
)
from msshift_bench.evaluation.trained import (
    EVERYTHING,
    NONE,
    OWN_SPLIT,
    SEEN,
    UNKNOWN,
    UNSEEN,
    GroupState,
    count_trained,
    group_states,
)

__all__ = [
    "count_trained",
    "ALLOWANCES",
    "ALL_QUERIES",
    "EVERYTHING",
    "GroupState",
    "LeakedQueries",
    "Measure",
    "MeasureNames",
    "NONE",
    "Note",
    "OWN_SPLIT",
    "OpenedRuns",
    "OpenedRun",
    "OpenedRunSet",
    "Result",
    "RunSetsSource",
    "SEEN",
    "Scored",
    "ScoredRun",
    "Scores",
    "Section",
    "Settings",
    "SettingsSource",
    "TableSpec",
    "UNKNOWN",
    "UNSEEN",
    "WHOLE",
    "WITH_ENDS",
    "apply_checks",
    "by_shift",
    "compare_run_sets",
    "data_notes",
    "differences_of",
    "estimates_of",
    "evaluate_extra_tests",
    "evaluate_run_sets",
    "group_states",
    "judgements_of",
    "lead_claims",
    "lead_table",
    "figure_ends",
    "figure_text",
    "loss_table",
    "losses_of",
    "matrix_table",
    "mismatches",
    "open_extra_tests",
    "open_run_sets",
    "open_runs",
    "open_test_set",
    "parse_measure",
    "policy_notes",
    "read_per_query",
    "scale_of",
    "score_opened",
    "system_claims",
    "score_runs",
    "seen_notes",
    "data_caveats",
    "scores_table",
    "show_delta",
    "tabulated",
    "test_set_of_shift",
    "tie_notes",
    "interval_sources",
]
