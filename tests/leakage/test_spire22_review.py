"""The 827 pairs that Fröbe et al. annotated: their Table 2, and what it does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.annotation import read_annotations
from msshift_bench.leakage import LeakageReview, review_leakage
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
def review(real_data: Path) -> LeakageReview:
    folder = real_data / "spire22-leakage"
    return review_leakage(
        read_annotations([folder / f"annotations-{name}.jsonl" for name in MERGED]),
        subsets={"robust04": ROBUST04, "core17": CORE17, "core18": CORE18},
    )


def test_table_2(review: LeakageReview, golden: dict[str, object]) -> None:
    for subset in ("robust04", "core17", "core18"):
        found = {
            name: list(review.leaking(subset=subset, leaks=leaks))
            for name, leaks in (("true", True), ("false", False))
        }
        assert found == golden[subset]
    assert review.types() == {
        "identical": 187,
        "generalization": 124,
        "specialization": 228,
        "reformulation": 181,
        "different": 106,
        "untyped": 1,
    }
    assert len(review.labels) == golden["annotated"] == 827
    assert len({pair.test_id for pair in review.labels}) == golden["topics"]
    assert (review.unsettled, review.disputed, review.agreement) == ([], [], [])


def test_what_the_paper_does_not_say(review: LeakageReview, golden: dict[str, object]) -> None:
    assert review.at_most().pairs == golden["at_most_0.91"] == 43
    least = min(pair.cosine for pair in review.labels if pair.cosine)
    assert least == pytest.approx(golden["cosine_min"])
    assert review.curve is not None
    above = golden["precision_above"]
    assert isinstance(above, dict)
    for threshold, precision in above.items():
        # No cosine equals one of these thresholds, so that "above" and "at least" are the same.
        share = review.curve.at(float(threshold)).precision
        assert share is not None
        assert round(share.value, 3) == precision
    lowest = review.lowest
    assert lowest is not None
    assert lowest.point is not None
    assert lowest.sure is not None
    assert [lowest.point.threshold, lowest.point.pairs] == (
        golden["lowest_inclusive_threshold_precision_0.9"]
    )
    assert lowest.interval == pytest.approx((0.9009, 0.9376), abs=5e-4)
    assert lowest.sure.threshold == pytest.approx(0.9483, abs=1e-3)
    share = review.curve.at(0.91).precision
    assert share is not None
    assert share.interval == pytest.approx((0.840, 0.911), abs=1e-3)
    assert any("43 of 827 pairs" in note and "0.9009" in note for note in review.notes())


def test_the_page_says_what_the_files_say(review: LeakageReview) -> None:
    page = " ".join((REPOSITORY / "docs" / "leakage.md").read_text(encoding="utf-8").split())
    for subset, title in (
        ("robust04", "Robust04"),
        ("core17", "Common Core 2017"),
        ("core18", "Common Core 2018"),
    ):
        cells = (*review.leaking(subset=subset), *review.leaking(subset=subset, leaks=False))
        assert f"| {title} | {' | '.join(map(str, cells))} |" in page
    assert review.curve is not None
    assert review.lowest is not None
    at_091, lowest, sure = review.curve.at(0.91).precision, review.lowest.point, review.lowest.sure
    assert at_091 is not None
    assert at_091.interval is not None
    assert lowest is not None
    assert sure is not None
    assert review.lowest.interval is not None
    ends = "[{:.3f}, {:.3f}]"
    assert f"precision is {at_091.value:.3f} {ends.format(*at_091.interval)}" in page
    shown = f"{lowest.threshold:.3f} {ends.format(*review.lowest.interval)}, with {lowest.pairs}"
    assert f"is {shown} pairs" in page
    assert f"is {sure.threshold:.3f}, with {sure.pairs}." in page
    assert " ".join(CORE17) in page.replace("\\ ", "")
    assert " ".join(CORE18[:25]) in page.replace("\\ ", "")


def test_kappa_of_the_103(real_data: Path, golden: dict[str, object]) -> None:
    sheets = [real_data / "spire22-leakage" / f"agreement-01-{name}.jsonl" for name in "bc"]
    (wins,) = review_leakage(read_annotations(sheets)).agreement
    (loses,) = review_leakage(read_annotations(sheets, both="type")).agreement
    assert wins.as_given is not None
    assert wins.types.items == 103
    kappas = golden["kappa_103"]
    assert isinstance(kappas, dict)
    figures = (wins.as_given, wins.leaking, loses.leaking)
    expected = ("title_label", "binary_different_topic", "binary_title_wins")
    for one, name in zip(figures, expected, strict=True):
        assert one.kappa is not None
        assert round(one.kappa, 3) == kappas[name]
    # Two lines name two types; upstream takes the first of each, we call them untyped.
    assert loses.types.kappa == pytest.approx(kappas["title_label_wins_over_different"], abs=0.004)
    assert wins.types.kappa == pytest.approx(0.422, abs=1e-3)
    # What the paper prints lies inside every interval.
    for one in (wins.types, loses.types, wins.leaking, loses.leaking):
        assert one.interval is not None
        assert one.interval.low < kappas["published"] < one.interval.high
