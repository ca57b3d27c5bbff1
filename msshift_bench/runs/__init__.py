"""Run files, qrels, and the folders of run sets: what retrieval writes and evaluation reads.

`judge_run` checks a run and keeps what measures need, `read_run` returns it as a mapping,
`write_run` writes one, and `find_run_sets` knows the layout of run sets. It may use `plumbing`,
`shifts`, `records`, `arrays` and `errors`.
"""

from msshift_bench.runs.findings import CODES, WARNINGS
from msshift_bench.runs.judged import (
    TIE_POLICIES,
    JudgedRun,
    Judgements,
    RunReport,
    check_tie_policy,
    read_qrels,
)
from msshift_bench.runs.reader import RunValidation, judge_run, read_run, validate_run
from msshift_bench.runs.runsets import (
    FOR_ALL,
    Model,
    RunSet,
    check_layout,
    extra_runs_path,
    find_run_sets,
    model_path,
    run_path,
    sidecar_path,
)
from msshift_bench.runs.sidecars import Sidecar, low_recall, read_sidecar
from msshift_bench.runs.writing import write_run

__all__ = [
    "CODES",
    "FOR_ALL",
    "Model",
    "RunValidation",
    "JudgedRun",
    "Judgements",
    "RunReport",
    "RunSet",
    "Sidecar",
    "TIE_POLICIES",
    "WARNINGS",
    "check_layout",
    "check_tie_policy",
    "extra_runs_path",
    "find_run_sets",
    "judge_run",
    "low_recall",
    "model_path",
    "read_qrels",
    "read_run",
    "read_sidecar",
    "run_path",
    "sidecar_path",
    "validate_run",
    "write_run",
]
