"""Pairs of queries, and sheets of them that annotators filled in."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from msshift_bench.annotation import LEAKAGE, Pair, Question, write_sheet

PAIRS = [
    Pair(str(topic), f"topic {topic}", f"q{topic}-{n}", f"query {n}, <b>", "t", 1 - n / 50)
    for topic in range(4)
    for n in range(3)
]
IDS = [(pair.test_id, pair.train_id) for pair in PAIRS]

Answers = Mapping[tuple[str, str], str]
"""Pair -> its label; of similarity, the points of entity and of intent, such as ``20``."""


def fill(
    path: Path, answers: Answers, questions: Sequence[Question] = LEAKAGE, name: str = ""
) -> Path:
    """Write a sheet and fill it in, as an annotator does; of similarity, the judged pairs alone."""
    leaks = questions is LEAKAGE
    pairs = [pair for pair, ids in zip(PAIRS, IDS, strict=True) if leaks or ids in answers]
    path.parent.mkdir(exist_ok=True)
    write_sheet(pairs, questions, path, annotator=name)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            answer = answers.get((row["test_id"], row["train_id"]), "")
            labels = [answer] if leaks else answer
            names = (question.name for question in questions)
            writer.writerow(row | dict(zip(names, labels, strict=True)))
    return path
