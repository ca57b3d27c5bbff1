"""Leakage: find, review and remove training queries that are equal or close to test queries.

`find_leakage` finds candidate pairs, tier by tier. `pairs_to_judge` selects pairs for annotators;
`review_leakage` counts their labels and evaluates thresholds. `clean_training` writes a training
set without leaking queries; `read_leaked_queries` returns the test queries that leaked.
`make_training_sets` makes training sets with leakage; `leakage_experiment` measures its effect.
The room may use `annotation`, `arrays`, `data`, `encoders`, `errors`, `evaluation`, `output`,
`plumbing`, `records`, `runs`, `sampling`, `search`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.leakage.cleaning import clean_training
from msshift_bench.leakage.experiment import (
    LEAKAGE_KINDS,
    RerankedTopic,
    TrainingPair,
    leakage_experiment,
    make_training_sets,
)
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    NEAR_TIER,
    TIERS,
    LeakageResult,
    LeakedPair,
    check_found_folder,
    read_candidates,
    read_leaked_queries,
    tiers_up_to,
)
from msshift_bench.leakage.search import THRESHOLDS, WordSpace, find_leakage, read_topics
from msshift_bench.leakage.threshold import ThresholdCurve, pairs_to_judge, review_leakage

__all__ = [
    "CANDIDATES_NAME",
    "LEAKAGE_KINDS",
    "NEAR_TIER",
    "THRESHOLDS",
    "TIERS",
    "LeakageResult",
    "LeakedPair",
    "TrainingPair",
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
    "read_leaked_queries",
    "read_topics",
    "review_leakage",
    "tiers_up_to",
]
