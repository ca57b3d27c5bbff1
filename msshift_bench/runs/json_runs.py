"""Runs in JSON: one object of queries, MTEB's predictions, and JSON lines.

Objects are read as pairs, so that a repeated key is found: Python's `json` keeps its last value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msshift_bench.errors import first_few, quoted
from msshift_bench.plumbing import UTF8_BOM, TooLargeError
from msshift_bench.runs.lines import Findings, Lines, place_of
from msshift_bench.runs.sources import FileRun, NamedRun, Record, lines_of_records

MTEB_META = "mteb_model_meta"
"""The key of MTEB's predictions with the model's name and revision."""

_OF_QUERY, _OF_RESULT = ("query_id", "results"), ("corpus_id", "score")
"""The keys of a line of JSON lines, and of each of its results."""

_MAX_RECORD_BYTES = 64 << 20
"""Largest size of a line of JSON, in bytes: about a million documents of one query."""


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object: its pairs of key and value in order, repeated keys too."""


def read_json(file: FileRun, findings: Findings) -> Iterator[Lines]:
    """Yield the lines of ``{query_id: {doc_id: score}}``, as BEIR's users and ranx write it."""
    for value in _load(file, findings):
        yield from _lines_of(value, file.number, findings)


def read_mteb(file: FileRun, findings: Findings) -> Iterator[Lines]:
    """Yield the lines of MTEB's predictions; nothing, with a finding, if they have several runs."""
    runs = named_runs(file, findings)
    if len(runs) > 1:
        names = first_few(run.name for run in runs)
        findings.add("several-runs", file.place(0), f"it contains {len(runs)} runs: {names}")
        return
    for run in runs:
        file.tag = run.tag
        yield from run.lines(file.number, findings)


def named_runs(file: FileRun, findings: Findings) -> list[NamedRun]:
    """Return the runs in MTEB's predictions, each named ``<subset>/<split>``; ``[]`` if unreadable.

    Facts are the members of `MTEB_META`; the model's name in them is also the run tag.
    """
    place, runs = file.place(0), []
    for value in _load(file, findings):
        members = dict(_members(value, "the file", place, findings))
        facts = dict(_members(members.pop(MTEB_META, _Object()), MTEB_META, place, findings))
        for subset, splits in members.items():
            for split, rankings in _members(splits, quoted(subset), place, findings):
                name = f"{subset}/{split}".encode(errors="replace").decode()
                read = partial(_lines_of, rankings)
                runs.append(NamedRun(name, str(facts.get("model_name") or ""), facts, read))
    return runs


def _lines_of(rankings: object, number: int, findings: Findings) -> Iterator[Lines]:
    """Yield the lines of a parsed object of queries; `number` is the index of a run's file."""
    place = place_of(number, 0)

    def records() -> Iterator[Record]:
        for query, docs in _members(rankings, "the run", place, findings):
            where = f"query {quoted(query)}"
            for doc, score in _members(docs, where, place, findings, repeats=True):
                if isinstance(score, tuple | list):
                    message = f"{where}, document {quoted(doc)} has {_shown(score)}, not a score"
                    findings.add("wrong-nesting", place, message)
                else:
                    yield place, query, doc, score

    return lines_of_records(records(), findings)


def read_jsonl(file: FileRun, findings: Findings) -> Iterator[Lines]:
    """Yield the lines of sentence-transformers' predictions: one query on each line."""

    def records() -> Iterator[Record]:
        texts = iter(partial(file.stream.readline, _MAX_RECORD_BYTES), b"")
        for number, text in enumerate(texts, 1):
            place = file.place(number)
            if len(text) == _MAX_RECORD_BYTES:
                message = f"the line has {_MAX_RECORD_BYTES:,} bytes or more"
                findings.add("json-too-large", place, message)
                return
            for value in _parse(text, number, file, findings):
                record = dict(_members(value, "the line", place, findings, needs=_OF_QUERY))
                where = f"query {quoted(record.get('query_id'))}"
                results = record.get("results", [])
                for result in results if isinstance(results, list) else [results]:
                    found = dict(_members(result, where, place, findings, needs=_OF_RESULT))
                    if found:
                        yield place, record["query_id"], found["corpus_id"], found["score"]

    return lines_of_records(records(), findings)


def _load(file: FileRun, findings: Findings) -> Iterator[Any]:
    """Yield the value of a JSON file; nothing, with a finding, if it cannot be read."""
    try:
        yield from _parse(file.content(), 1, file, findings)
    except TooLargeError as error:
        findings.add("json-too-large", file.place(0), str(error))


def _parse(text: bytes | bytearray, line: int, file: FileRun, findings: Findings) -> Iterator[Any]:
    """Yield the value of a JSON text; nothing, with a finding, if it cannot be read.

    A blank text yields nothing. The text begins on the file's line `line`.
    """
    text = text.removeprefix(UTF8_BOM) if line == 1 else text
    if not text or text.isspace():
        return
    try:
        yield json.loads(text.decode(), object_pairs_hook=_Object)
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        findings.add("not-utf8", file.place(line), f"byte {error.start + 1} is not UTF-8")
    except (ValueError, RecursionError) as error:
        line += getattr(error, "lineno", 1) - 1
        findings.add("not-json", file.place(line), f"this cannot be read as JSON: {error}")


def _members(
    value: object,
    where: str,
    place: int,
    findings: Findings,
    *,
    needs: Sequence[str] = (),
    repeats: bool = False,
) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a JSON object; for other values, add a finding.

    Args:
        value: the value.
        where: description of the value, for messages.
        place: the place of the value, see `place_of`.
        findings: the log of findings.
        needs: required keys; an object without them adds a finding.
        repeats: whether to yield repeated keys; else each is skipped, with a finding.
    """
    if not isinstance(value, _Object) or not {key for key, _ in value}.issuperset(needs):
        expected = f"an object{' with ' * bool(needs)}{' and '.join(needs)}"
        findings.add(
            "wrong-nesting", place, f"{where} has {_shown(value)} where {expected} was expected"
        )
        return
    seen: set[str] = set()
    for key, member in value:
        if not repeats and key in seen:
            findings.add("duplicate-key", place, f"{where} has the key {quoted(key)} twice")
        else:
            seen.add(key)
            yield key, member


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return "an object" if isinstance(value, _Object) else "a list"
    return quoted(value)
