"""Sheets of pairs: what is written, what is read back, and what annotators say together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.annotation import (
    LEAKAGE,
    LEAKAGE_QUESTION,
    SIMILARITY,
    Question,
    read_annotations,
    similar_pairs,
    similarity_labels,
    write_sheet,
)
from msshift_bench.data import open_collection
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import CollectionError
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters
from tests.conftest import Command
from tests.support.golden import Golden
from tests.support.refusals import check_exits, check_refusals
from tests.support.sheets import IDS, PAIRS, Answers, fill

A, B, C, D = IDS[:4]


def tasks(path: Path, answers: Sequence[Answers], questions: Sequence[Question]) -> Path:
    """Write what Label Studio exports of a sheet's tasks; an annotator is a number there."""
    write_sheet(PAIRS, questions, path)
    exported = json.loads(path.read_text())
    for task in exported:
        ids = task["data"]["test_id"], task["data"]["train_id"]
        task["annotations"] = []
        for person, labels in enumerate(answers, 1):
            answer = labels.get(ids, "")
            choices = [answer] if questions is LEAKAGE and answer else answer
            result = [
                {"from_name": question.name, "type": "choices", "value": {"choices": [label]}}
                for question, label in zip(questions, choices, strict=False)
            ]
            entry = {"completed_by": person, "was_cancelled": not answer, "result": result}
            task["annotations"].append(entry)
    path.write_text(json.dumps(exported))
    return path


def test_candidates_are_the_first_of_bm25_and_of_the_encoder() -> None:
    queries = list(open_collection("mini:300").queries.items())
    train, test = dict(queries[:200]), dict(queries[198:204])
    terms = EncoderSpec("terms")
    pairs = similar_pairs(train, test, terms, per_test=4)
    index = Bm25([Passage(*query) for query in train.items()], Bm25Parameters())
    every = train | test
    embedded = embed_queries(every, terms)
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
    assert set(similar_pairs(dict(reversed(train.items())), test, terms, per_test=4)) == set(pairs)


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sheet_holds_its_pairs_in_an_order_that_tells_nothing(
    ending: str, tmp_path: Path
) -> None:
    sheet, again = (tmp_path / f"{name}{ending}" for name in ("sheet", "again"))
    write_sheet(PAIRS, LEAKAGE, sheet)
    write_sheet(PAIRS[2::-1] + PAIRS[3:], LEAKAGE, again)
    assert sheet.read_text() == again.read_text()
    annotations = read_annotations([sheet])
    assert (annotations.verdicts, set(annotations.unjudged)) == ((), set(PAIRS))
    assert [pair.test_id for pair in annotations.unjudged] == [pair.test_id for pair in PAIRS]


def test_the_median_of_a_pair_and_the_highest_of_a_query_count(
    tmp_path: Path, msshift: Command, golden: Golden
) -> None:
    points = {"a": {A: "20", B: "00", D: "11"}, "b": {D: "12", A: "10", B: "12"},
              "c": {A: "00", B: "00", D: "22"}}  # fmt: skip
    sheets = [
        fill(tmp_path / f"{name}.csv", answers, SIMILARITY) for name, answers in points.items()
    ]
    labels = similarity_labels(read_annotations(sheets))
    points = {"entity": {"0": 1, "1": 1}, "intent": {"0": 0, "1": 2}}
    assert labels.facts["points"] == points
    two = similarity_labels(read_annotations(sheets[:2]))
    # Of an even number the lower of the two in the middle counts.
    assert two.facts["points"]["entity"] == {"0": 1, "1": 1}
    done = msshift("agree", "a.csv", "b.csv", "c.csv", "--disputed", "disputed.json")
    golden.check("agree.txt", done.stdout)
    figures = json.loads(msshift("agree", "a.csv", "--format", "json").stdout)["figures"]
    shares = {row["slice"]: row["value"] for row in figures if row["figure"] == "share"}
    assert shares == {
        "full overlap": 0.5, "partial overlap": 0.5, "zero overlap": 0.0,
        "duplicate": 0.0, "similar": 0.5, "dissimilar": 0.5,
    }  # fmt: skip
    options = ("--precision 1", "--subset a=b", "--both type")
    check_exits(
        msshift,
        {f"agree a.csv {option} --disputed d.csv": f"2 {option.split()[0]}" for option in options},
    )
    disputed = [task["data"] for task in json.loads((tmp_path / "disputed.json").read_text())]
    assert {data["annotator"] for data in disputed} == {"agreed"}
    assert disputed[-1]["context"] == "a: 1 and 1, b: 1 and 2, c: 2 and 2"
    assert not (tmp_path / "d.csv").exists()


def test_what_label_studio_exports_is_what_a_table_says(tmp_path: Path) -> None:
    answers = [{A: "identical", B: "Different"}, {A: "untyped", C: "reformulation"}]
    path = tasks(tmp_path / "out.json", answers, LEAKAGE)
    sheets = [fill(tmp_path / f"{n}.csv", labels) for n, labels in enumerate(answers, 1)]
    of_tasks, of_tables = read_annotations([path]), read_annotations(sheets)
    assert of_tasks.labels(LEAKAGE_QUESTION) == of_tables.labels(LEAKAGE_QUESTION)
    assert set(of_tasks.annotators) == {"1", "2"}
    assert set(of_tasks.unjudged) == set(of_tables.unjudged)
    exported = json.loads(path.read_text())
    for annotation in (entry for task in exported for entry in task["annotations"]):
        annotation["completed_by"] = {"id": 3, "email": f"{annotation['completed_by']}@x"}
        annotation["result"].append({"from_name": "why", "type": "textarea", "value": {}})
    path.write_text(json.dumps(exported))
    assert set(read_annotations([path]).annotators) == {"1@x", "2@x"}
    # A point that its annotator did not give is missed, where all must judge all pairs.
    points = dict.fromkeys(IDS, "12")
    alike = tmp_path / "alike.json"
    tasks(alike, [points], SIMILARITY)
    assert similarity_labels(read_annotations([alike])).facts["points"]["intent"]["3"] == 2
    alike.unlink()
    tasks(alike, [points | {B: "1"}], SIMILARITY)
    with pytest.raises(CollectionError, match=r"alike\.json, task \d: intent"):
        read_annotations([alike])
    for wrong in ('{"data": 1}', "[1]", "[", '[{"data": {}, "annotations": [{}]}]'):
        path.write_text(wrong)
        with pytest.raises(CollectionError, match="Label Studio"):
            read_annotations([path])


def test_annotators_are_merged(tmp_path: Path) -> None:
    one = fill(tmp_path / "one.csv", {A: "identical", B: "Different", C: "identical"})
    two = fill(tmp_path / "two.csv", {A: "identical", B: "different", C: "reformulation"})
    answers = {A: "reformulation", C: "different", D: "different"}
    three = fill(tmp_path / "x.csv", answers, name="three")
    agreed = fill(tmp_path / "agreed.csv", {C: "specialization"}, name="agreed")
    merged = read_annotations([one, two, three])
    for sheets, of_a, of_c, disputed in (
        ([one, two, three], "identical", "untyped", 2),
        ([one, three], "untyped", None, 2),
        # What was judged together settles the pair, and has no part in the agreement.
        ([one, three, agreed], "untyped", "specialization", 1),
    ):
        annotations = read_annotations(sheets)
        labels = annotations.labels(LEAKAGE_QUESTION).items()
        assert {(pair.test_id, pair.train_id): label for pair, label in labels} == {
            A: of_a, B: "different", C: of_c, D: "different"
        }  # fmt: skip
        assert len(annotations.disputed()) == disputed
    assert annotations.annotators == ("one", "three")
    context = {pair.train_id: pair.context for pair in merged.pairs_to_settle()}[A[1]]
    assert context == "one: identical, two: identical, three: reformulation"
    assert merged.agreement(["one", "two"], LEAKAGE_QUESTION.label_of).items == 3
    assert merged.agreement(["one"], str) is None


GOOD: Answers = {A: "identical", B: "different"}


WRONG = [
    ("label", "lable", "[no-column] bob.csv:1 fix"),
    ("0.98", "high", "[not-a-number] bob.csv:4 'high' fix"),
    ("0.98", "0.97", "[other-texts] bob.csv:4 fix"),
    ("0,topic 0", ",topic 0", "[empty-id] bob.csv:2 fix"),
    ("topic 0", "topic zero", "[other-texts] bob.csv:2 fix"),
    ("identical", "identicle", "[unknown-label] bob.csv:2 'identicle' fix"),
    ("topic", "t\udcff", "[not-utf8] bob.csv"),
    (",,identical", ",ann,identical", "[two-verdicts] bob.csv:2 fix"),
]
"""Text in a filled-in sheet, its replacement, and the facts of the error."""


def test_wrong_sheets_are_refused_line_by_line(tmp_path: Path) -> None:
    refusals = {}
    for number, (old, new, facts) in enumerate(WRONG):
        ann, bob = (fill(tmp_path / f"{number}/{name}.csv", GOOD) for name in ("ann", "bob"))
        text = bob.read_text().replace(old, new, 1)
        bob.write_bytes(text.encode("utf-8", "surrogateescape"))
        refusals[f"{number}: CollectionError {facts}"] = partial(read_annotations, [ann, bob])
    # Tables hold fewer digits than the file of candidates.
    rounded = fill(tmp_path / "rounded.csv", GOOD)
    rounded.write_text(rounded.read_text().replace("0.98", "0.97999999", 1))
    read_annotations([ann, rounded])
    good = fill(tmp_path / "good.csv", {A: "00", B: "01"}, SIMILARITY)
    further = fill(tmp_path / "further.csv", {A: "00", C: "01"}, SIMILARITY)
    empty = fill(tmp_path / "empty.csv", {A: "00", B: " 1"}, SIMILARITY)
    leaks = fill(tmp_path / "leaks.csv", GOOD)
    link, header, none = (tmp_path / f"{name}.csv" for name in ("link", "header", "none"))
    link.symlink_to(good)
    header.write_text(good.read_text().replace("intent", "intend"))
    none.write_text(good.read_text().splitlines()[0] + "\n")
    refusals |= {
        "CollectionError [other-pairs] further 1 fix": partial(read_annotations, [good, further]),
        "CollectionError [unknown-label] empty.csv:3 fix": partial(read_annotations, [good, empty]),
        "CollectionError [no-column] header.csv:1 fix": partial(read_annotations, [header]),
        "no pair: UsageError pair": partial(read_annotations, [none]),
        "NotFoundError gone.csv": partial(read_annotations, [good, tmp_path / "gone.csv"]),
        "UsageError link.csv": partial(read_annotations, [good, link]),
        "UsageError sheets": partial(read_annotations, []),
        "UsageError entity label": partial(read_annotations, [good, leaks]),
        "UnknownNameError '.txt' .csv": partial(
            write_sheet, PAIRS, LEAKAGE, tmp_path / "sheet.txt"
        ),
        "no pair to write: UsageError pair": partial(
            write_sheet, [], LEAKAGE, tmp_path / "sheet.csv"
        ),
    }
    check_refusals(refusals)


def test_tables_are_read_as_spreadsheets_write_them(tmp_path: Path) -> None:
    sheet = fill(tmp_path / "sheet.csv", {A: "20"}, SIMILARITY)
    sheet.write_text(sheet.read_text().replace(",", "\t"))
    assert similarity_labels(read_annotations([sheet])).facts["points"]["entity"] == {"0": 2}
    path = fill(tmp_path / "ann.csv", {})
    header, *_ = path.read_text().splitlines()
    for rows in (2, 20_000):  # A mark that is not closed swallows no rows.
        lines = [f"t{n},a,q,b,t,0.9,ann,identical" for n in range(rows)]
        path.write_text("\n".join([header, lines[0].replace(",a,", ',"a,'), *lines[1:], ""]))
        with pytest.raises(CollectionError, match=r"ann\.csv:\d+: .*\[not-csv\]"):
            read_annotations([path])
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
        annotations = read_annotations([path], both=both)
        assert annotations.annotators in ((), ("a",))
        return {
            pair.train_id: label for pair, label in annotations.labels(LEAKAGE_QUESTION).items()
        }

    assert labels({}) == {"1": "different"}
    assert labels({}, both="type") == {"1": "identical"}
    several = ["Title-Identical", "Title-Reformulation", "Variant-Generalization"]
    assert labels({"label": several}) == labels({"label": several[2:]}) == {"1": "untyped"}
    assert labels({"label": []}) == {}
    second = {"ms-marco-qid": 2}
    check_refusals({
        "CollectionError [unknown-label] annotations-01-a.jsonl:2 'Title-Same' fix":
            partial(labels, {}, second | {"label": ["Title-Same"]}),
        "CollectionError [unknown-label] annotations-01-a.jsonl:2 fix":
            partial(labels, {}, second | {"label": "Title-Identical and"}),
        "CollectionError [not-a-number] annotations-01-a.jsonl:2 'nan' fix":
            partial(labels, {}, second | {"cosine_similarity": float("nan")}),
        "UsageError 'neither' 'different'": partial(labels, both="neither"),
    })  # fmt: skip
    path.write_text('{"topic": 1}\n[\n')
    with pytest.raises(CollectionError, match=r"'title'[^]]*\]\n.*\n.*:2: .*JSON"):
        read_annotations([path])


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sheet_takes_the_place_of_an_empty_one_and_of_nothing_else(
    tmp_path: Path, msshift: Command, ending: str
) -> None:
    (tmp_path / "train.tsv").write_text("1\twhat is lyme\n2\twho was ada\n")
    (tmp_path / "test.tsv").write_text("9\twhat is lyme disease\n")
    sheet = tmp_path / f"sheet{ending}"
    command = ("annotate", "--train", "train.tsv", "--test", "test.tsv", "--out", sheet.name)
    assert msshift(*command).returncode == 0
    assert msshift(*command).returncode == 0  # There was nothing to lose.
    sheet.write_text("[1]" if ending == ".json" else "a poem\n")
    assert "is not a sheet to fill in" in msshift(*command).stderr


def test_what_annotate_refuses(tmp_path: Path, msshift: Command) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("1\twhat is a cat\n")
    files = "--train train.tsv --test test.tsv"
    check_exits(
        msshift,
        {
            f"{files} --out train.tsv": "2 train.tsv",
            f"{files} --out test.tsv": "2 test.tsv",
            "--train train.tsv": "2 --train --test --candidates",
            f"{files} --candidates found": "2 --candidates",
            "": "2 --train --test --candidates",
            f"{files} --certain": "2 --certain",
            "--candidates found --encoder terms": "2 --encoder",
        },
        "annotate",
    )
    assert {path.read_text() for path in tmp_path.iterdir()} == {"1\twhat is a cat\n"}
