"""The 827 pairs that Fröbe et al. annotated: their Table 2, and what it does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.annotation import Annotations, read_annotations
from msshift_bench.evaluation import Result
from msshift_bench.leakage import ThresholdCurve, review_leakage
from msshift_bench.stats import Figure
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.realdata

MERGED = ("01-b-and-c", "02-a", "03-b", "04-b")
ROBUST04 = [str(topic) for topic in (*range(301, 451), *range(601, 701))]
_CORE17 = (
    "307 310 321 325 330 336 341 344 345 347 350 353 354 355 356 362 363 367 372 375 378 379 "
    "389 393 394 397 399 400 404 408 414 416 419 422 423 426 427 433 435 436 439 442 443 445 "
    "614 620 626 646 677 690 "
)
_CORE18 = (
    "321 336 341 347 350 362 363 367 375 378 393 397 400 408 414 422 426 427 433 439 442 445 "
    "626 646 690 "
)
CORE17 = _CORE17.split()
CORE18 = [*_CORE18.split(), *map(str, range(801, 826))]


@pytest.fixture(scope="module")
def golden(real_data: Path) -> dict[str, object]:
    text = (real_data / "published" / "upstream_golden.json").read_text()
    found: dict[str, object] = json.loads(text)["spire22"]
    return found


@pytest.fixture(scope="module")
def annotations(real_data: Path) -> Annotations:
    folder = real_data / "spire22-leakage"
    return read_annotations([folder / f"annotations-{name}.jsonl" for name in MERGED])


@pytest.fixture(scope="module")
def review(annotations: Annotations) -> Result:
    subsets = {"robust04": ROBUST04, "core17": CORE17, "core18": CORE18}
    return review_leakage(annotations, subsets=subsets)


@pytest.fixture(scope="module")
def curve(annotations: Annotations) -> ThresholdCurve:
    return ThresholdCurve.of(annotations)


def precision_at(curve: ThresholdCurve, threshold: float) -> Figure:
    return curve.at(threshold).where(figure="precision")[0]


def counts_of(review: Result, kind: str, subset: str) -> list[int]:
    figures = (f"{kind}_pairs", f"{kind}_test_queries")
    return [int(row.value) for row in review.figures.where(figure=figures, slice=subset)]


def test_table_2(review: Result, golden: dict[str, object]) -> None:
    for subset in ("robust04", "core17", "core18"):
        found = {
            name: counts_of(review, kind, subset)
            for name, kind in (("true", "leaking"), ("false", "other"))
        }
        assert found == golden[subset]
    assert {row.slice: row.value for row in review.figures.where(figure="pairs_of_type")} == {
        "identical": 187,
        "generalization": 124,
        "specialization": 228,
        "reformulation": 181,
        "different": 106,
        "untyped": 1,
    }
    labels = review.facts["labels"]
    assert len(labels) == golden["annotated"] == 827
    assert len({pair["test_id"] for pair in labels}) == golden["topics"]
    assert review.facts["unsettled"] == review.facts["disputed"] == []
    assert not review.figures.where(figure="judged_by_both")


def test_what_the_paper_does_not_say(
    review: Result, curve: ThresholdCurve, golden: dict[str, object]
) -> None:
    above = golden["precision_above"]
    assert isinstance(above, dict)
    for threshold, precision in above.items():
        # No cosine equals one of these thresholds, so that "above" and "at least" are the same.
        assert round(precision_at(curve, float(threshold)).value, 3) == precision
    lowest, sure = review.figures.where(figure=("lowest_threshold", "lowest_sure_threshold"))
    assert [lowest.value, curve.at(lowest.value)[0].value] == (
        golden["lowest_inclusive_threshold_precision_0.9"]
    )
    assert lowest.interval == pytest.approx((0.9009, 0.9376), abs=5e-4)
    assert sure.value == pytest.approx(0.9483, abs=1e-3)
    assert precision_at(curve, 0.91).interval == pytest.approx((0.840, 0.911), abs=1e-3)
    assert (golden["at_most_0.91"], round(golden["cosine_min"], 4)) == (43, 0.9009)
    assert any("43 of 827 pairs" in n.text and "0.9009" in n.text for n in review.notes)


def test_the_page_says_what_the_files_say(review: Result, curve: ThresholdCurve) -> None:
    page = " ".join((REPOSITORY / "docs" / "leakage.md").read_text(encoding="utf-8").split())
    for subset, title in (
        ("robust04", "Robust04"),
        ("core17", "Common Core 2017"),
        ("core18", "Common Core 2018"),
    ):
        cells = (*counts_of(review, "leaking", subset), *counts_of(review, "other", subset))
        assert f"| {title} | {' | '.join(map(str, cells))} |" in page
    at_091 = precision_at(curve, 0.91)
    lowest, sure = curve.lowest()
    ends = "[{:.3f}, {:.3f}]"
    assert f"precision is {at_091.value:.3f} {ends.format(*at_091.interval)}" in page
    pairs, pairs_of_sure = (int(curve.at(row.value)[0].value) for row in (lowest, sure))
    shown = f"{lowest.value:.3f} {ends.format(*lowest.interval)}, with {pairs}"
    assert f"is {shown} pairs" in page
    assert f"is {sure.value:.3f}, with {pairs_of_sure}." in page
    assert " ".join(CORE17) in page.replace("\\ ", "")
    assert " ".join(CORE18[:25]) in page.replace("\\ ", "")


def test_kappa_of_the_103(real_data: Path, golden: dict[str, object]) -> None:
    sheets = [real_data / "spire22-leakage" / f"agreement-01-{name}.jsonl" for name in "bc"]
    figures = [
        {row.figure: row for row in review_leakage(read_annotations(sheets, both=both)).figures}
        for both in ("different", "type")
    ]
    wins, loses = figures
    assert wins["judged_by_both"].value == 103
    kappas = golden["kappa_103"]
    assert isinstance(kappas, dict)
    for row, name in (
        (wins["kappa_as_given"], "title_label"),
        (wins["kappa_of_leaking"], "binary_different_topic"),
        (loses["kappa_of_leaking"], "binary_title_wins"),
    ):
        assert round(row.value, 3) == kappas[name]
    # Two lines name two types; upstream takes the first of each, we call them untyped.
    of_types = wins["kappa_of_types"], loses["kappa_of_types"]
    assert of_types[0].value == pytest.approx(0.422, abs=1e-3)
    assert of_types[1].value == pytest.approx(kappas["title_label_wins_over_different"], abs=0.004)
    # What the paper prints lies inside every interval.
    for row in (*of_types, wins["kappa_of_leaking"], loses["kappa_of_leaking"]):
        assert row.low < kappas["published"] < row.high
