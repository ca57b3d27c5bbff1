"""The share of the variance that comes from seeds."""

from __future__ import annotations

import pytest

from msshift_bench.stats import Part, Uncertainty


def test_noise_of_the_models_at_hand_is_no_variance_of_queries() -> None:
    # The floor, hypot(3, 12), is the error of these models: it does not count here.
    known = Uncertainty(Part(3, 9), Part(4, 2), seeds=3, noise=12)
    assert known.fixed.scale == pytest.approx(153**0.5)
    assert known.seed_share == pytest.approx(16 / 25)
    assert known.half_width(0.95) == pytest.approx(2.262157 * 153**0.5, rel=1e-6)
