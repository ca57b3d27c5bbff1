"""The alignment of the paper's own figures: what Zhan et al. (CIKM 2022) print of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msshift_bench.analysis import (
    RANK_CORRELATIONS,
    Alignment,
    ModelScores,
    PrintedAlignment,
    align_scores,
    fieller_interval,
)
from msshift_bench.leaderboard import load_published

__all__ = ["align_published"]

_OUTSIDE = "MS MARCO dev, buckets held out"

_MODELS = 24
"""Models in each of the paper's correlations (section 4.2.1): 8 methods at 3 sizes."""

_TWICE = ("BERT", "BERT + RandNeg", "coCon-marco + RandNeg")
"""Rows of Tables 8 and 9 that are rows of Tables 6 and 9, too."""


def align_published() -> Alignment:
    """Align the scores in Tables 6 to 9, as far as they go, and show the correlations of Table 5.

    The paper prints no model's score on BEIR. So the extrapolation of ReSTTest, on other queries
    and by another way of holding them out, stands for a test set elsewhere.
    """
    tables = load_published("interpolation_extrapolation")
    return align_scores(
        [
            ModelScores(model, *own, {_OUTSIDE: outside})
            for model, own, outside in _recall_at_100(tables)
        ],
        "R@100 on TREC DL 2019 and 2020, ReSTrain of 45k (CIKM 2022, Tables 6 to 9)",
        printed=[
            PrintedAlignment(
                outside,
                kind,
                _MODELS,
                *_known(kind, values[2 * place]),
                *_known(kind, values[2 * place + 1]),
            )
            for outside, values in tables["table_5_alignment"].items()
            if outside != "columns"
            for place, kind in enumerate(RANK_CORRELATIONS)
        ],
        remarks=(
            "the paper prints no model's score on BEIR: ReSTTest's extrapolation stands for a test "
            "set elsewhere, and its queries are MS MARCO's, too",
            "published scores rest on one training each, and count as they are printed",
        ),
    )


def _known(kind: str, value: float) -> tuple[float, tuple[float, float]]:
    return value, fieller_interval(kind, _MODELS, value)


def _recall_at_100(
    tables: Mapping[str, Any],
) -> Iterator[tuple[str, tuple[float, float], float]]:
    """Yield each model, its R@100 by ReSTrain, and its extrapolation by ReSTTest."""
    restrain, resttest = tables["restrain_trec_dl_19_20"]["45k"], tables["resttest_msmarco_dev"]
    for model, values in restrain.items():
        yield model, (values[2], values[3]), resttest[model][3]
    for model, row in tables["table_8_training_methods"].items():
        if model not in ("columns", *_TWICE):
            inter, extra, _ = row["restrain_45k"]["R@100"]
            yield model, (inter, extra), row["resttest"]["R@100"][1]
    for model, row in tables["table_9_pretraining"].items():
        if model not in ("columns", *_TWICE):
            inter, extra, _ = row["restrain_45k_R@100"]
            yield model, (inter, extra), row["resttest_R@100"][1]
