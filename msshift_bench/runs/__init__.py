"""Run files, qrels, and the folders of run sets: what retrieval writes and evaluation reads.

`judge_run` checks a run and keeps the lines that measures need. `read_run` returns a run as a
mapping, `write_run` writes one, and `find_run_sets` finds run sets. It may use `plumbing`,
`shifts`, `records`, `arrays` and `errors`.
"""

from msshift_bench.runs.findings import CODES, WARNINGS
from msshift_bench.runs.formats import RUN_FORMATS
from msshift_bench.runs.json_runs import MTEB_META
from msshift_bench.runs.judged import (
    TIE_POLICIES,
    JudgedRun,
    Judgements,
    RankingDigests,
    RunReport,
    check_tie_policy,
    read_qrels,
)
from msshift_bench.runs.predictions import task_name
from msshift_bench.runs.reader import (
    OpenedParts,
    RunSource,
    RunValidation,
    judge_run,
    predicted_run,
    read_run,
    run_sources,
    validate_run,
)
from msshift_bench.runs.runsets import (
    FOR_ALL,
    Listing,
    Model,
    RunSet,
    are_per_group,
    check_layout,
    extra_runs_path,
    find_run_sets,
    model_path,
    run_path,
    seed_folder,
    sidecar_path,
)
from msshift_bench.runs.sidecars import Sidecar, low_recall
from msshift_bench.runs.sources import RunFormat, is_table, table_rows
from msshift_bench.runs.writing import RankedRun, write_run

__all__ = [
    "CODES",
    "FOR_ALL",
    "Listing",
    "MTEB_META",
    "Model",
    "RUN_FORMATS",
    "RunFormat",
    "RunValidation",
    "JudgedRun",
    "Judgements",
    "OpenedParts",
    "RankedRun",
    "RankingDigests",
    "RunReport",
    "RunSet",
    "RunSource",
    "Sidecar",
    "TIE_POLICIES",
    "WARNINGS",
    "are_per_group",
    "check_layout",
    "check_tie_policy",
    "extra_runs_path",
    "find_run_sets",
    "is_table",
    "judge_run",
    "low_recall",
    "model_path",
    "predicted_run",
    "read_qrels",
    "read_run",
    "run_path",
    "run_sources",
    "seed_folder",
    "sidecar_path",
    "table_rows",
    "task_name",
    "validate_run",
    "write_run",
]
