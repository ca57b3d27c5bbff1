"""The share of the variance that comes from seeds."""

from __future__ import annotations

import pytest

from msshift_bench.stats import Part, Uncertainty


def test_the_variance_is_at_least_that_of_the_models_at_hand() -> None:
    below = Uncertainty(Part(3, 9), Part(4, 2), seeds=3, noise=2)
    assert below.seed_share == pytest.approx(16 / 25)
    # The floor, hypot(3, 12), decides the interval, and the seeds agree.
    known = Uncertainty(Part(3, 9), Part(4, 2), seeds=3, noise=12)
    assert known.fixed.scale == pytest.approx(153**0.5)
    assert known.seed_share == pytest.approx(16 / 153)
    assert known.half_width(0.95) == pytest.approx(2.262157 * 153**0.5, rel=1e-6)
