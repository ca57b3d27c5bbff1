"""The distribution of a sum of two scaled t variables, against scipy and known tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from msshift_bench.stats import Part, Uncertainty

scales = st.floats(1e-6, 1e3)
freedoms = st.sampled_from([1.0, 2.0, 4.0, 7.5, 599.0, 30995.0])
parts = st.builds(Part, scales, freedoms)


def half_width(confidence: float, first: Part, second: Part) -> float:
    return Uncertainty(first, second, 2).interval(0.0, confidence).high


def two_sided_p(distance: float, first: Part, second: Part) -> float:
    return Uncertainty(first, second, 2).p_value(distance)


@pytest.mark.parametrize("df", [1, 2, 4, 599])
def test_one_part_alone_is_scipys_t(df: int) -> None:
    nothing = Part(0.0, 3)
    assert half_width(0.95, Part(2.0, df), nothing) == pytest.approx(
        2 * scipy.stats.t.ppf(0.975, df), rel=1e-10
    )
    assert two_sided_p(3.0, nothing, Part(2.0, df)) == pytest.approx(
        2 * scipy.stats.t.sf(1.5, df), rel=1e-10
    )


def test_two_cauchy_variables_add_to_one() -> None:
    # t with one degree of freedom is stable: scales add.
    found = two_sided_p(5.0, Part(1.0, 1), Part(2.0, 1))
    assert found == pytest.approx(2 * scipy.stats.cauchy.sf(5.0 / 3), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("df", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("distance", [0.1, 2.0, 3.5, 40.0])
def test_probabilities_are_those_of_scipys_integration(
    df: int, scale: float, distance: float
) -> None:
    def beyond(z: float) -> float:
        tails = scipy.stats.t.sf((distance - z) / scale, df)
        tails += scipy.stats.t.sf((distance + z) / scale, df)
        return float(scipy.stats.norm.pdf(z) * tails)

    near = [end + side * scale for end in (-distance, distance) for side in (-6, 0, 6)]
    expected, _ = scipy.integrate.quad(
        beyond, -14, 14, points=[x for x in near if -14 < x < 14], limit=800, epsabs=1e-15
    )
    found = two_sided_p(distance, Part(1.0, 1e9), Part(scale, df))
    assert found == pytest.approx(expected, rel=1e-7 if expected > 0.01 else 0.025)


def test_quantiles_of_fisher_and_yates_for_equal_scales() -> None:
    # Fisher and Yates, Statistical Tables, table VI: 5% points of d at 45 degrees, n1 = n2.
    for df, d in ((6, 2.435), (8, 2.292), (12, 2.167), (24, 2.056)):
        side = math.sqrt(0.5)
        assert half_width(0.95, Part(side, df), Part(side, df)) == pytest.approx(d, abs=2e-3)


@settings(max_examples=60)
@given(parts, parts, st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_the_half_width_has_the_chance_that_is_asked_for(
    first: Part, second: Part, confidence: float
) -> None:
    found = half_width(confidence, first, second)
    assert two_sided_p(found, first, second) == pytest.approx(1 - confidence, rel=1e-9)
    assert half_width(confidence, second, first) == pytest.approx(found, rel=1e-9)
    alone = [half_width(confidence, part, Part(0.0, 1)) for part in (first, second)]
    assert found >= max(alone) * (1 - 1e-9)


@settings(max_examples=40)
@given(parts, parts, st.floats(1e-3, 1e3))
def test_the_chance_falls_with_the_distance(first: Part, second: Part, distance: float) -> None:
    near, far = (two_sided_p(x, first, second) for x in (distance, 1.5 * distance))
    assert 0 <= far <= 1.03 * near
    assert near <= 1
    assert two_sided_p(0.0, first, second) == pytest.approx(1.0, abs=1e-6)


def test_nothing_is_as_wide_as_nothing() -> None:
    assert half_width(0.95, Part(0.0, 1), Part(0.0, 5)) == 0.0


def test_far_tails_do_not_vanish() -> None:
    found = two_sided_p(30.0, Part(1.0, 1e9), Part(1e-3, 2))
    assert 0 < found < 1e-5
    assert np.isfinite(found)
