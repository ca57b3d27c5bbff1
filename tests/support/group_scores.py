"""Made-up scores of one group, for the tests of the statistics."""

from __future__ import annotations

import numpy as np

from msshift_bench.stats.group_scores import GroupScores

RR10 = np.array([0, *(1 / rank for rank in range(1, 11))])


def scores(seed: int, *shape: int, loss: float = 0.0) -> GroupScores:
    """RR@10-like scores of shape ``[(seeds,) models, queries]``, and a held-out model."""
    rng = np.random.default_rng(seed)
    inside = rng.choice(RR10, size=shape)
    out = rng.choice(RR10, size=(*shape[:-2], shape[-1])) * (1 - loss)
    return GroupScores(inside, out)
