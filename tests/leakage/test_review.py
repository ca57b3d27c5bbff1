"""Reviewed candidates: sheets, what annotators say together, and the threshold."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.annotation import LEAKAGE, Pair, read_annotations, write_sheet
from msshift_bench.errors import CollectionError, NotFoundError, UsageError
from msshift_bench.evaluation import Result
from msshift_bench.leakage import (
    FoundLeakage,
    LeakedPair,
    ThresholdCurve,
    draw_thresholds,
    pairs_to_judge,
    read_candidates,
    review_leakage,
)
from msshift_bench.stats import annotator_agreement
from tests.conftest import Command

PAIRS = [
    Pair(str(topic), f"topic {topic}", f"q{topic}-{n}", f"query {n}, <b>", "t", 1 - n / 50)
    for topic in range(4)
    for n in range(3)
]


def fill(path: Path, labels: dict[tuple[str, str], str], name: str | None = None) -> Path:
    write_sheet(PAIRS, LEAKAGE, path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            label = labels.get((row["test_id"], row["train_id"]), "")
            writer.writerow(row | {"label": label, "annotator": name or ""})
    return path


def texts(result: Result) -> list[str]:
    return [note.text for note in result.notes]


def test_a_sheet_holds_the_most_alike_of_each_test_query(tmp_path: Path) -> None:
    def pair(train_id: str, tier: str, cosine: float | None) -> LeakedPair:
        return LeakedPair("0", train_id, tier, cosine, "topic 0", f"query {train_id}")

    found = [
        pair("a", "same-text", None),
        pair("b", "same-words", None),
        pair("c", "near-duplicate", 0.92),
        pair("d", "near-duplicate", 0.96),
        pair("d", "same-passage", None),
        pair("e", "same-passage", None),
    ]
    FoundLeakage(tuple(found), 5, {}, {"encoder": "terms"}, ("0",)).write(tmp_path / "found")
    assert read_candidates(tmp_path / "found") == read_candidates(
        tmp_path / "found" / "candidates.parquet"
    )
    assert [one._replace(cosine=None) for one in read_candidates(tmp_path / "found")] == [
        one._replace(cosine=None) for one in found
    ]

    def chosen(**options: Any) -> dict[str, float | None]:
        pairs = pairs_to_judge(tmp_path / "found", **options)
        return {one.train_id: one.cosine for one in pairs}

    assert chosen(per_test=2) == {"b": None, "d": pytest.approx(0.96)}
    assert set(chosen(per_test=3)) == {"b", "c", "d"}
    assert set(chosen(per_test=None)) == {"b", "c", "d", "e"}
    assert set(chosen(certain=True)) == {"a", "b", "c", "d", "e"}
    write_sheet(pairs_to_judge(tmp_path / "found"), LEAKAGE, tmp_path / "sheet.csv")
    again = pairs_to_judge(tmp_path / "sheet.csv")
    assert [one.train_id for one in again] == list(chosen())


def test_candidates_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="msshift leakage find --out"):
        read_candidates(tmp_path)
    path = tmp_path / "candidates.parquet"
    path.write_bytes(b"PAR1 no")
    with pytest.raises(CollectionError, match="not a whole Parquet file"):
        read_candidates(path)
    texts = ("test_id", "test_text", "train_id", "train_text", "tier")
    pq.write_table(pa.table({name: ["x"] for name in texts}), path)
    with pytest.raises(CollectionError, match="no column cosine"):
        read_candidates(path)
    pq.write_table(pa.table({name: ["x"] for name in (*texts, "cosine")}), path)
    with pytest.raises(CollectionError, match="holds no numbers"):
        read_candidates(path)
    pq.write_table(pa.table({name: ["x"] for name in texts} | {"cosine": [1.0]}), path)
    with pytest.raises(CollectionError, match="there is no tier 'x'; expected same-text, "):
        read_candidates(path)
    sheet = tmp_path / "certain.csv"
    write_sheet([pair._replace(found_by="same-text") for pair in PAIRS], LEAKAGE, sheet)
    with pytest.raises(UsageError, match="no candidate"):
        pairs_to_judge(sheet)
    assert len(pairs_to_judge(sheet, per_test=2, certain=True)) == 8


def test_verdicts_are_counted(tmp_path: Path) -> None:
    a, b, c, d = ((pair.test_id, pair.train_id) for pair in PAIRS[:4])
    one = fill(tmp_path / "one.csv", {a: "identical", b: "Different", c: "identical"})
    two = fill(tmp_path / "two.csv", {a: "identical", b: "different", c: "reformulation"})
    three = fill(tmp_path / "x.csv", {a: "reformulation", c: "different", d: "different"}, "three")
    found = review_leakage(read_annotations([one, two, three]), subsets={"first": ["0"]})
    counts = {
        (row.figure, row.slice): row.value for row in found.figures if row.slice in ("all", "first")
    }
    assert [counts[f"leaking_{what}", "all"] for what in ("pairs", "test_queries")] == [2, 1]
    assert [counts[f"other_{what}", "all"] for what in ("pairs", "test_queries")] == [2, 2]
    assert [counts[f"other_{what}", "first"] for what in ("pairs", "test_queries")] == [1, 1]
    assert found.facts["unjudged"] == len(PAIRS) - 4
    judged = found.figures.where(figure="judged_by_both")
    assert [(row.system, row.against) for row in judged] == [
        ("one", "three"), ("one", "two"), ("three", "two")
    ]  # fmt: skip
    assert judged[1].value == 3
    assert found.figures.where(figure="kappa_of_leaking")[1].value == 1
    split = review_leakage(read_annotations([one, three]))
    assert split.facts["unsettled"] == [list(c)]
    assert "unsettled pairs: 1," in split.notes[0].text
    assert json.loads(json.dumps(found.to_json()))["labels"][0] == {
        "test_id": a[0], "train_id": a[1], "label": "identical"
    }  # fmt: skip
    with pytest.raises(UsageError, match="no pair of these sheets is judged"):
        review_leakage(read_annotations([fill(tmp_path / "empty.csv", {})]))
    with pytest.raises(UsageError, match="precision of 2"):
        review_leakage(read_annotations([one]), precision=2)


def test_the_threshold_by_hand() -> None:
    cosines = [0.99, 0.97, 0.97, 0.95, 0.93, 0.91]
    leaks = [True, True, False, True, True, False]
    curve = ThresholdCurve(cosines, leaks, list("abcdef"))
    thresholds, precision, recall = curve.every_point()
    assert thresholds.tolist() == [0.91, 0.93, 0.95, 0.97, 0.99]
    assert precision.tolist() == pytest.approx([4 / 6, 4 / 5, 3 / 4, 2 / 3, 1])
    assert recall.tolist() == pytest.approx([1, 1, 3 / 4, 1 / 2, 1 / 4])
    # Precision does not fall steadily: the lowest threshold that has it counts.
    lowest, sure = curve.lowest(0.8)
    assert lowest.value == 0.93
    assert [row.value for row in curve.at(0.93)][:2] == [5, 4]
    assert sure.value is None
    assert curve.lowest(0.9)[0].value == 0.99
    assert ThresholdCurve([0.5], [False], ["a"]).lowest()[0].value is None
    assert curve.round_thresholds() == pytest.approx(np.arange(91, 100) / 100)
    assert len(ThresholdCurve([-0.4, 1.0000002], [True] * 2, ["a", "b"]).round_thresholds()) <= 22
    lowest, sure = ThresholdCurve(
        [1 - n / 1000 for n in range(200)], [n < 100 for n in range(200)],
        [str(n // 2) for n in range(200)],
    ).lowest(0.9)  # fmt: skip
    assert lowest.low < lowest.value < lowest.high
    assert sure.value > lowest.value


def test_agreement_is_shown_with_its_interval(tmp_path: Path) -> None:
    judged = {
        (pair.test_id, pair.train_id): ("identical", "different")[n % 3]
        for n, pair in enumerate(PAIRS)
        if n % 3 < 2
    }
    last = max(judged)
    one = fill(tmp_path / "one.csv", judged)
    two = fill(tmp_path / "two.csv", judged | {last: "identical"})
    table = review_leakage(read_annotations([one, two])).tables()[2]
    # By hand: they agree on 7 of 8 pairs, and by chance on half of them.
    ((names, pairs, types, _, leaking),) = ([cell.text for cell in row] for row in table.rows)
    assert (names, pairs, types) == ("one and two", "8", leaking)
    first = [label == "identical" for label in judged.values()]
    second = [*first[:-1], True]
    found = annotator_agreement([first, second], [test_id for test_id, _ in judged])
    assert found.kappa == pytest.approx(0.75)
    assert found.interval is not None
    assert leaking == "0.750 [{:.2f}, {:.2f}]".format(*found.interval)


def test_what_cannot_be_estimated_is_a_dash(tmp_path: Path) -> None:
    a, b, c = ((pair.test_id, pair.train_id) for pair in PAIRS[:3])
    one = fill(tmp_path / "one.csv", {a: "identical", b: "different", c: "different"})
    two = fill(tmp_path / "two.csv", {a: "identical", b: "different", c: "identical"})

    def rows(found: Result) -> dict[str, list[list[str]]]:
        return {table.title: [[cell.text for cell in row] for row in table.rows]
                for table in found.tables()}  # fmt: skip

    both = review_leakage(read_annotations([one, two]))
    assert (len(both.facts["labels"]), len(both.facts["unsettled"])) == (2, 1)
    # By hand: they agree on 2 of 3, by chance on 4 of 9. A single test query has no interval.
    assert rows(both)["agreement: Cohen's kappa [95% interval]"] == [
        ["one and two", "3", "0.400", "-", "0.400"]
    ]
    one.write_text(one.read_text().replace(",1,", ",,"))
    alone = review_leakage(read_annotations([one]))
    assert "1 pairs have no cosine; thresholds leave them out" in texts(alone)
    assert "no threshold has a precision of 0.9" in texts(alone)
    assert [title for title in rows(alone) if "agreement" in title] == []
    # None of the two that have a cosine leaks, so there is nothing to recall.
    assert rows(alone)["precision and recall by threshold"] == [
        ["0.96", "2", "0", "0.000", "-"],
        ["0.97", "1", "0", "0.000", "-"],
        ["0.98", "1", "0", "0.000", "-"],
    ]


def test_where_every_pair_is_unsettled_nothing_is_counted(tmp_path: Path) -> None:
    pair = (PAIRS[0].test_id, PAIRS[0].train_id)
    one = fill(tmp_path / "one.csv", {pair: "identical"})
    two = fill(tmp_path / "two.csv", {pair: "different"})
    found = review_leakage(read_annotations([one, two]))
    counts, types, _ = ([[cell.text for cell in row] for row in t.rows] for t in found.tables())
    assert counts == [["all", "leaking", "0", "0"], ["all", "not", "0", "0"]]
    assert {tuple(row[1:]) for row in types} == {("0", "-")}
    assert "no pair that counts has a cosine, so there is no threshold to choose" in texts(found)
    assert found.facts["unsettled"] == [list(pair)]


@pytest.mark.parametrize(
    ("pairs", "leaking", "per_test", "title", "bands"),
    [
        (200, 100, 2, "lowest threshold with precision 0.9: 0.8900 [0.8780, 0.8970]", 2),
        # A single test query has no interval; recall is not drawn where nothing leaks.
        (4, 4, 4, "lowest threshold with precision 0.9: 0.9970", 0),
        (20, 0, 2, None, 1),
    ],
)
def test_the_picture_marks_the_threshold_and_its_interval(
    pairs: int, leaking: int, per_test: int, title: str | None, bands: int
) -> None:
    pytest.importorskip("matplotlib")
    curve = ThresholdCurve(
        [1 - n / 1000 for n in range(pairs)],
        [n < leaking for n in range(pairs)],
        [str(n // per_test) for n in range(pairs)],
    )
    drawn = draw_thresholds(curve, 0.9, "svg").decode()
    assert re.findall("<!-- (lowest .*) -->", drawn) == ([title] if title else [])
    assert len(re.findall('id="FillBetween', drawn)) == bands


def test_what_the_command_refuses(tmp_path: Path, msshift: Command) -> None:
    a, b = ((pair.test_id, pair.train_id) for pair in PAIRS[:2])
    fill(tmp_path / "ann.csv", {a: "identical", b: "different"})
    fill(tmp_path / "bob.csv", {a: "identical", b: "different"})
    command = ("agree", "ann.csv", "bob.csv")
    for option in ("first", "=ids.txt", "all=ids.txt"):
        done = msshift(*command, "--subset", option)
        assert done.returncode == 2
        assert "write NAME=FILE" in done.stderr
    (tmp_path / "ids.txt").write_text("0\n")
    done = msshift(*command, "--subset", "first=ids.txt", "--disputed", "disputed.csv")
    assert done.returncode == 0, done.stderr
    assert "annotators differ on no pair" in done.stderr
    assert not (tmp_path / "disputed.csv").exists()
    assert re.search(r"first +leaking +1 +1 ", done.stdout)
    assert re.search(r"ann and bob +2 +1\.000 +- +1\.000", done.stdout)
    done = msshift(*command, "--subset", "first=ids.txt", "--format", "json")
    first = {
        row["figure"]: row["value"]
        for row in json.loads(done.stdout)["figures"]
        if row.get("slice") == "first"
    }
    assert (first["leaking_pairs"], first["leaking_test_queries"]) == (1, 1)
    for name in ("ann.csv", "bob.csv"):
        (tmp_path / name).write_text(re.sub(r",(1|0\.9\d),", ",,", (tmp_path / name).read_text()))
    done = msshift(*command, "--plot", "thresholds.svg")
    assert done.returncode == 2
    assert "no judged pair has a cosine, so there is no threshold to choose" in done.stderr
    assert not (tmp_path / "thresholds.svg").exists()
    assert "so there is no threshold to choose" in msshift(*command).stdout
