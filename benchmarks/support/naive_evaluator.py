"""A slow, plain evaluator that shares no code with the package: for `scripts/bench fuzz_runs`."""

from __future__ import annotations

import math
import re
import struct

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RANK = re.compile(r"[+-]?[0-9]+")
_GAP = re.compile(r"[ \t\r\v\f]+")

Ranking = dict[str, list[tuple[str, float, int]]]


def as_32_bit(number: float) -> float | None:
    """Return the nearest 32-bit float, or `None` if there is no finite one."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return None
    return rounded if math.isfinite(rounded) else None


def parse(data: bytes) -> Ranking | None:
    """Parse a text run: query -> (doc, 32-bit score, rank); `None` if any line is malformed."""
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    lines = re.sub(r"[ \t\r\n\v\f]+\Z", "", text).split("\n")
    width = 3 if len(fields_of(lines[0] if lines[0] else first_line(lines))) == 3 else 6
    run: Ranking = {}
    for line in lines:
        fields = fields_of(line)
        if "\0" in line or len(fields) != width:
            return None
        query, doc, rank = (
            (fields[0], fields[-2], fields[-1]) if width == 3 else (fields[0], fields[2], fields[3])
        )
        if not _RANK.fullmatch(rank) or not 0 <= int(rank) <= 10**18:
            return None
        score = str(-int(rank)) if width == 3 else fields[4]
        value = as_32_bit(float(score)) if _NUMBER.fullmatch(score) else None
        if value is None or any(doc == other for other, _, _ in run.get(query, [])):
            return None
        run.setdefault(query, []).append((doc, value, int(rank)))
    return run


def fields_of(line: str) -> list[str]:
    return [field for field in _GAP.split(line) if field]


def first_line(lines: list[str]) -> str:
    return next((line for line in lines if fields_of(line)), "")


def rank_documents(documents: list[tuple[str, float, int]], policy: str) -> dict[int, str] | None:
    """Return place from 1 -> document; `None` if the policy cannot order them."""
    if policy == "rank":
        places = {rank: doc for doc, _, rank in documents}
        return places if len(places) == len(documents) and 0 not in places else None
    documents = sorted(documents, key=lambda row: row[0].encode(), reverse=policy == "trec")
    documents.sort(key=lambda row: -row[1])
    return {place: doc for place, (doc, _, _) in enumerate(documents, start=1)}


def evaluate(
    data: bytes, qrels: dict[str, dict[str, int]], policy: str
) -> dict[str, list[float]] | None:
    """Return RR@10, nDCG@10 and R@5 of every query of the qrels; `None` if the run is malformed."""
    run = parse(data)
    if run is None:
        return None
    values: dict[str, list[float]] = {"RR@10": [], "nDCG@10": [], "R@5": []}
    rankings = {query: rank_documents(docs, policy) for query, docs in run.items()}
    if any(ranking is None for ranking in rankings.values()):
        return None
    for query, judged in qrels.items():
        ranking = rankings.get(query) or {}
        grades = {place: judged.get(doc, 0) for place, doc in ranking.items()}
        found = [place for place in sorted(grades) if grades[place] > 0]
        relevant = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
        ideal = sum(grade / math.log2(n + 2) for n, grade in enumerate(relevant[:10]))
        gained = sum(grades[place] / math.log2(place + 1) for place in found if place <= 10)
        values["RR@10"].append(1 / found[0] if found and found[0] <= 10 else 0.0)
        values["nDCG@10"].append(gained / ideal if ideal else 0.0)
        inside = sum(place <= 5 for place in found)
        values["R@5"].append(inside / len(relevant) if relevant else 0.0)
    return values
