"""Leakage: training queries that are the test queries, or nearly, found, reviewed and taken out.

`find_leakage` finds them, tier by tier. `pairs_to_judge` says which of these people should judge,
`review_leakage` merges what they say and chooses a threshold. `clean_training` writes a training
set without them, `read_left_out` says which test queries leaked. `make_training_sets` makes
training sets that leak on purpose, `leakage_experiment` says what models learnt from them.
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
from msshift_bench.leakage.experiment import (
    ExperimentScores,
    RerankedTopic,
    leakage_experiment,
)
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    FOUND_NAME,
    NEAR_TIER,
    TIERS,
    FoundLeakage,
    LeakedPair,
    TierCount,
    check_own_folder,
    read_candidates,
    tiers_up_to,
)
from msshift_bench.leakage.queries import read_topics
from msshift_bench.leakage.review_pairs import pairs_to_judge
from msshift_bench.leakage.score_effect import read_left_out
from msshift_bench.leakage.search import THRESHOLDS, NearDuplicates, WordSpace, find_leakage
from msshift_bench.leakage.threshold_curve import LowestThreshold, ThresholdCurve, ThresholdPoint
from msshift_bench.leakage.training_sets import (
    KINDS_OF_LEAKAGE,
    LearntPair,
    make_training_sets,
)

__all__ = [
    "read_left_out",
    "ExperimentScores",
    "KINDS_OF_LEAKAGE",
    "LearntPair",
    "RerankedTopic",
    "make_training_sets",
    "CANDIDATES_NAME",
    "CLEANED_NAMES",
    "CleanedFile",
    "CleanedTraining",
    "FOUND_NAME",
    "FoundLeakage",
    "LeakageReview",
    "LeakedPair",
    "LowestThreshold",
    "NEAR_TIER",
    "NearDuplicates",
    "PairOfAnnotators",
    "THRESHOLDS",
    "TIERS",
    "ThresholdCurve",
    "ThresholdPoint",
    "TierCount",
    "WordSpace",
    "check_own_folder",
    "clean_training",
    "draw_thresholds",
    "find_leakage",
    "leakage_experiment",
    "pairs_to_judge",
    "read_candidates",
    "read_topics",
    "review_leakage",
    "tiers_up_to",
]
