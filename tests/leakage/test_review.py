"""Reviewed candidates: which to judge, what annotators say together, and the threshold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.annotation import (
    DIFFERENT,
    LEAKAGE,
    LEAKAGE_QUESTION,
    Pair,
    read_annotations,
    write_sheet,
)
from msshift_bench.errors import UsageError
from msshift_bench.leakage import (
    LeakedPair,
    ThresholdCurve,
    pairs_to_judge,
    read_candidates,
    review_leakage,
)
from tests.conftest import REPOSITORY, Command
from tests.support.golden import Golden
from tests.support.leaks import write_found
from tests.support.refusals import check_exits, check_refusals
from tests.support.sheets import IDS, PAIRS, fill

A, B, C, D = IDS[:4]


def test_a_sheet_holds_the_most_alike_of_each_test_query(tmp_path: Path) -> None:
    tiers = (
        ("a", "same-text", None),
        ("b", "same-words", None),
        ("c", "near-duplicate", 0.92),
        ("d", "near-duplicate", 0.96),
        ("d", "same-passage", None),
        ("e", "same-passage", None),
    )
    pairs = tuple(
        LeakedPair("0", train_id, tier, cosine, "topic 0", f"query {train_id}")
        for train_id, tier, cosine in tiers
    )
    found = write_found(tmp_path / "found", pairs)
    read = read_candidates(found)
    assert read == read_candidates(found / "candidates.parquet")
    assert [pair[:3] + pair[4:] for pair in read] == [pair[:3] + pair[4:] for pair in pairs]

    def chosen(**options: Any) -> dict[str, float | None]:
        return {pair.train_id: pair.cosine for pair in pairs_to_judge(found, **options)}

    assert chosen(per_test=2) == {"b": None, "d": pytest.approx(0.96)}
    assert set(chosen(per_test=3)) == {"b", "c", "d"}
    assert set(chosen(per_test=None)) == {"b", "c", "d", "e"}
    assert set(chosen(certain=True)) == {"a", "b", "c", "d", "e"}
    write_sheet(pairs_to_judge(found), LEAKAGE, tmp_path / "sheet.csv")
    again = pairs_to_judge(tmp_path / "sheet.csv")
    assert [pair.train_id for pair in again] == list(chosen())


def test_candidates_that_are_none(tmp_path: Path) -> None:
    columns = {name: ["x"] for name in LeakedPair._fields if name != "cosine"}
    tables = ({}, {"cosine": ["x"]}, {"cosine": [1.0]})
    paths = [tmp_path / f"{number}.parquet" for number in range(4)]
    for path, cosine in zip(paths, tables, strict=False):
        pq.write_table(pa.table(columns | cosine), path)
    paths[-1].write_bytes(b"PAR1 no")
    sheet = tmp_path / "certain.csv"
    write_sheet([pair._replace(found_by="same-text") for pair in PAIRS], LEAKAGE, sheet)
    facts = ("cosine", "cosine", "'x'", "3.parquet")
    refusals = {
        f"{path.stem}: CollectionError [no-candidates] {path.name} {fact} fix": partial(
            read_candidates, path
        )
        for path, fact in zip(paths, facts, strict=True)
    }
    refusals["NotFoundError candidates.parquet --out"] = partial(read_candidates, tmp_path)
    refusals["UsageError --certain"] = partial(pairs_to_judge, sheet)
    check_refusals(refusals)
    assert len(pairs_to_judge(sheet, per_test=2, certain=True)) == 8


def test_verdicts_are_counted(tmp_path: Path, golden: Golden) -> None:
    one = fill(tmp_path / "one.csv", {A: "identical", B: "Different", C: "identical"})
    two = fill(tmp_path / "two.csv", {A: "identical", B: "different", C: "reformulation"})
    answers = {A: "reformulation", C: "different", D: "different"}
    three = fill(tmp_path / "x.csv", answers, name="three")
    result = review_leakage(read_annotations([one, two, three]), subsets={"first": ["0"]})
    (tmp_path / "first.txt").write_text("0\n")
    of_file = {"first": tmp_path / "first.txt"}
    same = review_leakage(read_annotations([one, two, three]), subsets=of_file)
    assert same.figures == result.figures
    split = review_leakage(read_annotations([one, three]))
    golden.check_results("verdicts.csv", {"three annotators": result, "two that differ": split})
    golden.check_layout("verdicts.md", split)
    assert (result.facts["unjudged"], split.facts["unsettled"]) == (len(PAIRS) - 4, [list(C)])
    assert json.loads(json.dumps(result.to_json()))["labels"][0] == {
        "test_id": A[0], "train_id": A[1], "label": "identical"
    }  # fmt: skip
    empty = read_annotations([fill(tmp_path / "empty.csv", {})])
    check_refusals(
        {
            "UsageError judged": partial(review_leakage, empty),
            "UsageError precision 2": partial(review_leakage, read_annotations([one]), precision=2),
        }
    )


def curve_of(cosines: Sequence[float], leaks: Sequence[bool], per_test: int = 1) -> ThresholdCurve:
    """Return the curve of pairs with these cosines, so many of each test query."""
    return ThresholdCurve(
        {
            Pair(str(n // per_test), "", str(n), "", cosine=cosine): "identical"
            if of
            else DIFFERENT
            for n, (cosine, of) in enumerate(zip(cosines, leaks, strict=True))
        }
    )


def test_the_threshold_by_hand() -> None:
    cosines = [0.99, 0.97, 0.97, 0.95, 0.93, 0.91]
    curve = curve_of(cosines, [True, True, False, True, True, False])
    for cosine, kept, leaking in ((0.91, 6, 4), (0.93, 5, 4), (0.95, 4, 3), (0.97, 3, 2)):
        found = [row.value for row in curve.at(cosine)]
        assert found == pytest.approx([kept, leaking, leaking / kept, leaking / 4])
    # Precision does not fall steadily: the lowest threshold that has it counts.
    lowest, sure = curve.lowest(0.8)
    assert (lowest.value, sure.value) == (0.93, None)
    assert curve.lowest(0.9)[0].value == 0.99
    with pytest.raises(UsageError, match=r"precision .*2"):
        curve.lowest(2.0)
    with pytest.raises(UsageError, match="cosine"):
        ThresholdCurve({})
    assert curve_of([0.5], [False]).lowest()[0].value is None
    assert curve.round_thresholds() == pytest.approx(np.arange(91, 100) / 100)
    assert len(curve_of([-0.4, 1.0000002], [True, True]).round_thresholds()) <= 22
    falling = [1 - n / 1000 for n in range(200)]
    lowest, sure = curve_of(falling, [n < 100 for n in range(200)], 2).lowest(0.9)
    assert (lowest.value, lowest.low, lowest.high) == pytest.approx((0.89, 0.878, 0.897))
    assert sure.value > lowest.value


def test_what_a_review_shows(tmp_path: Path, golden: Golden) -> None:
    most = {ids: ("identical", "different")[n % 3] for n, ids in enumerate(IDS) if n % 3 < 2}
    few = {A: "identical", B: "different", C: "different"}
    reviews = {}
    for name, answers in {
        # They agree on 7 of 8 pairs, and by chance on half of them.
        "one pair apart": [most, most | {max(most): "identical"}],
        # They agree on 2 of 3, by chance on 4 of 9. A single test query has no interval.
        "one test query": [few, few | {C: "identical"}],
        "every pair unsettled": [{A: "identical"}, {A: "different"}],
        # None of the two that have a cosine leaks, so there is nothing to recall.
        "no cosine": [few],
    }.items():
        sheets = [fill(tmp_path / f"{name} {n}.csv", labels) for n, labels in enumerate(answers)]
        if name == "no cosine":
            sheets[0].write_text(sheets[0].read_text().replace(",1,", ",,"))
        reviews[name] = review_leakage(read_annotations(sheets))
    golden.check_results("reviews.csv", reviews)


def test_what_agree_prints_and_refuses_before_it_writes(tmp_path: Path, msshift: Command) -> None:
    (tmp_path / "ids.txt").write_text("0\n")
    for name, label in (("ann", "identical"), ("bob", "different"), ("cid", "identical")):
        fill(tmp_path / f"{name}.csv", {A: label, B: "different"})
        text = (tmp_path / f"{name}.csv").read_text()
        (tmp_path / f"{name}-bare.csv").write_text(re.sub(r",(1|0\.9\d),", ",,", text))
    fill(tmp_path / "settled.csv", {A: "identical"}, name="agreed")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    check_exits(
        msshift,
        {
            "--disputed settled.csv": "2 settled.csv",
            "--disputed new.txt": "2 .txt .csv",
            "--disputed ann.csv": "2 ann.csv",
            "--disputed new.csv --precision 0": "2 precision 0",
            "--disputed new.csv --subset first": "2 --subset first",
            "--disputed new.csv --subset =ids.txt": "2 --subset =ids.txt",
            "--disputed new.csv --subset all=ids.txt": "2 --subset all",
        },
        "agree ann.csv bob.csv",
    )  # fmt: skip
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# ---- the 827 pairs that Fröbe et al. annotated ---------------------------------------------------


MERGED = ("01-b-and-c", "02-a", "03-b", "04-b")
PAGE = (REPOSITORY / "docs" / "leakage.md").read_text(encoding="utf-8")

CORE_17 = (
    307, 310, 321, 325, 330, 336, 341, 344, 345, 347, 350, 353, 354, 355, 356, 362, 363, 367,
    372, 375, 378, 379, 389, 393, 394, 397, 399, 400, 404, 408, 414, 416, 419, 422, 423, 426,
    427, 433, 435, 436, 439, 442, 443, 445, 614, 620, 626, 646, 677, 690,
)  # fmt: skip
CORE_18 = (
    321, 336, 341, 347, 350, 362, 363, 367, 375, 378, 393, 397, 400, 408, 414, 422, 426, 427,
    433, 439, 442, 445, 626, 646, 690,
)  # fmt: skip
"""The topics of Robust04 that the two Common Core tracks took."""


@pytest.fixture(scope="module")
def upstream(real_data: Path) -> dict[str, Any]:
    text = (real_data / "published" / "upstream_golden.json").read_text()
    found: dict[str, Any] = json.loads(text)["spire22"]
    return found


@pytest.mark.realdata
def test_what_the_annotators_of_the_paper_say(
    real_data: Path, upstream: dict[str, Any], golden: Golden
) -> None:
    folder = real_data / "spire22-leakage"
    annotations = read_annotations([folder / f"annotations-{name}.jsonl" for name in MERGED])
    subsets = {
        "robust04": [str(topic) for topic in (*range(301, 451), *range(601, 701))],
        "core17": [*map(str, CORE_17)],
        "core18": [*map(str, (*CORE_18, *range(801, 826)))],
    }
    review = review_leakage(annotations, subsets=subsets)
    labels = {pair: label for pair, label in annotations.labels(LEAKAGE_QUESTION).items() if label}
    curve = ThresholdCurve(labels)
    golden.check_results("spire.csv", {"the 827 pairs": review})
    # Table 2, and on the page.
    titles = ("Robust04", "Common Core 2017", "Common Core 2018")
    for subset, title in zip(subsets, titles, strict=True):
        counts = [row.value for row in review.figures.where(slice=subset)]
        assert counts == [*upstream[subset]["true"], *upstream[subset]["false"]]
        assert f"| {title} | {' | '.join(f'{count:g}' for count in counts)} |" in PAGE
    assert len(review.facts["labels"]) == upstream["annotated"] == 827
    assert len({pair["test_id"] for pair in review.facts["labels"]}) == upstream["topics"]
    assert review.facts["unsettled"] == review.facts["disputed"] == []
    # No cosine equals one of these thresholds, so that "above" and "at least" are the same.
    for threshold, precision in upstream["precision_above"].items():
        assert round(curve.at(float(threshold))[2].value, 3) == precision
    lowest, sure = curve.lowest()
    kept, kept_by_sure = (int(curve.at(row.value)[0].value) for row in (lowest, sure))
    assert [lowest.value, kept] == upstream["lowest_inclusive_threshold_precision_0.9"]
    at_091, ends = curve.at(0.91)[2], "[{:.3f}, {:.3f}]"
    page = " ".join(PAGE.split())
    assert f"precision is {at_091.value:.3f} {ends.format(*at_091.interval)}" in page
    assert f"is {lowest.value:.3f} {ends.format(*lowest.interval)}, with {kept} pairs" in page
    assert f"is {sure.value:.3f}, with {kept_by_sure}." in page


@pytest.mark.realdata
def test_kappa_of_the_103(real_data: Path, upstream: dict[str, Any]) -> None:
    sheets = [real_data / "spire22-leakage" / f"agreement-01-{name}.jsonl" for name in "bc"]
    wins, loses = (
        {row.figure: row for row in review_leakage(read_annotations(sheets, both=both)).figures}
        for both in ("different", "type")
    )
    assert wins["judged_by_all"].value == 103
    kappas = upstream["kappa_103"]
    # Two lines name two types; upstream takes the first of each, we call them untyped.
    for row, kappa, error in (
        (wins["kappa_as_given"], kappas["title_label"], 0.001),
        (wins["kappa_of_leaking"], kappas["binary_different_topic"], 0.001),
        (loses["kappa_of_leaking"], kappas["binary_title_wins"], 0.001),
        (wins["kappa_of_types"], 0.422, 0.001),
        (loses["kappa_of_types"], kappas["title_label_wins_over_different"], 0.004),
    ):
        assert row.value == pytest.approx(kappa, abs=error)
        # What the paper prints lies inside every interval but that of labels as given.
        assert row.low < kappas["published"] < row.high or row.figure == "kappa_as_given"
