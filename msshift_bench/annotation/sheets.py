"""Sheets: pairs of queries that people judge, as a table (CSV) or as tasks of Label Studio (JSON).

A table has the columns `COLUMNS` and one per question. A task holds the same cells in its ``data``,
and what annotators chose in its ``annotations``; the ``from_name`` of a choice is the question.

The 827 annotated pairs of Fröbe et al. (SPIRE 2022) are read as they were published: a JSON object
a line (``.jsonl``), whose ``label`` is a list of ``Title-<type>``, ``Variant-<type>`` and
``Different Topic``; the name of a file ends on its annotators. What the query is to the topic's
title counts, as in the paper.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.annotation.labels import (
    CONTEXT_RULE,
    DIFFERENT,
    LEAKAGE,
    LEAKS,
    REFORMULATIONS,
    SIMILARITY,
    UNTYPED,
    Annotations,
    Pair,
    PairVerdict,
    Question,
)
from msshift_bench.errors import (
    CollectionError,
    FindingLog,
    NotFoundError,
    UnknownNameError,
    UsageError,
    quoted,
)
from msshift_bench.output import csv_text
from msshift_bench.plumbing import csv_rows, jsonl_records, write_atomically

__all__ = ["COLUMNS", "SHEET_ENDINGS", "read_annotations", "write_sheet"]

SHEET_ENDINGS = (".csv", ".json")
COLUMNS = (*Pair._fields, "annotator")
"""The columns of a table, which those of the questions follow. The first four are needed; an
annotator without a name has that of the file."""

_MOST_COSINE = 1 + 1e-4
"""Cosines of 32-bit vectors go beyond 1 by some rounding."""
_SAME_COSINE = 1e-6
"""Tables hold fewer digits than the file of candidates."""

_SPIRE_FIELDS = ("topic", "title", "ms-marco-qid", "data", "cosine_similarity", "label")
_SPIRE_CONTEXT = ("variant", "description", "narrative")
_TYPES = {name.capitalize(): name for name in REFORMULATIONS if name != DIFFERENT}
_SPIRE_LABELS = {"Different Topic": DIFFERENT} | {f"Title-{a}": b for a, b in _TYPES.items()}
_SPIRE_VARIANTS = {f"Variant-{name}" for name in _TYPES}
_SPIRE_ANNOTATOR = re.compile(r"-\d+-(.+)")


class _Row(NamedTuple):
    """What a sheet says of a pair.

    Attributes:
        source: the sheet, and the task of Label Studio's.
        line: the line of a table; 0 in a file of tasks.
        cells: column -> what it holds, of `COLUMNS`.
        choices: the name of a question -> the labels that were chosen; none if it is not judged.
    """

    source: str
    line: int
    cells: Mapping[str, str]
    choices: Mapping[str, Sequence[str]]


def write_sheet(
    pairs: Sequence[Pair], questions: Sequence[Question], out: str | Path, *, annotator: str = ""
) -> None:
    """Write a sheet to fill in.

    The candidates of a test query stand in an order that tells nothing of what found them.

    Args:
        pairs: the pairs; test queries keep their order.
        questions: `SIMILARITY` or `LEAKAGE`.
        out: the file to write: ``.csv``, a table, or ``.json``, tasks to import into Label Studio.
        annotator: whose verdicts these will be, if that is known.

    Raises:
        UnknownNameError: if its name has no such ending.
        UsageError: if there is no pair.
    """
    path = Path(out)
    if path.suffix.lower() not in SHEET_ENDINGS:
        raise UnknownNameError("ending of a sheet", path.suffix, SHEET_ENDINGS)
    if not pairs:
        raise UsageError("there is no pair to judge")
    places = {test_id: n for n, test_id in enumerate(dict.fromkeys(one.test_id for one in pairs))}
    rows = sorted(pairs, key=lambda pair: (places[pair.test_id], _hash(pair)))
    if path.suffix.lower() == ".json":
        tasks = [{"data": {**pair._asdict(), "annotator": annotator}} for pair in rows]
        text = json.dumps(tasks, ensure_ascii=False, indent=1)
    else:
        header = (*COLUMNS, *(question.name for question in questions))
        empty = [""] * len(questions)
        text = csv_text(header, [(*pair, annotator, *empty) for pair in rows])
    with write_atomically(path) as file:
        file.write(text.encode())


def _hash(pair: Pair) -> bytes:
    return hashlib.blake2b(f"{pair.test_id}\t{pair.train_id}".encode(), digest_size=8).digest()


def read_annotations(sheets: Iterable[str | Path], *, both: str = DIFFERENT) -> Annotations:
    """Read sheets that annotators filled in, and check them against each other.

    Args:
        sheets: the files: CSV, Label Studio's export ``.json``, or ``.jsonl`` as Fröbe et al.
            published them. Sheets for `SIMILARITY` hold a label in every row; rows may stand in any
            order, and an annotator's may stand in several files.
        both: of a pair that is said to be both `DIFFERENT` and of a type, `DIFFERENT` counts, or
            ``"type"``.

    Raises:
        UsageError: if there is no sheet, one is given twice, they ask different questions, or
            `both` is neither.
        NotFoundError: if a file does not exist.
        CollectionError: if a file is malformed or holds an unknown label, an annotator judges a
            pair twice or lacks pairs that all must judge, or two files have other texts or cosines
            for a pair; with every such line.
    """
    if both not in (DIFFERENT, "type"):
        raise UsageError(f"both is {both!r}; {DIFFERENT!r} or 'type' counts")
    paths = [Path(sheet) for sheet in sheets]
    _check_files(paths)
    findings = FindingLog()
    files = [_open(path, findings) for path in paths]
    questions = files[0][0]
    if any(asked != questions for asked, _ in files):
        raise UsageError(
            "some of these sheets ask for entity and intent, and some for label; give sheets of "
            "one kind"
        )
    collected = _Collected(questions, both, findings)
    for _, rows in files:
        for row in rows:
            collected.add(row)
    return collected.checked()


def _check_files(paths: Sequence[Path]) -> None:
    if not paths:
        raise UsageError("give the sheets that were filled in, one per annotator")
    for number, path in enumerate(paths):
        if not path.is_file():
            raise NotFoundError(f"no file {path}; give a sheet that was filled in")
        if path.resolve() in [earlier.resolve() for earlier in paths[:number]]:
            raise UsageError(f"{path} is given twice, and would agree with itself")


class _Collected:
    """The verdicts of sheets, checked one by one."""

    def __init__(self, questions: tuple[Question, ...], both: str, findings: FindingLog) -> None:
        self._questions, self._both, self._findings = questions, both, findings
        self._pairs: dict[tuple[str, str], tuple[Pair, str]] = {}
        self._verdicts: dict[tuple[tuple[str, str], str], tuple[PairVerdict, str]] = {}

    def add(self, row: _Row) -> None:
        """Add a row of a sheet."""
        pair = self._pair_of(row)
        if pair is None:
            return
        ids, annotator = (pair.test_id, pair.train_id), row.cells["annotator"]
        place = f"{row.source}:{row.line}" if row.line else row.source
        named = " and ".join(map(quoted, ids))
        first, first_place = self._pairs.setdefault(ids, (pair, place))
        if not _same(first, pair):
            message = f"the pair {named} has other texts or another cosine than {first_place}"
            self._findings.add(
                "other-texts",
                message,
                row.source,
                row.line,
                "give sheets of one search for candidates",
            )
        labels = self._labels_of(row)
        if not labels:
            return
        chosen = "+".join(sorted(row.choices[self._questions[0].name]))
        verdict = PairVerdict(first, annotator, labels, chosen)
        earlier, earlier_place = self._verdicts.setdefault((ids, annotator), (verdict, place))
        if earlier is not verdict:
            message = f"{annotator} judges the pair {named} again, after {earlier_place}"
            fix = "keep one verdict, or name who gave each in the column annotator"
            self._findings.add("two-verdicts", message, row.source, row.line, fix)

    def _pair_of(self, row: _Row) -> Pair | None:
        cells = dict.fromkeys(COLUMNS, "") | dict(row.cells)
        cosine = _number(cells["cosine"])
        if not cells["test_id"] or not cells["train_id"]:
            self._findings.add(
                "empty-id",
                "test_id or train_id is empty",
                row.source,
                row.line,
                "give each query its id",
            )
        elif cosine is None and cells["cosine"]:
            message = f"cosine is {quoted(cells['cosine'])}"
            self._findings.add(
                "not-a-number", message, row.source, row.line, "write a number from -1 to 1"
            )
        else:
            texts = {name: cells[name] for name in Pair._fields if name != "cosine"}
            return Pair(**texts, cosine=cosine)
        return None

    def _labels_of(self, row: _Row) -> dict[str, str]:
        """Return the label that counts for each question; none if the pair is not judged."""
        labels: dict[str, str] = {}
        for question in self._questions:
            chosen = row.choices.get(question.name, ())
            label = _label(chosen, self._both)
            unknown = [choice for choice in chosen if choice not in question.answers]
            if label in question.answers and not unknown:
                labels[question.name] = label
            elif chosen or not question.optional:
                shown = quoted("+".join(unknown or chosen)) if chosen else "empty"
                message, fix = f"{question.name} is {shown}", _fix(question)
                self._findings.add("unknown-label", message, row.source, row.line, fix)
                return {}
        return labels

    def checked(self) -> Annotations:
        """Return what was added.

        Raises:
            CollectionError: if something was found.
        """
        if not self._pairs and not len(self._findings):
            raise UsageError("these sheets hold no pair")
        annotations = Annotations(
            self._questions,
            tuple(verdict for verdict, _ in self._verdicts.values()),
            tuple(
                pair
                for ids, (pair, _) in self._pairs.items()
                if ids not in {judged for judged, _ in self._verdicts}
            ),
        )
        if not self._questions[0].optional and not len(self._findings):
            self._check_complete(annotations)
        self._findings.stop_if_any(CollectionError, "these sheets cannot be used:")
        return annotations

    def _check_complete(self, annotations: Annotations) -> None:
        pairs = {
            name: {verdict.pair for verdict in annotations.verdicts if verdict.annotator == name}
            for name in annotations.annotators
        }
        first, *later = annotations.annotators or ("",)
        for name in later:
            lacking, further = len(pairs[first] - pairs[name]), len(pairs[name] - pairs[first])
            if lacking or further:
                message = f"{name} lacks {lacking} pairs of {first}, and judges {further} others"
                self._findings.add("other-pairs", message, name, fix="give copies of one sheet")


def _same(first: Pair, second: Pair) -> bool:
    if (first.test_text, first.train_text) != (second.test_text, second.train_text):
        return False
    if first.cosine is None or second.cosine is None:
        return first.cosine is second.cosine
    return abs(first.cosine - second.cosine) <= _SAME_COSINE


def _label(chosen: Sequence[str], both: str) -> str:
    """Return the one label that counts; `UNTYPED` if several do, "" for none."""
    types = [label for label in chosen if label != DIFFERENT]
    if len(types) < len(chosen) and (both == DIFFERENT or not types):
        return DIFFERENT
    if len(types) > 1:
        return UNTYPED
    return types[0] if types else ""


def _fix(question: Question) -> str:
    if question.optional:
        return f"write {', '.join(question.answers)}, or nothing where the pair is not judged"
    return f"write {', '.join(f'{label} ({title})' for label, title in question.answers.items())}"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= _MOST_COSINE else None


def _open(path: Path, findings: FindingLog) -> tuple[tuple[Question, ...], Iterable[_Row]]:
    """Return what a sheet asks, and its rows."""
    ending = path.suffix.lower()
    if ending == ".jsonl":
        return LEAKAGE, _spire_rows(path, findings)
    if ending == ".json":
        rows = list(_task_rows(path, findings))
        names = {name for row in rows for name in row.choices}
        return _asked(names), rows
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        questions = _asked(next(csv.reader(file), []))
    return questions, _table_rows(path, questions, findings)


def _asked(names: Iterable[str]) -> tuple[Question, ...]:
    """Return the questions of a sheet with these columns."""
    present = set(names)
    return SIMILARITY if any(question.name in present for question in SIMILARITY) else LEAKAGE


def _table_rows(path: Path, questions: Sequence[Question], findings: FindingLog) -> Iterator[_Row]:
    names = [question.name for question in questions]
    for line, row in csv_rows(path, (*Pair._fields[:4], *names), findings):
        cells = {name: row[name] for name in COLUMNS if name in row}
        cells["annotator"] = cells.get("annotator") or path.stem
        choices = {name: [row[name].lower()] for name in names if row[name]}
        yield _Row(str(path), line, cells, choices)


def _task_rows(path: Path, findings: FindingLog) -> Iterator[_Row]:
    try:
        for number, task in enumerate(json.loads(path.read_bytes()), 1):
            data = {
                name: str(value)
                for name, value in task["data"].items()
                if name in COLUMNS and value is not None
            }
            judged = [one for one in task.get("annotations", ()) if not one.get("was_cancelled")]
            for annotation in judged or [{"result": []}]:
                person = annotation.get("completed_by", path.stem)
                if isinstance(person, dict):
                    person = person.get("email", person["id"])
                cells = data | {"annotator": data.get("annotator") or str(person)}
                choices = {
                    answer["from_name"]: [
                        str(label).lower() for label in answer["value"]["choices"]
                    ]
                    for answer in annotation["result"]
                    if answer["type"] == "choices"
                }
                yield _Row(f"{path}, task {number}", 0, cells, choices)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        message = f"not tasks of Label Studio: {type(error).__name__}: {error}"
        findings.add("not-json", message, str(path), fix="export the project as JSON")


def _spire_rows(path: Path, findings: FindingLog) -> Iterator[_Row]:
    annotator = _SPIRE_ANNOTATOR.search(path.stem)
    for line, record in jsonl_records(path, _SPIRE_FIELDS, findings):
        given: Any = record["label"]
        labels = list(map(str, given)) if isinstance(given, list) else [str(given)]
        titles = [_SPIRE_LABELS.get(name, name) for name in labels if name not in _SPIRE_VARIANTS]
        context = [f"{name}: {record[name]}" for name in _SPIRE_CONTEXT if record.get(name)]
        cells = {
            "test_id": str(record["topic"]),
            "test_text": str(record["title"]),
            "train_id": str(record["ms-marco-qid"]),
            "train_text": str(record["data"]),
            "cosine": str(record["cosine_similarity"]),
            "context": CONTEXT_RULE.join(context),
            "annotator": annotator[1] if annotator else path.stem,
        }
        # Whoever names a type of the variant alone says that the pair leaks, and no type of it.
        if labels and not titles:
            titles = [UNTYPED]
        yield _Row(str(path), line, cells, {LEAKS.name: titles})
