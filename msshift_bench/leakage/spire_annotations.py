"""The layout of the 827 annotated pairs of Fröbe et al. (SPIRE 2022): one JSON object per line.

A line has the fields ``data`` (the training query), ``ms-marco-qid`` (its id), ``topic`` (the test
query's id), ``title`` (its text), ``variant``, ``description``, ``narrative``,
``cosine_similarity``, and ``label``: a list of ``Title-<type>``, ``Variant-<type>`` and
``Different Topic``. What the query is to the topic's title counts, as in the paper. A file's name
ends on its annotators: ``annotations-02-a.jsonl``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.errors import FindingLog, quoted
from msshift_bench.plumbing import jsonl_records

__all__ = ["CONTEXT_RULE", "MOST_COSINE", "SpireRow", "spire_rows"]

CONTEXT_RULE = " | "
"""What separates the parts of a pair's context."""

MOST_COSINE = 1 + 1e-4
"""Cosines of 32-bit vectors go beyond 1 by some rounding."""

_FIELDS = ("topic", "title", "ms-marco-qid", "data", "cosine_similarity", "label")
_CONTEXT = ("variant", "description", "narrative")
_DIFFERENT = "Different Topic"
_TYPE = re.compile(r"(Title|Variant)-(Identical|Generalization|Specialization|Reformulation)")
_ANNOTATOR = re.compile(r"-\d+-(.+)")


class SpireRow(NamedTuple):
    """One line.

    Attributes:
        texts: the topic, its title, the query's id and its text.
        cosine: of the query and the topic's variant.
        context: the topic's variant, description and narrative.
        types: what the query is to the title, in lower case.
        different: whether the line says that they ask for something else.
        annotator: what the file's name ends on.
        line: its number.
    """

    texts: tuple[str, str, str, str]
    cosine: float
    context: str
    types: tuple[str, ...]
    different: bool
    annotator: str
    line: int


def spire_rows(path: Path, findings: FindingLog) -> Iterator[SpireRow]:
    """Yield the lines of a file; what is malformed is recorded in `findings`.

    Raises:
        NotFoundError: if there is no such file.
    """
    found = _ANNOTATOR.search(path.stem)
    annotator = found[1] if found else path.stem
    for number, record in jsonl_records(path, _FIELDS, findings):
        labels, cosine = record["label"], record["cosine_similarity"]
        if wrong := _unknown(labels):
            fix = f"write {_DIFFERENT!r}, 'Title-' or 'Variant-' with a type, as the others do"
            findings.add("unknown-label", f"label is {wrong}", str(path), number, fix)
        elif not isinstance(cosine, int | float) or not abs(cosine) <= MOST_COSINE:
            message = f"cosine_similarity is {quoted(str(cosine))}"
            findings.add("not-a-number", message, str(path), number, "write a number from -1 to 1")
        else:
            yield SpireRow(
                (
                    str(record["topic"]),
                    str(record["title"]),
                    str(record["ms-marco-qid"]),
                    str(record["data"]),
                ),
                float(cosine),
                CONTEXT_RULE.join(
                    f"{name}: {record[name]}" for name in _CONTEXT if record.get(name)
                ),
                tuple(one[6:].lower() for one in labels if one.startswith("Title-")),
                _DIFFERENT in labels,
                annotator,
                number,
            )


def _unknown(labels: Any) -> str:
    """Return what is wrong with a line's labels; "" if nothing is."""
    if not isinstance(labels, list) or not labels:
        return quoted(str(labels))
    for label in labels:
        if label != _DIFFERENT and not (isinstance(label, str) and _TYPE.fullmatch(label)):
            return quoted(str(label))
    return ""
