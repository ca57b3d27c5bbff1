"""Sheets of pairs: what is written, what is read back, and what annotators say together."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.annotation import (
    LEAKAGE,
    LEAKS,
    SIMILARITY,
    Pair,
    Question,
    read_annotations,
    similar_pairs,
    similarity_labels,
    write_sheet,
)
from msshift_bench.data import QueryColumns, open_collection
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import CollectionError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters
from tests.conftest import Command

PAIRS = [
    Pair(str(topic), f"topic {topic}", f"q{topic}-{n}", f"query {n}, <b>", "t", 1 - n / 50)
    for topic in range(4)
    for n in range(3)
]
A, B, C, D = ((pair.test_id, pair.train_id) for pair in PAIRS[:4])

Said = Mapping[tuple[str, str], Sequence[str]]
"""Pair -> a label for each question."""


def fill(path: Path, said: Said, kind: Sequence[Question] = LEAKAGE, name: str = "") -> Path:
    """Write a sheet and fill it in, as an annotator does; of similarity, the judged pairs alone."""
    pairs = [one for one in PAIRS if kind is LEAKAGE or (one.test_id, one.train_id) in said]
    write_sheet(pairs, kind, path, annotator=name)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            labels = said.get((row["test_id"], row["train_id"]), [""] * len(kind))
            asked = (question.name for question in kind)
            writer.writerow(row | dict(zip(asked, labels, strict=True)))
    return path


def tasks(path: Path, said: Sequence[tuple[int, Said]], kind: Sequence[Question]) -> Path:
    """Write what Label Studio exports of a sheet's tasks; an annotator is a number there."""
    write_sheet(PAIRS, kind, path)
    exported = json.loads(path.read_text())
    for task in exported:
        ids = task["data"]["test_id"], task["data"]["train_id"]
        task["annotations"] = [
            {
                "completed_by": person,
                "was_cancelled": not labels.get(ids),
                "result": [
                    {"from_name": one.name, "type": "choices", "value": {"choices": [label]}}
                    for one, label in zip(kind, labels.get(ids, ()), strict=False)
                ],
            }
            for person, labels in said
        ]
    path.write_text(json.dumps(exported))
    return path


def test_candidates_are_the_first_of_bm25_and_of_the_encoder() -> None:
    queries = open_collection("mini:300").queries
    train = dict(zip(queries.ids[:200], queries.texts[:200], strict=True))
    test = dict(zip(queries.ids[198:204], queries.texts[198:204], strict=True))
    terms = EncoderSpec("terms")
    pairs = similar_pairs(train, test, terms, per_test=4)
    index = Bm25([Passage(*one) for one in train.items()], Bm25Parameters())
    embedded = embed_queries(
        QueryColumns(tuple(train | test), tuple((train | test).values())), terms
    )
    vectors = dict(zip(embedded.query_ids, embedded.vectors.astype(float), strict=True))
    for query_id, text in test.items():
        candidates = [pair for pair in pairs if pair.test_id == query_id]
        assert query_id not in {pair.train_id for pair in candidates}
        (ranking,) = index.search([text])
        first = [train_id for train_id in ranking if train_id != query_id][:4]
        assert {pair.train_id for pair in candidates if "BM25" in pair.found_by} == set(first)
        cosines = {
            train_id: vectors[train_id] @ vectors[query_id] / np.linalg.norm(vectors[train_id])
            for train_id in train
            if train_id != query_id
        }
        recalled = {pair.train_id for pair in candidates if "terms" in pair.found_by}
        lowest = min(cosines[train_id] for train_id in recalled)
        assert len(recalled) == 4
        assert sum(cosine > lowest + 1e-6 for cosine in cosines.values()) < 4
    again = similar_pairs(dict(reversed(train.items())), test, terms, per_test=4)
    assert set(again) == set(pairs)


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sheet_holds_its_pairs_in_an_order_that_tells_nothing(
    ending: str, tmp_path: Path
) -> None:
    write_sheet(PAIRS, LEAKAGE, tmp_path / f"one{ending}")
    write_sheet(PAIRS[2::-1] + PAIRS[3:], LEAKAGE, tmp_path / f"two{ending}")
    text = (tmp_path / f"one{ending}").read_text()
    assert text == (tmp_path / f"two{ending}").read_text()
    found = read_annotations([tmp_path / f"one{ending}"])
    assert (found.verdicts, set(found.unjudged)) == ((), set(PAIRS))
    assert [pair.test_id for pair in found.unjudged] == [pair.test_id for pair in PAIRS]


def test_sheets_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"\.csv, \.json"):
        write_sheet(PAIRS, LEAKAGE, tmp_path / "sheet.txt")
    with pytest.raises(UsageError, match="no pair"):
        write_sheet([], LEAKAGE, tmp_path / "sheet.csv")


def test_the_median_of_a_pair_and_the_highest_of_a_query_count(
    tmp_path: Path, msshift: Command
) -> None:
    points: list[dict[tuple[str, str], str]] = [
        {A: "20", B: "00", D: "11"}, {D: "12", A: "10", B: "12"}, {A: "00", B: "00", D: "22"}
    ]  # fmt: skip
    for name, said in zip("abc", points, strict=True):
        fill(
            tmp_path / f"{name}.csv", {pair: list(both) for pair, both in said.items()}, SIMILARITY
        )
    sheets = [tmp_path / f"{name}.csv" for name in "abc"]
    labels = similarity_labels(read_annotations(sheets))
    assert labels.queries == {"entity": {"0": 1, "1": 1}, "intent": {"0": 0, "1": 2}}
    two = similarity_labels(read_annotations(sheets[:2]))
    # Of an even number the lower of the two in the middle counts.
    assert two.queries["entity"] == {"0": 1, "1": 1}
    assert repr(two) == "<SimilarityLabels: 2 annotators, 3 pairs>"
    done = msshift("agree", "a.csv", "b.csv", "c.csv", "--disputed", "disputed.json")
    assert done.returncode == 0, done.stderr
    assert "partial overlap" in done.stdout
    assert "Cohen's kappa" in done.stdout
    assert "3 annotators, 3 pairs of queries" in done.stdout
    disputed = json.loads((tmp_path / "disputed.json").read_text())
    assert {one["data"]["annotator"] for one in disputed} == {"agreed"}
    assert disputed[-1]["data"]["context"] == "a says 1 and 1, b says 1 and 2, c says 2 and 2"
    values = json.loads(msshift("agree", "a.csv", "--format", "json").stdout)
    assert values["queries"]["intent"] == {"0": 0, "1": 1}
    assert values["agreement"] == {}
    alone = msshift("agree", "a.csv", "--format", "markdown")
    assert "| of test queries |" in alone.stdout
    assert "Cohen's kappa" not in alone.stdout
    for option in (("--plot", "x.svg"), ("--subset", "a=b"), ("--both", "type")):
        refused = msshift("agree", "a.csv", *option)
        assert (
            refused.returncode,
            f"{option[0]} and sheets that ask for entity" in refused.stderr,
        ) == (2, True)
    assert "unknown format 'csv'" in msshift("agree", "a.csv", "--format", "csv").stderr


def test_what_label_studio_exports_is_what_a_table_says(tmp_path: Path) -> None:
    said = {A: ["identical"], B: ["Different"]}, {A: ["untyped"], C: ["reformulation"]}
    exported = tasks(tmp_path / "out.json", list(zip((1, 2), said, strict=True)), LEAKAGE)
    sheets = [fill(tmp_path / f"{n}.csv", one) for n, one in zip((1, 2), said, strict=True)]
    one, two = read_annotations([exported]), read_annotations(sheets)
    assert one.labels(LEAKS) == two.labels(LEAKS)
    assert set(one.annotators) == {"1", "2"}
    assert set(one.unjudged) == set(two.unjudged)
    told = json.loads(exported.read_text())
    for task in told:
        for annotation in task["annotations"]:
            annotation["completed_by"] = {"id": 3, "email": f"{annotation['completed_by']}@x"}
            annotation["result"].append({"from_name": "why", "type": "textarea", "value": {}})
    exported.write_text(json.dumps(told))
    assert set(read_annotations([exported]).annotators) == {"1@x", "2@x"}
    # A point that its annotator did not give is missed, where all must judge all pairs.
    points = {(pair.test_id, pair.train_id): ["1", "2"] for pair in PAIRS}
    alike = tasks(tmp_path / "alike.json", [(7, points)], SIMILARITY)
    assert similarity_labels(read_annotations([alike])).queries["intent"]["3"] == 2
    alike.unlink()
    tasks(alike, [(7, points | {B: ["1"]})], SIMILARITY)
    with pytest.raises(CollectionError, match=r"alike\.json, task \d: intent is empty"):
        read_annotations([alike])
    for wrong in ('{"data": 1}', "[1]", "[", '[{"data": {}, "annotations": [{}]}]'):
        exported.write_text(wrong)
        with pytest.raises(CollectionError, match="not tasks of Label Studio"):
            read_annotations([exported])


def test_annotators_are_merged(tmp_path: Path) -> None:
    one = fill(tmp_path / "one.csv", {A: ["identical"], B: ["Different"], C: ["identical"]})
    two = fill(tmp_path / "two.csv", {A: ["identical"], B: ["different"], C: ["reformulation"]})
    said = {A: ["reformulation"], C: ["different"], D: ["different"]}
    three = fill(tmp_path / "x.csv", said, name="three")
    found = read_annotations([one, two, three])
    labels = {(pair.test_id, pair.train_id): label for pair, label in found.labels(LEAKS).items()}
    assert labels == {A: "identical", B: "different", C: "untyped", D: "different"}
    assert found.annotators == ("one", "two", "three")
    assert len(found.unjudged) == len(PAIRS) - 4
    assert {said[0].pair for said in found.disputed()} == {PAIRS[0], PAIRS[2]}
    told = {pair.train_id: pair.context for pair in found.pairs_to_settle()}[A[1]]
    assert told == "one says identical, two says identical, three says reformulation"
    agreement = found.agreement(["one", "two"], lambda verdict: verdict.labels["label"])
    assert agreement is not None
    assert agreement.items == 3
    assert found.agreement(["one"], str) is None
    split = read_annotations([one, three])
    (unsettled,) = (pair for pair, label in split.labels(LEAKS).items() if label is None)
    assert unsettled == PAIRS[2]
    # What was judged together settles the pair, and has no part in the agreement.
    agreed = fill(tmp_path / "agreed.csv", {C: ["specialization"]}, name="agreed")
    settled = read_annotations([one, three, agreed])
    assert settled.labels(LEAKS)[PAIRS[2]] == "specialization"
    assert settled.annotators == ("one", "three")
    assert len(settled.disputed()) == 1
    # Written tables hold fewer digits of a cosine than the file of candidates.
    rounded = re.sub(r",0\.9[68],", ",0.95999999,", one.read_text())
    one.write_text(rounded)
    with pytest.raises(CollectionError, match="another cosine"):
        read_annotations([one, three])


GOOD = {A: ["identical"], B: ["different"]}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label", "lable", "no column label"),
        ("0.98", "high", "cosine is 'high'"),
        ("0,topic 0", ",topic 0", "test_id or train_id is empty"),
        ("topic 0", "topic zero", "has other texts or another cosine than"),
        ("identical", "identicle", r"bob\.csv:\d: label is 'identicle'[^:]*: write identical"),
        ("topic", "t\udcff", "not UTF-8"),
        ("annotator", "annotated", r"ann judges the pair .* again, after .*ann\.csv:\d"),
    ],
)
def test_wrong_sheets_are_refused_line_by_line(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    good = fill(tmp_path / "ann.csv", GOOD)
    bob = fill(tmp_path / "bob.csv", GOOD)
    sheets = [good, bob]
    if old == "annotator":
        sheets = [good, fill(tmp_path / "two.csv", {A: ["identical"]}, name="ann")]
    else:
        text = bob.read_text().replace(old, new, 1)
        bob.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CollectionError, match=message):
        read_annotations(sheets)


def test_wrong_sheets_of_similarity_are_refused(tmp_path: Path) -> None:
    good = fill(tmp_path / "good.csv", {A: ["0", "0"], B: ["0", "1"]}, SIMILARITY)
    other = fill(tmp_path / "other.csv", {A: ["0", "0"], C: ["0", "1"]}, SIMILARITY)
    empty = fill(tmp_path / "empty.csv", {A: ["0", "0"], B: ["", "1"]}, SIMILARITY)
    with pytest.raises(CollectionError, match="other lacks 1 pairs of good, and judges 1 others"):
        read_annotations([good, other])
    with pytest.raises(CollectionError, match=r"empty\.csv:\d: entity is empty[^0]*0 \(zero over"):
        read_annotations([good, empty])
    header = tmp_path / "header.csv"
    header.write_text(good.read_text().replace("intent", "intend"))
    with pytest.raises(CollectionError, match="no column intent"):
        read_annotations([header])
    header.write_text(good.read_text().splitlines()[0] + "\n")
    with pytest.raises(UsageError, match="hold no pair"):
        read_annotations([header])
    with pytest.raises(NotFoundError, match=r"no file .*gone\.csv; give a sheet that was filled"):
        read_annotations([good, tmp_path / "gone.csv"])
    (tmp_path / "link.csv").symlink_to(good)
    with pytest.raises(UsageError, match=r"link\.csv is given twice, and would agree with itself"):
        read_annotations([good, tmp_path / "link.csv"])
    with pytest.raises(UsageError, match="one per annotator"):
        read_annotations([])
    with pytest.raises(UsageError, match="give sheets of one kind"):
        read_annotations([good, fill(tmp_path / "leaks.csv", GOOD)])


@pytest.mark.parametrize("rows", [2, 20_000])
def test_a_quotation_mark_that_is_not_closed_swallows_no_rows(tmp_path: Path, rows: int) -> None:
    path = fill(tmp_path / "ann.csv", {})
    header, *_ = path.read_text().splitlines()
    lines = [f"t{n},a,q,b,t,0.9,ann,identical" for n in range(rows)]
    path.write_text("\n".join([header, lines[0].replace(",a,", ',"a,'), *lines[1:], ""]))
    with pytest.raises(CollectionError, match=r"ann\.csv:\d+: not CSV: .*\[not-csv\]"):
        read_annotations([path])
    # Marks as spreadsheets write them.
    path.write_text("\n".join([header, lines[0].replace(",a,", ',"a ""b"", c",'), ""]))
    assert [verdict.pair.test_text for verdict in read_annotations([path]).verdicts] == ['a "b", c']


def test_json_lines_are_read_as_they_were_published(tmp_path: Path) -> None:
    line = {
        "topic": 7, "title": "t", "ms-marco-qid": 1, "data": "q", "cosine_similarity": 0.95,
        "label": ["Different Topic", "Title-Identical"], "variant": "v", "narrative": "",
    }  # fmt: skip
    path = tmp_path / "annotations-01-a.jsonl"

    def labels(*changes: dict[str, object], both: str = "different") -> dict[str, str | None]:
        path.write_text("".join(json.dumps(line | change) + "\n" for change in changes))
        found = read_annotations([path], both=both)
        assert found.annotators in ((), ("a",))
        return {pair.train_id: label for pair, label in found.labels(LEAKS).items()}

    assert labels({}) == {"1": "different"}
    assert labels({}, both="type") == {"1": "identical"}
    several = ["Title-Identical", "Title-Reformulation", "Variant-Generalization"]
    assert labels({"label": several}) == {"1": "untyped"}
    assert labels({"label": several[2:]}) == {"1": "untyped"}
    assert labels({"label": []}) == {}
    for wrong, message in (
        ({"label": ["Title-Same"]}, r"a\.jsonl:2: label is 'Title-Same'"),
        ({"label": "Title-Identical and"}, "label is 'Title-Identical and'"),
        ({"cosine_similarity": float("nan")}, "cosine is 'nan'"),
    ):
        with pytest.raises(CollectionError, match=message):
            labels({}, {"ms-marco-qid": 2} | wrong)
    path.write_text('{"topic": 1}\n[\n')
    with pytest.raises(CollectionError, match=r"no 'title'[^]]*\]\n.*\n.*:2: not a JSON"):
        read_annotations([path])
    with pytest.raises(UsageError, match="both is 'neither'"):
        labels({}, both="neither")


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_no_sheet_takes_the_place_of_one_that_was_filled_in(
    tmp_path: Path, msshift: Command, ending: str
) -> None:
    (tmp_path / "train.tsv").write_text("1\twhat is lyme\n2\twho was ada\n")
    (tmp_path / "test.tsv").write_text("9\twhat is lyme disease\n")
    sheet = tmp_path / f"sheet{ending}"
    command = ("annotate", "--train", "train.tsv", "--test", "test.tsv", "--out", sheet.name)
    assert msshift(*command).returncode == 0
    assert msshift(*command).returncode == 0  # There was nothing to lose.
    if ending == ".csv":
        header, first, *others = sheet.read_text().splitlines()
        sheet.write_text("\n".join([header, first.removesuffix(",,") + ",2,1", *others]))
    else:
        choice = {"from_name": "entity", "type": "choices", "value": {"choices": ["2"]}}
        tasks = json.loads(sheet.read_text())
        tasks[0]["annotations"] = [{"completed_by": 1, "result": [choice]}]
        sheet.write_text(json.dumps(tasks))
    filled = sheet.read_text()
    done = msshift(*command)
    assert done.returncode == 2
    assert f"{sheet.name} holds verdicts on 1 pairs, and would be lost" in done.stderr
    sheet.write_text("[1]" if ending == ".json" else "a poem\n")
    assert "is no sheet to fill in, and would be lost" in msshift(*command).stderr
    assert sheet.read_text() != filled


def test_no_sheet_takes_the_place_of_the_queries(tmp_path: Path, msshift: Command) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("1\twhat is a cat\n")
    files = ("--train", "train.tsv", "--test", "test.tsv")
    for name in ("train.tsv", "test.tsv"):
        done = msshift("annotate", *files, "--out", name)
        assert done.returncode == 2
        assert f"{name} is read, and would be overwritten" in done.stderr
        assert (tmp_path / name).read_text() == "1\twhat is a cat\n"
    either = "give --train and --test, or --candidates"
    for wrong, message in (
        (files[:2], either),
        ((*files, "--candidates", "found"), either),
        ((), either),
        ((*files, "--certain"), "--certain is for --candidates"),
        (("--candidates", "found", "--encoder", "terms"), "--encoder is for --train"),
    ):
        done = msshift("annotate", *wrong)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
