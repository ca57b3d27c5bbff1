"""Leakage: training queries that are the test queries, or nearly, found and taken out.

`find_leakage` finds them, tier by tier; `clean_training` writes a training set without them. The
room may use `arrays`, `data`, `encoders`, `errors`, `output`, `plumbing`, `records`, `runs` and
`similarity`.
"""

from msshift_bench.leakage.cleaning import (
    CLEANED_NAMES,
    CleanedFile,
    CleanedTraining,
    clean_training,
)
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    FOUND_NAME,
    TIERS,
    FoundLeakage,
    LeakedPair,
    TierCount,
    check_own_folder,
    tiers_up_to,
)
from msshift_bench.leakage.leak_search import THRESHOLDS, find_leakage

__all__ = [
    "CANDIDATES_NAME",
    "CLEANED_NAMES",
    "CleanedFile",
    "CleanedTraining",
    "FOUND_NAME",
    "FoundLeakage",
    "LeakedPair",
    "THRESHOLDS",
    "TIERS",
    "TierCount",
    "check_own_folder",
    "clean_training",
    "find_leakage",
    "tiers_up_to",
]
