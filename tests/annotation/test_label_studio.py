"""Sheets and Label Studio: columns of a table, the export JSON-MIN, and the labeling interfaces."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from msshift_bench.annotation import (
    LEAKAGE,
    LEAKAGE_QUESTION,
    SIMILARITY,
    UNTYPED,
    Pair,
    Question,
    read_annotations,
    similarity_labels,
    write_sheet,
)
from msshift_bench.errors import CollectionError, UsageError
from tests.conftest import REPOSITORY

PAIR = Pair("9", "what is lyme disease", "1", "what is lyme")


@pytest.mark.parametrize(
    ("pairs", "columns"),
    [
        ([PAIR], []),
        ([PAIR, PAIR._replace(train_id="2", found_by="BM25")], ["found_by"]),
        # 0 is a cosine, and no empty cell.
        ([PAIR._replace(cosine=0.0, context="a topic")], ["cosine", "context"]),
    ],
)
def test_a_table_has_only_columns_that_a_pair_fills(
    tmp_path: Path, pairs: list[Pair], columns: list[str]
) -> None:
    path = tmp_path / "sheet.csv"
    write_sheet(pairs, LEAKAGE, path)
    with path.open(newline="") as file:
        header = next(csv.reader(file))
    needed = ["test_id", "test_text", "train_id", "train_text"]
    assert header == [*needed, *columns, "annotator", "label"]
    assert set(read_annotations([path]).unjudged) == set(pairs)


def minimal(path: Path, questions: tuple[Question, ...], *answers: dict[str, Any]) -> Path:
    """Write what Label Studio exports as JSON-MIN: an object per annotation of the pair."""
    write_sheet([PAIR], questions, path)
    (task,) = json.loads(path.read_text())
    facts = {"id": 7, "created_at": "2026-11-28T10:00:00Z", "lead_time": 3.5}
    records = [
        task["data"] | facts | {"annotation_id": n, "annotator": n} | answer
        for n, answer in enumerate(answers, 1)
    ]
    path.write_text(json.dumps(records))
    return path


def test_labels_of_json_min(tmp_path: Path) -> None:
    several = {"choices": ["identical", "reformulation"]}
    path = minimal(tmp_path / "min.json", LEAKAGE, {"label": "identical"}, {"label": several})
    annotations = read_annotations([path])
    assert annotations.annotators == ("1", "2")
    assert [LEAKAGE_QUESTION.label_of(verdict) for verdict in annotations.verdicts] == [
        "identical",
        UNTYPED,
    ]
    assert annotations.verdicts[0].pair == PAIR
    with pytest.raises(UsageError, match="holds verdicts or notes on 2 pairs"):
        write_sheet([PAIR], LEAKAGE, path)


def test_points_of_json_min(tmp_path: Path) -> None:
    answers = ({"entity": "2", "intent": "1"}, {"entity": "2", "intent": "2"})
    path = minimal(tmp_path / "min.json", SIMILARITY, *answers)
    labels = similarity_labels(read_annotations([path]))
    assert labels.facts["points"] == {"entity": {"9": 2}, "intent": {"9": 1}}


def test_an_unknown_label_of_json_min_is_refused_with_its_task(tmp_path: Path) -> None:
    path = minimal(tmp_path / "min.json", LEAKAGE, {"label": "identical"}, {"label": "same"})
    with pytest.raises(CollectionError) as refused:
        read_annotations([path])
    (finding,) = refused.value.findings
    assert (finding.code, finding.source) == ("unknown-label", f"{path}, task 2")
    assert "'same'" in finding.message
    assert "identical" in finding.fix


@pytest.mark.parametrize(("page", "questions"), [("leakage", LEAKAGE), ("analysis", SIMILARITY)])
def test_the_labeling_interface_of_a_page(
    tmp_path: Path, page: str, questions: tuple[Question, ...]
) -> None:
    text = (REPOSITORY / "docs" / f"{page}.md").read_text("utf-8")
    (block,) = re.findall(r"```xml\n(.*?)```", text, re.DOTALL)
    view = ElementTree.fromstring(block)
    choices = {
        one.attrib["name"]: [choice.attrib["value"] for choice in one.iter("Choice")]
        for one in view.iter("Choices")
    }
    answers = {
        question.name: [answer for answer in question.answers if answer != UNTYPED]
        for question in questions
    }
    assert choices == answers
    path = tmp_path / "sheet.json"
    write_sheet([PAIR], questions, path)
    (task,) = json.loads(path.read_text())
    shown = {one.attrib["value"].removeprefix("$") for one in view.iter("Text")}
    assert shown <= task["data"].keys()
    names = {one.attrib["name"] for one in view.iter("Text")}
    assert {one.attrib["toName"] for one in view.iter("Choices")} <= names
