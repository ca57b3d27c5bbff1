"""Links inside the groups of one shift, of known slopes: the verdicts, and how tables say them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from msshift_bench.analysis import MEAN_OF_SYSTEMS, query_claims
from msshift_bench.analysis.query_links import query_notes
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError
from msshift_bench.evaluation import Scores, parse_measure
from msshift_bench.stats import Figures, Inference, infer
from tests.support.made_scores import made_scores

RR = parse_measure("RR@10")
GROUPS = ("C0", "C1", "C2", "C3", "C4")
SLOPES = (-0.30, -0.28, -0.31, -0.29)
X = np.linspace(0, 1, 40)
CANNOT = (
    "These data cannot show a link between model-based and what single queries of topics lose in "
    "RR@10."
)


def scores_of(slopes: Sequence[float], system: str = "dense", measure: str = "RR@10") -> Scores:
    """Return a system whose losses change at these slopes over X in C0, C1, ..., by one seed."""
    cubes = {}
    for place, (group, slope) in enumerate(zip(GROUPS, slopes, strict=False)):
        cubes[group] = np.ones((1, len(GROUPS), len(X)))
        cubes[group][:, place] = 0.5 - slope * X
    return made_scores(system, cubes, shift="topics", measure=measure)


def linked(
    slopes: Sequence[float], alike: Sequence[str] = (), bins: int = 2
) -> tuple[Figures, list[str]]:
    """Link losses that change at these slopes; queries of the groups `alike` do not differ."""
    scores = scores_of(slopes)
    values: dict[str, Floats] = {
        group: np.full(len(X), 0.5) if group in alike else X for group in scores.groups
    }
    figures = infer(query_claims("model-based", [scores], RR, values, bins=bins), Inference())
    return figures, [note.text for note in query_notes(figures)]


@pytest.mark.parametrize(("sign", "way", "slope"), [(1, "less", "-29.5"), (-1, "more", "+29.5")])
def test_slopes_that_agree_show_a_link(sign: int, way: str, slope: str) -> None:
    figures, (verdict, evidence, *_, scales) = linked([sign * one for one in SLOPES])
    assert verdict == (
        "These data show a link between model-based and what single queries of topics lose in "
        f"RR@10: the higher it is, the {way} is lost."
    )
    # By hand: the slopes' mean is 0.295, their standard error 0.0129 / 2, and t(3) 3.182.
    ends = "[-31.6, -27.4]" if sign > 0 else "[27.4, 31.6]"
    assert f"{slope} points of Rel Loss per 1 of model-based, 95% interval {ends}" in evidence
    assert "p < 0.001, holm over 1 test (verdicts of this call); t with 3 degrees" in evidence
    assert scales.startswith("model-based of each group comes from another model: the intervals")
    (found,) = figures.where(figure="slope_inside_groups")
    assert (found.mark, found.counts) == ("*", "groups")
    assert figures.where(figure="groups")[0].value == 4
    assert [row.queries for row in figures.where(figure="rel_loss")] == [80, 80]


def test_two_groups_with_a_slope_are_too_few_witnesses() -> None:
    figures, notes = linked(SLOPES, alike=("C2", "C3"))
    too_few = "fewer than 3 groups have queries that differ in it, and groups are the witnesses"
    assert notes[:2] == [CANNOT, too_few]
    assert not figures.where(figure=("slope_inside_groups", "groups"))


@pytest.mark.parametrize("bins", [41, 1000])
def test_more_intervals_than_values_leave_none_of_them_empty(bins: int) -> None:
    figures, _ = linked(SLOPES, bins=bins)
    parts = figures.where(figure="similarity")
    sizes = [part.queries or 0 for part in parts]
    assert sum(sizes) == 160
    assert min(sizes) > 0
    assert len(parts) > 30
    assert [part.high for part in parts[:-1]] == [part.low for part in parts[1:]]
    assert (parts[0].low, parts[-1].high) == (0, 1)


def test_what_has_no_intervals_or_no_loss_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"of topics have the same model-based \(0\.5\), .* take an"
    ):
        linked(SLOPES, alike=GROUPS)
    nothing = made_scores("dense", {"C0": np.zeros((1, 5, 2))}, shift="topics")
    with pytest.raises(DataError, match=r"dense scores 0 in RR@10 on C0, .* leave the system out"):
        list(query_claims("model-based", [nothing], RR, {"C0": np.array([0.1, 0.2])}))


def test_the_verdict_rests_on_the_mean_of_the_systems() -> None:
    # Lower is better: where Out rises with X, more is lost.
    systems = [scores_of([-slope] * 3, f"{slope}", "ASL@100") for slope in (0.1, 0.3)]
    values = dict.fromkeys(GROUPS[:3], X)
    claims = query_claims("model-based", systems, parse_measure("ASL@100"), values)
    figures = infer(claims, Inference())
    slopes = {row.system: row.value for row in figures.where(figure="slope_inside_groups")}
    assert slopes == pytest.approx({"0.1": 0.1, "0.3": 0.3, MEAN_OF_SYSTEMS: 0.2})
    assert query_notes(figures)[1].text.startswith(
        "slope inside the groups, the mean of 2 systems: +20.0 points"
    )
