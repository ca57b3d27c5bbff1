"""Leakage: training queries that are the test queries, or nearly, found, reviewed and taken out.

`find_leakage` finds them, tier by tier. `pairs_to_judge` says which of these people should judge,
`review_leakage` merges what they say and chooses a threshold. `clean_training` writes a training
set without them, `leakage_effect` computes scores without the test queries that leaked.
`make_training_sets` makes training sets that leak on purpose, `effectiveness` and `memorised` say
what models learnt from them.
The room may use `annotation`, `arrays`, `data`, `encoders`, `errors`, `evaluation`, `output`,
`plumbing`, `records`, `runs`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.leakage.calibrating import LeakageReview, PairOfAnnotators, review_leakage
from msshift_bench.leakage.calibration_plot import draw_thresholds
from msshift_bench.leakage.cleaning import (
    CLEANED_NAMES,
    CleanedFile,
    CleanedTraining,
    clean_training,
)
from msshift_bench.leakage.experiment_tables import LeakageExperiment
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
from msshift_bench.leakage.found_files import read_candidates
from msshift_bench.leakage.leak_effects import (
    Effectiveness,
    ExperimentScores,
    RerankedTopic,
    effectiveness,
    effects_by_size,
    swaps,
)
from msshift_bench.leakage.leak_search import THRESHOLDS, find_leakage
from msshift_bench.leakage.memorisation import memorised
from msshift_bench.leakage.review_pairs import pairs_to_judge
from msshift_bench.leakage.score_effect import LeakageEffect, LeakedScore, leakage_effect
from msshift_bench.leakage.threshold_curve import LowestThreshold, ThresholdCurve, ThresholdPoint
from msshift_bench.leakage.training_sets import (
    KINDS_OF_LEAKAGE,
    LearntPair,
    make_training_sets,
)

__all__ = [
    "Effectiveness",
    "ExperimentScores",
    "KINDS_OF_LEAKAGE",
    "LeakageExperiment",
    "LearntPair",
    "RerankedTopic",
    "effectiveness",
    "effects_by_size",
    "make_training_sets",
    "memorised",
    "swaps",
    "CANDIDATES_NAME",
    "CLEANED_NAMES",
    "CleanedFile",
    "CleanedTraining",
    "FOUND_NAME",
    "FoundLeakage",
    "LeakageEffect",
    "LeakageReview",
    "LeakedPair",
    "LeakedScore",
    "LowestThreshold",
    "PairOfAnnotators",
    "THRESHOLDS",
    "TIERS",
    "ThresholdCurve",
    "ThresholdPoint",
    "TierCount",
    "check_own_folder",
    "clean_training",
    "draw_thresholds",
    "find_leakage",
    "leakage_effect",
    "pairs_to_judge",
    "read_candidates",
    "review_leakage",
    "tiers_up_to",
]
