"""Sheets for annotators: their candidates, what filled-in ones say, and wrong ones."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from msshift_bench.data import QueryColumns, open_collection
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import CollectionError, NotFoundError, UsageError
from msshift_bench.search import Bm25, Bm25Parameters
from msshift_bench.similarity import annotation_sheet, read_annotations
from msshift_bench.stats import annotator_agreement
from tests.conftest import Command

QUERIES = open_collection("mini:300").queries
TRAIN = dict(zip(QUERIES.ids[:200], QUERIES.texts[:200], strict=True))
TEST = dict(zip(QUERIES.ids[198:204], QUERIES.texts[198:204], strict=True))
TERMS = EncoderSpec("terms")


def rows_of(sheet: str) -> list[dict[str, str]]:
    return list(csv.DictReader(sheet.splitlines()))


def test_candidates_are_the_first_of_bm25_and_of_the_encoder() -> None:
    from msshift_bench.records import Passage

    rows = rows_of(annotation_sheet(TRAIN, TEST, TERMS, candidates=4))
    index = Bm25([Passage(*one) for one in TRAIN.items()], Bm25Parameters())
    everything = QueryColumns(tuple(TRAIN | TEST), tuple((TRAIN | TEST).values()))
    embedded = embed_queries(everything, TERMS)
    vectors = dict(zip(embedded.query_ids, embedded.vectors.astype(float), strict=True))
    for query_id, text in TEST.items():
        mine = [row for row in rows if row["test_id"] == query_id]
        assert query_id not in {row["train_id"] for row in mine}
        (ranking,) = index.search([text])
        first = [other for other in ranking if other != query_id][:4]
        assert {row["train_id"] for row in mine if "BM25" in row["found_by"]} == set(first)
        cosines = {
            other: vectors[other] @ vectors[query_id] / np.linalg.norm(vectors[other])
            for other in TRAIN
            if other != query_id
        }
        recalled = {row["train_id"] for row in mine if "terms" in row["found_by"]}
        lowest = min(cosines[other] for other in recalled)
        assert len(recalled) == 4
        assert sum(cosine > lowest + 1e-6 for cosine in cosines.values()) < 4
    assert annotation_sheet(dict(reversed(TRAIN.items())), TEST, TERMS, candidates=4) == (
        annotation_sheet(TRAIN, TEST, TERMS, candidates=4)
    )


def filled(points: dict[tuple[str, str], tuple[int, int]]) -> str:
    lines = ["test_id,test_query,train_id,train_query,found_by,entity,intent"]
    lines += [f"{a},x,{b},y,BM25,{entity},{intent}" for (a, b), (entity, intent) in points.items()]
    return "\n".join(lines) + "\n"


def test_the_median_of_a_pair_and_the_highest_of_a_query_count(
    tmp_path: Path, msshift: Command
) -> None:
    judged = [
        {("1", "a"): (2, 0), ("1", "b"): (0, 0), ("2", "a"): (1, 1)},
        {("2", "a"): (1, 2), ("1", "a"): (1, 0), ("1", "b"): (1, 2)},
        {("1", "a"): (0, 0), ("1", "b"): (0, 0), ("2", "a"): (2, 2)},
    ]
    for name, points in zip("abc", judged, strict=True):
        (tmp_path / f"{name}.csv").write_text("\ufeff" + filled(points))
    found = read_annotations([tmp_path / f"{name}.csv" for name in "abc"])
    assert found.queries == {"entity": {"1": 1, "2": 1}, "intent": {"1": 0, "2": 2}}
    one = read_annotations([tmp_path / "a.csv", tmp_path / "b.csv"])
    # Of an even number the lower of the two in the middle counts.
    assert one.queries["entity"] == {"1": 1, "2": 1}
    done = msshift("annotate", "labels", "a.csv", "b.csv", "c.csv")
    assert done.returncode == 0, done.stderr
    assert "partial overlap" in done.stdout
    assert "Cohen's kappa" in done.stdout
    assert "3 annotators, 3 pairs of queries" in done.stdout
    values = json.loads(msshift("annotate", "labels", "a.csv", "--json").stdout)
    assert values["queries"]["intent"] == {"1": 0, "2": 1}
    assert values["agreement"] == {}
    assert repr(one) == "<SimilarityLabels: 2 annotators, 3 pairs>"
    alone = msshift("annotate", "labels", "a.csv")
    assert "of test queries" in alone.stdout
    assert "Cohen's kappa" not in alone.stdout


def test_no_sheet_takes_the_place_of_the_queries(tmp_path: Path, msshift: Command) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("1\twhat is a cat\n")
    for name in ("train.tsv", "test.tsv"):
        done = msshift(
            "annotate", "sheet", "--train", "train.tsv", "--test", "test.tsv", "--out", name
        )
        assert done.returncode == 2
        assert f"{name} is read, and would be overwritten" in done.stderr
        assert (tmp_path / name).read_text() == "1\twhat is a cat\n"


def test_wrong_sheets_are_refused_line_by_line(tmp_path: Path) -> None:
    good, other, empty, header = (tmp_path / f"{n}.csv" for n in ("good", "other", "empty", "head"))
    good.write_text(filled({("1", "a"): (0, 0), ("1", "b"): (0, 1)}))
    other.write_text(filled({("1", "a"): (0, 0), ("1", "c"): (0, 1)}))
    empty.write_text(good.read_text().replace("BM25,0,1", "BM25,,3"))
    header.write_text(good.read_text().replace("intent", "intend"))
    with pytest.raises(CollectionError, match=r"lacks 1 pairs of .*good\.csv, and has 1 others"):
        read_annotations([good, other])
    with pytest.raises(
        CollectionError, match=r"empty\.csv:3: entity is empty[^0]*0 \(zero overlap\)"
    ):
        read_annotations([good, empty])
    twice = tmp_path / "twice.csv"
    twice.write_text(good.read_text() + good.read_text().splitlines()[1] + "\n")
    with pytest.raises(CollectionError, match=r"twice\.csv:4: the pair '1' and 'a' again"):
        read_annotations([twice])
    with pytest.raises(
        NotFoundError, match=r"no file .*gone\.csv; give a sheet that was filled in"
    ):
        read_annotations([good, tmp_path / "gone.csv"])
    with pytest.raises(CollectionError, match="no column intent"):
        read_annotations([header])
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_text(good.read_text().replace(",x,b,", ",z,b,"))
    with pytest.raises(CollectionError, match=r"elsewhere\.csv:3: the pair '1' and 'b' has other"):
        read_annotations([good, elsewhere])
    (tmp_path / "link.csv").symlink_to(good)
    with pytest.raises(UsageError, match=r"link\.csv is given twice, and would agree with itself"):
        read_annotations([good, tmp_path / "link.csv"])
    with pytest.raises(UsageError, match="one per annotator"):
        read_annotations([])


def kappa(first: list[int], second: list[int]) -> float:
    n = len(first)
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    chance = sum(first.count(x) * second.count(x) for x in set(first)) / n**2
    return (agreed - chance) / (1 - chance)


def test_kappa_and_its_interval_by_hand() -> None:
    first, second, third = [0, 0, 1, 1, 2, 1], [0, 1, 1, 1, 2, 0], [0, 0, 1, 2, 2, 1]
    clusters = ["p", "p", "q", "q", "r", "r"]
    pairs = [(first, second), (first, third), (second, third)]
    found = annotator_agreement([first, second, third], clusters)
    assert found.pairs == pytest.approx([kappa(*pair) for pair in pairs])
    assert found.kappa == pytest.approx(np.mean(found.pairs))
    left_out = np.array(
        [
            np.mean(
                [
                    kappa(
                        *(
                            [x for x, c in zip(one, clusters, strict=True) if c != gone]
                            for one in pair
                        )
                    )
                    for pair in pairs
                ]
            )
            for gone in "pqr"
        ]
    )
    error = math.sqrt(2 / 3 * ((left_out - left_out.mean()) ** 2).sum())
    reach = stats.t.ppf(0.975, 2) * error / (1 - found.kappa**2)
    ends = (np.arctanh(found.kappa) - reach, np.arctanh(found.kappa) + reach)
    assert found.interval == pytest.approx(np.tanh(ends))


def test_no_interval_of_kappa_reaches_beyond_1() -> None:
    once_apart = annotator_agreement([[0, 1, 0, 1, 0], [0, 1, 0, 1, 1]], list("pqrst"))
    assert once_apart.interval is not None
    assert -1 < once_apart.interval.low < once_apart.kappa < once_apart.interval.high < 1
    perfect = annotator_agreement([[0, 1, 0, 1], [0, 1, 0, 1]], list("pqrs"))
    assert perfect.interval == (1, 1)


def test_agreement_that_chance_makes_certain_is_undefined() -> None:
    found = annotator_agreement([[1, 1], [1, 1]], ["p", "q"])
    assert (found.kappa, found.interval, found.pairs) == (None, None, (None,))
    perfect = annotator_agreement([[0, 1], [0, 1]], ["p", "p"])
    assert (perfect.kappa, perfect.interval) == (1, None)
    for wrong in ([[1, 1]], [[1], [1, 2]], [[], []]):
        with pytest.raises(UsageError, match="two annotators or more"):
            annotator_agreement(wrong, ["p", "q"])
