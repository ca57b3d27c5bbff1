"""Leakage: find, review and remove training queries that are equal or close to test queries.

`find_leakage` finds candidate pairs, tier by tier. `pairs_to_judge` selects pairs for annotators;
`review_leakage` counts their labels and evaluates thresholds. `clean_training` writes a training
set without leaking queries; `read_left_out` returns the test queries that leaked.
`make_training_sets` makes training sets with leakage; `leakage_experiment` measures its effect.
The room may use `annotation`, `arrays`, `data`, `encoders`, `errors`, `evaluation`, `output`,
`plumbing`, `records`, `runs`, `sampling`, `search`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.leakage.cleaning import clean_training
from msshift_bench.leakage.experiment import (
    KINDS_OF_LEAKAGE,
    RerankedTopic,
    TrainingInstance,
    leakage_experiment,
    make_training_sets,
)
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    NEAR_TIER,
    TIERS,
    FoundLeakage,
    LeakedPair,
    check_found_folder,
    read_candidates,
    read_left_out,
    tiers_up_to,
)
from msshift_bench.leakage.search import THRESHOLDS, WordSpace, find_leakage, read_topics
from msshift_bench.leakage.threshold import ThresholdCurve, pairs_to_judge, review_leakage

__all__ = [
    "CANDIDATES_NAME",
    "KINDS_OF_LEAKAGE",
    "NEAR_TIER",
    "THRESHOLDS",
    "TIERS",
    "FoundLeakage",
    "LeakedPair",
    "TrainingInstance",
    "RerankedTopic",
    "ThresholdCurve",
    "WordSpace",
    "check_found_folder",
    "clean_training",
    "find_leakage",
    "leakage_experiment",
    "make_training_sets",
    "pairs_to_judge",
    "read_candidates",
    "read_left_out",
    "read_topics",
    "review_leakage",
    "tiers_up_to",
]
