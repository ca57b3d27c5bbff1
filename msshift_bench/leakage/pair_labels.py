"""What annotators say of pairs of a test query and a training query.

Source: Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval (SPIRE 2022), section 3,
which takes the types of Jansen, Booth and Spink (JASIST 2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from msshift_bench.errors import CollectionError, FindingLog, NotFoundError, UsageError, quoted
from msshift_bench.leakage.spire_annotations import MOST_COSINE, spire_rows
from msshift_bench.plumbing import csv_rows

__all__ = [
    "DIFFERENT",
    "REFORMULATIONS",
    "SHEET_COLUMNS",
    "UNTYPED",
    "PairLabel",
    "ReviewPair",
    "read_pair_labels",
]

DIFFERENT = "different"
"""The label of a pair that does not leak."""

UNTYPED = "untyped"
"""The label of a pair that leaks, by an annotator who gave it no type, or several."""

REFORMULATIONS: Mapping[str, str] = MappingProxyType(
    {
        "identical": "the same words, but for inflection or order",
        "generalization": "some of the test query's words, so that it asks for more",
        "specialization": "the test query's words and others, so that it asks for less",
        "reformulation": "other words for the same, such as synonyms",
        DIFFERENT: "it asks for something else",
    }
)
"""What the training query is to the test query -> when to say so; the last does not leak."""

SHEET_COLUMNS = (
    "test_id",
    "test_text",
    "train_id",
    "train_text",
    "tier",
    "cosine",
    "context",
    "annotator",
    "label",
)
_NEEDED = ("test_id", "test_text", "train_id", "train_text", "label")


class ReviewPair(NamedTuple):
    """A test query and a training query that may ask for the same.

    Attributes:
        test_id: the test query's id.
        test_text: its text.
        train_id: the training query's id.
        train_text: its text.
        tier: what found the pair; "" where that is not known.
        cosine: of their embeddings, -1 to 1; `None` where none was needed.
        context: what else annotators are told of the test query, such as a topic's description.
    """

    test_id: str
    test_text: str
    train_id: str
    train_text: str
    tier: str = ""
    cosine: float | None = None
    context: str = ""


@dataclass(frozen=True, slots=True)
class PairLabel:
    """What one annotator says of a pair.

    Attributes:
        pair: the pair.
        annotator: who says so.
        label: one of `REFORMULATIONS`, or `UNTYPED`.
        given: every label that the annotator gave, as ``a+b``, in files that may hold several.
    """

    pair: ReviewPair
    annotator: str
    label: str
    given: str = ""


class _Row(NamedTuple):
    """A row of a file.

    Attributes:
        pair: the pair.
        annotator: who judged it.
        label: the label; "" for none.
        line: the row's line.
        given: as for `PairLabel`.
    """

    pair: ReviewPair
    annotator: str
    label: str
    line: int
    given: str = ""


def read_pair_labels(
    sheets: Iterable[str | Path], *, both: str = DIFFERENT
) -> tuple[list[PairLabel], list[ReviewPair]]:
    """Read sheets that annotators filled in, and check them against each other.

    Args:
        sheets: CSV files with the columns `SHEET_COLUMNS`, of which ``tier``, ``cosine``,
            ``context`` and ``annotator`` may be missing: the annotator is then the file's name
            without its ending. Or files ending on ``.jsonl`` in the layout of the annotations of
            Fröbe et al.; see `spire_annotations`.
        both: of a JSON line that says "Different Topic" and names a type, `DIFFERENT` counts, or
            ``"type"``.

    Returns:
        The verdicts, and the pairs that a sheet holds without a label and nobody judged.

    Raises:
        UsageError: if there is no sheet, or `both` is neither.
        NotFoundError: if a file does not exist.
        CollectionError: if a file is malformed, holds an unknown label, or two verdicts of one
            annotator on a pair; or if two files have other texts or cosines for a pair.
    """
    if both not in (DIFFERENT, "type"):
        raise UsageError(f"both is {both!r}; {DIFFERENT!r} or 'type' counts")
    findings = FindingLog()
    said: dict[tuple[str, str, str], str] = {}
    first: dict[tuple[str, str], tuple[ReviewPair, str]] = {}
    verdicts, judged = [], set()
    for path in map(Path, sheets):
        rows = _jsonl_rows(path, findings, both) if _is_jsonl(path) else _csv_rows(path, findings)
        for pair, annotator, label, line, given in rows:
            key, here = (pair.test_id, pair.train_id), f"{path}:{line}"
            earlier, there = first.setdefault(key, (pair, here))
            if _seen(earlier) != _seen(pair):
                message = f"the pair {_named(pair)} has other texts or another cosine than {there}"
                fix = "give sheets of one search for candidates"
                findings.add("other-texts", message, str(path), line, fix)
            if not label:
                continue
            if before := said.get((*key, annotator)):
                message = f"{annotator} judges the pair {_named(pair)} again, after {before}"
                fix = "keep one verdict of an annotator on a pair"
                findings.add("two-verdicts", message, str(path), line, fix)
                continue
            said[*key, annotator] = here
            judged.add(key)
            verdicts.append(PairLabel(earlier, annotator, label, given))
    if not first and not len(findings):
        raise UsageError("give the sheets that were filled in, with the pairs that they judge")
    findings.stop_if_any(CollectionError, "these sheets cannot be used:")
    return verdicts, [pair for key, (pair, _) in first.items() if key not in judged]


def _is_jsonl(path: Path) -> bool:
    return path.suffix.lower() == ".jsonl"


def _seen(pair: ReviewPair) -> tuple[str, str, float | None]:
    return pair.test_text, pair.train_text, pair.cosine


def _named(pair: ReviewPair) -> str:
    return f"{quoted(pair.test_id)} and {quoted(pair.train_id)}"


def _jsonl_rows(path: Path, findings: FindingLog, both: str) -> Iterator[_Row]:
    for row in spire_rows(path, findings):
        types = row.types
        if row.different and (both == DIFFERENT or not types):
            label = DIFFERENT
        else:
            label = types[0] if len(types) == 1 else UNTYPED
        pair = ReviewPair(*row.texts, "", row.cosine, row.context)
        every = (*types, DIFFERENT) if row.different else types
        yield _Row(pair, row.annotator, label, row.line, "+".join(sorted(every)))


def _csv_rows(path: Path, findings: FindingLog) -> Iterator[_Row]:
    if not path.is_file():
        raise NotFoundError(f"no file {path}; give a sheet that was filled in")
    for line, cells in csv_rows(path, _NEEDED, findings):
        row = dict.fromkeys(SHEET_COLUMNS, "") | cells
        if not row["test_id"] or not row["train_id"]:
            findings.add("empty-id", "test_id or train_id is empty", str(path), line)
            continue
        cosine = _cosine_in(row["cosine"])
        if cosine is None and row["cosine"]:
            message = f"cosine is {quoted(row['cosine'])}"
            findings.add("not-a-number", message, str(path), line, "write a number from -1 to 1")
            continue
        label = row["label"].lower()
        if label and label != UNTYPED and label not in REFORMULATIONS:
            message = f"label is {quoted(row['label'])}"
            fix = f"write {', '.join(REFORMULATIONS)}, or nothing where the pair is not judged"
            findings.add("unknown-label", message, str(path), line, fix)
            continue
        test, train = (row["test_id"], row["test_text"]), (row["train_id"], row["train_text"])
        pair = ReviewPair(*test, *train, row["tier"], cosine, row["context"])
        yield _Row(pair, row["annotator"] or path.stem, label, line)


def _cosine_in(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= MOST_COSINE else None
