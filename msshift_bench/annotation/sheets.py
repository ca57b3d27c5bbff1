"""Sheets: pairs of queries that people judge, as a table (CSV) or as tasks of Label Studio (JSON).

A table has the columns of `Pair` (without empty optional ones), ``annotator`` and one column per
question. A task holds the pair in its ``data`` and the annotators' choices in its ``annotations``;
the ``from_name`` of a choice is the question. In the export JSON-MIN, an object is one annotation:
the pair's fields, the questions and ``annotator`` are keys of the same object.

The 827 annotated pairs of Fröbe et al. (SPIRE 2022) are read in their published form: one JSON
object per line (``.jsonl``), whose ``label`` is a list of ``Title-<type>``, ``Variant-<type>`` and
``Different Topic``. The file name ends in the annotators' names. As in the paper, only the types
relative to the topic's title count.

Candidates for `SIMILARITY` are recalled as by Zhan et al. (CIKM 2022), section 3.2: BM25 and an
embedding model each recall ten training queries per test query.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from msshift_bench.annotation.labels import (
    CONTEXT_RULE,
    DIFFERENT,
    LEAKAGE,
    REFORMULATIONS,
    SIMILARITY,
    UNTYPED,
    Annotations,
    Pair,
    Question,
    Verdict,
)
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import (
    CollectionError,
    FindingLog,
    NotFoundError,
    UnknownNameError,
    UsageError,
    quoted,
)
from msshift_bench.output import csv_text
from msshift_bench.plumbing import (
    csv_rows,
    decimal_number,
    jsonl_records,
    values_by_key,
    write_bytes,
)
from msshift_bench.records import Passage
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import Bm25, Bm25Parameters, warn_of_words
from msshift_bench.shifts import as_list
from msshift_bench.similarity import NearestQueries, QuerySource, check_same_texts, read_query_set

_ENDINGS = (".csv", ".json")
_NEEDED, _OPTIONAL = Pair._fields[:4], Pair._fields[4:]
"""The required columns of a table, and its optional ones."""

_MOST_COSINE = 1 + 1e-4
"""The highest valid cosine: rounding of 32-bit vectors can exceed 1."""
_SPIRE_COLUMNS = {
    "test_id": "topic",
    "test_text": "title",
    "train_id": "ms-marco-qid",
    "train_text": "data",
    "cosine": "cosine_similarity",
    "label": "label",
}
_SPIRE_CONTEXT = ("variant", "description", "narrative")
_TYPES = {name.capitalize(): name for name in REFORMULATIONS if name != DIFFERENT}
_SPIRE_LABELS = {"Different Topic": DIFFERENT} | {f"Title-{a}": b for a, b in _TYPES.items()}
_SPIRE_VARIANTS = {f"Variant-{name}" for name in _TYPES}
_SPIRE_ANNOTATOR = re.compile(r"-\d+-(.+)")


_Row: TypeAlias = tuple[str, int, Mapping[str, str]]
"""A row's source, its line (0 in a file without lines), and column -> cell. Several labels for one
question are joined in one cell, as ``a+b``."""


def write_sheet(
    pairs: Sequence[Pair], questions: Sequence[Question], out: str | Path, *, annotator: str = ""
) -> None:
    """Write a sheet to fill in.

    The candidates of a test query are in random order, so that it does not reveal their source.

    Args:
        pairs: the pairs; test queries keep their order.
        questions: `SIMILARITY` or `LEAKAGE`.
        out: the file to write: ``.csv``, a table, or ``.json``, tasks to import into Label Studio.
        annotator: the name of the annotator who will fill the sheet in; "" if unknown.

    Raises:
        UnknownNameError: if the file name ends in neither ``.csv`` nor ``.json``.
        UsageError: if there is no pair, or the file exists and is not an unfilled sheet.
    """
    path = Path(out)
    check_sheet(path)
    if not pairs:
        raise UsageError("there is no pair to judge; give at least one pair of queries")
    places = {test_id: n for n, test_id in enumerate(dict.fromkeys(pair.test_id for pair in pairs))}
    rows = sorted(pairs, key=lambda pair: (places[pair.test_id], _hash(pair)))
    if path.suffix.lower() == ".json":
        # Label Studio rejects tasks that lack a field of the labeling interface.
        tasks = [{"data": {**pair._asdict(), "annotator": annotator}} for pair in rows]
        text = json.dumps(tasks, ensure_ascii=False, indent=1)
    else:
        filled = [n for n in _OPTIONAL if any(getattr(pair, n) not in ("", None) for pair in rows)]
        names = (*_NEEDED, *filled)
        end = (annotator, *[""] * len(questions))
        cells = [(*(getattr(pair, name) for name in names), *end) for pair in rows]
        text = csv_text((*names, "annotator", *_names(questions)), cells)
    write_bytes(path, text.encode())


def check_sheet(path: Path) -> None:
    """Check that writing a sheet to `path` would not replace verdicts or another file.

    Raises:
        UnknownNameError: if the file name ends in neither ``.csv`` nor ``.json``.
        UsageError: if the file exists and is not a sheet, or holds verdicts or notes.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise UnknownNameError("ending of a sheet", path.suffix, _ENDINGS)
    check_not_filled(path, must_be_sheet=True)


def check_not_filled(path: Path, *, must_be_sheet: bool = False) -> None:
    """Check that replacing a file would not lose annotators' verdicts.

    A file that does not exist, or does not end in ``.csv`` or ``.json``, passes.

    Args:
        path: the file.
        must_be_sheet: whether an existing file must be a sheet.

    Raises:
        UsageError: if the file holds verdicts or notes, or is not a sheet but must be.
    """
    if path.suffix.lower() not in _ENDINGS or not path.is_file():
        return
    findings = FindingLog()
    _, rows = _open(path, findings)
    unfilled = {*Pair._fields, "annotator"}
    filled = sum(any(row[name] for name in row.keys() - unfilled) for _, _, row in rows)
    is_no_sheet = bool(len(findings)) and must_be_sheet
    if filled or is_no_sheet:
        problem = f"holds verdicts or notes on {filled:,} pairs"
        problem = "is not a sheet to fill in" if is_no_sheet else problem
        raise UsageError(f"{path} {problem} and would be replaced; give another name, or move it")


def _hash(pair: Pair) -> bytes:
    return keyed_hash(f"{pair.test_id}\t{pair.train_id}", size=8)


def read_annotations(
    sheets: str | Path | Iterable[str | Path], *, both: str = DIFFERENT
) -> Annotations:
    """Read filled sheets, and check them against each other.

    Args:
        sheets: the files: CSV, Label Studio's export ``.json``, or ``.jsonl`` in the form that
            Fröbe et al. published. Sheets for `SIMILARITY` need a label in every row. Rows may be
            in any order, and one annotator's rows in several files.
        both: the label of a pair that an annotator labelled both `DIFFERENT` and with a type:
            `DIFFERENT`, or ``"type"`` for the type.

    Returns:
        The verdicts, in the order of the sheets, and the pairs without a verdict.

    Raises:
        UsageError: if there is no sheet or no pair, a sheet is given twice, the sheets have
            different questions, or `both` has another value.
        NotFoundError: if a file does not exist.
        CollectionError: if a file is malformed or holds an unknown label; an annotator judges a
            pair twice, or not all pairs of `SIMILARITY`; or a pair has different texts or cosines
            in two rows. The error lists every such line.

    Examples:
        >>> annotations = read_annotations(["ada.csv", "ben.csv"])
        >>> annotations.annotators, len(annotations.verdicts)
        (('Ada', 'Ben'), 6)
    """
    if both not in (DIFFERENT, "type"):
        raise UsageError(
            f"`both` (the label if an annotator chose both) must be {DIFFERENT!r} or 'type', got "
            f"{both!r}"
        )
    paths = [Path(sheet) for sheet in as_list(sheets)]
    _check_files(paths)
    findings = FindingLog()
    files = [_open(path, findings) for path in paths]
    questions = files[0][0]
    if any(kind != questions for kind, _ in files):
        raise UsageError(
            "some sheets have the columns entity and intent, others the column label; give sheets "
            "of one kind"
        )
    annotations = _collect((row for _, rows in files for row in rows), questions, both, findings)
    if not (annotations.verdicts or annotations.unjudged or len(findings)):
        raise UsageError("the sheets hold no pair; give sheets with at least one row")
    if not questions[0].optional and not len(findings):
        _check_complete(annotations, findings)
    findings.stop_if_any(CollectionError, "the sheets cannot be used:")
    return annotations


def _check_files(paths: Sequence[Path]) -> None:
    if not paths:
        raise UsageError("no sheet was given; give the filled sheets, one per annotator")
    for number, path in enumerate(paths):
        if not path.is_file():
            raise NotFoundError(f"no file {path}; give a filled sheet")
        if path.resolve() in [earlier.resolve() for earlier in paths[:number]]:
            raise UsageError(f"{path} is given twice; give each sheet once")


def _collect(
    rows: Iterable[_Row], questions: tuple[Question, ...], both: str, findings: FindingLog
) -> Annotations:
    """Return the verdicts in rows; add wrong rows to `findings`. See `read_annotations`."""
    pairs: dict[tuple[str, str], tuple[Pair, str]] = {}
    verdicts: dict[tuple[str, str, str], tuple[Verdict, str]] = {}
    names = _names(questions)
    for source, line, row in rows:
        cells = dict.fromkeys((*Pair._fields, "annotator", *names), "") | dict(row)
        chosen = {name: cells[name].lower().split("+") for name in names if cells[name]}
        wrong_before = len(findings)
        add = partial(findings.add, source=source, line=line)
        _check_cells(cells, chosen, questions, add)
        if len(findings) > wrong_before:
            continue
        texts = {name: cells[name] for name in Pair._fields if name != "cosine"}
        pair = Pair(**texts, cosine=_number(cells["cosine"]))
        ids, place = (pair.test_id, pair.train_id), f"{source}:{line}" if line else source
        ids_shown = " and ".join(map(quoted, ids))
        first, first_place = pairs.setdefault(ids, (pair, place))
        # Tables hold fewer digits of a cosine than the file of candidates.
        is_same = math.isclose(first.cosine or 0, pair.cosine or 0, abs_tol=1e-6)
        if not is_same or (first.test_text, first.train_text) != (pair.test_text, pair.train_text):
            message = f"the pair {ids_shown} has other texts or another cosine than {first_place}"
            add("other-texts", message, fix="give sheets that were made from the same candidates")
        if not chosen:
            continue
        labels = {name: _label(options, both) for name, options in chosen.items()}
        all_chosen = "+".join(sorted(chosen[questions[0].name]))
        verdict = Verdict(first, cells["annotator"], labels, all_chosen)
        earlier, earlier_place = verdicts.setdefault((*ids, verdict.annotator), (verdict, place))
        if earlier is not verdict:
            fix = "keep one verdict, or name each annotator in the column annotator"
            add(
                "two-verdicts",
                f"{verdict.annotator} judges the pair {ids_shown} twice, first in {earlier_place}",
                fix=fix,
            )
    judged = {ids[:2] for ids in verdicts}
    unjudged = tuple(pair for ids, (pair, _) in pairs.items() if ids not in judged)
    return Annotations(questions, tuple(verdict for verdict, _ in verdicts.values()), unjudged)


def _check_cells(
    cells: Mapping[str, str],
    chosen: Mapping[str, Sequence[str]],
    questions: Iterable[Question],
    add: Callable[..., None],
) -> None:
    """Add findings on a row: an empty id, a wrong cosine, an unknown label."""
    if not cells["test_id"] or not cells["train_id"]:
        add("empty-id", "test_id or train_id is empty", fix="write the query's id")
    if cells["cosine"] and _number(cells["cosine"]) is None:
        fix = "write a number from -1 to 1"
        add("not-a-number", f"cosine is {quoted(cells['cosine'])}", fix=fix)
    for question in questions:
        labels = chosen.get(question.name, ())
        are_known = all(label in question.answers for label in labels)
        many = len(labels) > 1 and UNTYPED not in question.answers
        if many or not are_known or not (labels or question.optional):
            answer = quoted(cells[question.name]) if labels else "empty"
            add("unknown-label", f"{question.name} is {answer}", fix=_fix(question))


def _check_complete(annotations: Annotations, findings: FindingLog) -> None:
    """Add a finding for each annotator with other pairs than the first annotator."""
    pairs = {
        name: {verdict.pair for verdict in annotations.verdicts if verdict.annotator == name}
        for name in annotations.annotators
    }
    first = next(iter(pairs), "")
    for name, judged in pairs.items():
        lacking, further = len(pairs[first] - judged), len(judged - pairs[first])
        if lacking or further:
            message = f"{name} lacks {lacking} pairs of {first}, and judges {further} others"
            findings.add("other-pairs", message, name, fix="give every annotator the same sheet")


def _label(chosen: Sequence[str], both: str) -> str:
    """Return one label for an annotator's chosen labels; `UNTYPED` for several types.

    For `both`, see `read_annotations`.
    """
    types = [label for label in chosen if label != DIFFERENT]
    if len(types) < len(chosen) and (both == DIFFERENT or not types):
        return DIFFERENT
    return types[0] if len(types) == 1 else UNTYPED


def _fix(question: Question) -> str:
    if question.optional:
        return f"write {', '.join(question.answers)}, or nothing for a pair without a verdict"
    return f"write {', '.join(f'{label} ({title})' for label, title in question.answers.items())}"


def _number(text: str) -> float | None:
    value = decimal_number(text.encode())
    return value if abs(value) <= _MOST_COSINE else None


def _names(questions: Iterable[Question]) -> list[str]:
    return [question.name for question in questions]


def _open(path: Path, findings: FindingLog) -> tuple[tuple[Question, ...], Iterable[_Row]]:
    """Return a sheet's questions and rows; add wrong rows to `findings`."""
    if path.suffix.lower() == ".jsonl":
        return LEAKAGE, _spire_rows(path, findings)
    if path.suffix.lower() == ".json":
        rows = list(_task_rows(path, findings))
        return _questions_of(name for _, _, cells in rows for name in cells), rows
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = re.split("[,\t]", file.readline())
    questions = _questions_of(name.strip('" \n') for name in header)
    return questions, _table_rows(path, questions, findings)


def _questions_of(columns: Iterable[str]) -> tuple[Question, ...]:
    return SIMILARITY if set(columns) & set(_names(SIMILARITY)) else LEAKAGE


def _table_rows(path: Path, questions: Sequence[Question], findings: FindingLog) -> Iterator[_Row]:
    for line, cells in csv_rows(path, (*_NEEDED, *_names(questions)), findings):
        yield str(path), line, cells | {"annotator": cells.get("annotator") or path.stem}


def _task_rows(path: Path, findings: FindingLog) -> Iterator[_Row]:
    try:
        for number, task in enumerate(json.loads(path.read_bytes()), 1):
            if _NEEDED[0] in task:
                cells = _minimal_cells(task)
                annotator = cells.get("annotator") or path.stem
                yield f"{path}, task {number}", 0, cells | {"annotator": annotator}
                continue
            data = {name: str(cell) for name, cell in task["data"].items() if cell is not None}
            judged = [
                entry for entry in task.get("annotations", ()) if not entry.get("was_cancelled")
            ]
            for annotation in judged or [{"result": []}]:
                person = annotation.get("completed_by", path.stem)
                if isinstance(person, dict):
                    person = person.get("email", person["id"])
                chosen = {
                    answer["from_name"]: "+".join(answer["value"]["choices"])
                    for answer in annotation["result"]
                    if answer["type"] == "choices"
                }
                annotator = data.get("annotator") or str(person)
                yield f"{path}, task {number}", 0, data | chosen | {"annotator": annotator}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        message = f"the file holds no Label Studio tasks: {type(error).__name__}: {error}"
        findings.add("not-json", message, str(path), fix="export the project as JSON or JSON-MIN")


def _minimal_cells(record: Mapping[str, Any]) -> dict[str, str]:
    """Return column -> cell of an object of JSON-MIN, which has no ``data``.

    A single choice is a string, several choices are ``{"choices": [...]}``.
    """
    return {
        name: "+".join(cell["choices"])
        if isinstance(cell, dict) and "choices" in cell
        else str(cell)
        for name, cell in record.items()
        if cell is not None
    }


def _spire_rows(path: Path, findings: FindingLog) -> Iterator[_Row]:
    annotator = _SPIRE_ANNOTATOR.search(path.stem)
    for line, record in jsonl_records(path, tuple(_SPIRE_COLUMNS.values()), findings):
        labels = record["label"] if isinstance(record["label"], list) else [record["label"]]
        titles = [_SPIRE_LABELS.get(name, str(name)) for name in map(str, labels)]
        types = [name for name in titles if name not in _SPIRE_VARIANTS]
        # A type relative to the variant alone means a leak without a type relative to the title.
        untyped = [UNTYPED] if titles and not types else []
        context = [f"{name}: {record[name]}" for name in _SPIRE_CONTEXT if record.get(name)]
        cells = {column: str(record[name]) for column, name in _SPIRE_COLUMNS.items()} | {
            "label": "+".join(types or untyped),
            "context": CONTEXT_RULE.join(context),
            "annotator": annotator[1] if annotator else path.stem,
        }
        yield str(path), line, cells


def similar_pairs(
    train: QuerySource, test: QuerySource, encoder: EncoderSpec, *, per_test: int = 10
) -> list[Pair]:
    """Return pairs of each test query and its candidates among the training queries.

    The candidates are the training queries that BM25 ranks first, and the training queries with the
    highest cosine. A training query with the test query's id is no candidate. `Pair.found_by` names
    the methods; `Pair.cosine` is `None`.

    Args:
        train: the training queries.
        test: the test queries.
        encoder: the encoder; BM25 also uses its setting `words`.
        per_test: how many candidates BM25 and the encoder each recall per test query.

    Raises:
        NotFoundError: if there is no such file or encoder.
        MissingExtraError: if the encoder's libraries are not installed.
        CollectionError: if a set is malformed.
        DataError: if a set is empty, or a query in both sets has two texts.
    """
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, {query_id: [text] for query_id, text in tested})
    warn_of_words(tested.texts, encoder.words)
    text_of = dict(zip(training.ids, training.texts, strict=True))
    # One more than `per_test`, as a test query may retrieve itself.
    depth = per_test + 1
    index = Bm25(
        map(Passage, training.ids, training.texts), Bm25Parameters(depth=depth, words=encoder.words)
    )
    embeddings = embed_queries(text_of | dict(tested), encoder)
    row_of = {query_id: row for row, query_id in enumerate(embeddings.query_ids)}
    train, test = (np.array([row_of[name] for name in part.ids]) for part in (training, tested))
    near = NearestQueries(embeddings.vectors[test], most=depth)
    near.meet(list(training), embeddings.vectors, train)
    by_vectors = ([train_id for _, train_id, _ in nearest] for nearest in near.found)
    by_words = index.search(tested.texts)
    pairs = []
    for query, *rankings in zip(tested, by_words, by_vectors, strict=True):
        found_by = values_by_key(
            (train_id, name)
            for name, ranking in zip(("BM25", encoder.name), rankings, strict=True)
            for train_id in [doc_id for doc_id in ranking if doc_id != query.query_id][:per_test]
        )
        pairs += [
            Pair(query.query_id, query.text, train_id, text_of[train_id], " and ".join(names))
            for train_id, names in found_by.items()
        ]
    return pairs
