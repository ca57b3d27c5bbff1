"""Sheets of candidates that people judge: a CSV file, or a page for the browser."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.leakage.found import PASSAGE_TIER, TIERS, read_candidates
from msshift_bench.leakage.pair_labels import SHEET_COLUMNS, PairLabel, ReviewPair, read_pair_labels
from msshift_bench.leakage.review_page import review_page
from msshift_bench.leakage.spire_annotations import CONTEXT_RULE
from msshift_bench.output import csv_text
from msshift_bench.plumbing import write_atomically

__all__ = ["CERTAIN_TIERS", "disputed_pairs", "pairs_to_review", "write_review"]

CERTAIN_TIERS = TIERS[:2]
"""The tiers that nobody needs to judge: the texts are the same, or differ in their spelling."""

_ENDINGS = (".csv", ".html")


def pairs_to_review(
    source: str | Path | Iterable[ReviewPair], *, per_test: int | None = 5, certain: bool = False
) -> list[ReviewPair]:
    """Return the candidates to judge.

    Args:
        source: what `find_leakage` wrote, its folder or file; a sheet, filled in or not; a file in
            the layout of Fröbe et al.; or pairs.
        per_test: how many of each test query, those that are most alike: first the same words, then
            by falling cosine, last those that only share a passage. `None` for all.
        certain: keep the tiers `CERTAIN_TIERS`, too.

    Returns:
        Test queries in the order of the source; the candidates of each in an order that tells
        nothing of their cosines.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed.
        UsageError: if it holds no pair.
    """
    pairs = list(_pairs_in(Path(source)) if isinstance(source, str | Path) else source)
    if not certain:
        pairs = [pair for pair in pairs if pair.tier not in CERTAIN_TIERS]
    if not pairs:
        raise UsageError(
            f"there is no candidate to review, leaving {' and '.join(CERTAIN_TIERS)} aside; "
            "--certain keeps them"
        )
    by_test: dict[str, dict[str, ReviewPair]] = defaultdict(dict)
    for pair in pairs:
        # A test query with several texts may find a training query by each.
        earlier = by_test[pair.test_id].setdefault(pair.train_id, pair)
        if _nearness(pair) > _nearness(earlier):
            by_test[pair.test_id][pair.train_id] = pair
    chosen = []
    for candidates in by_test.values():
        nearest = sorted(candidates.values(), key=lambda one: (-_nearness(one), one.train_id))
        chosen += sorted(nearest[:per_test], key=_hash)
    return chosen


def _pairs_in(path: Path) -> Iterable[ReviewPair]:
    if path.suffix.lower() in (".csv", ".jsonl"):
        verdicts, unjudged = read_pair_labels([path])
        judged = {(one.pair.test_id, one.pair.train_id): one.pair for one in verdicts}
        return [*judged.values(), *unjudged]
    return [
        ReviewPair(one.test_id, one.test_text, one.train_id, one.train_text, one.tier, one.cosine)
        for one in read_candidates(path)
    ]


def _nearness(pair: ReviewPair) -> float:
    if pair.cosine is not None:
        return pair.cosine
    return -math.inf if pair.tier == PASSAGE_TIER else math.inf


def _hash(pair: ReviewPair) -> bytes:
    named = f"{pair.test_id}\t{pair.train_id}"
    return hashlib.blake2b(named.encode(), digest_size=8).digest()


def disputed_pairs(verdicts: Iterable[Sequence[PairLabel]]) -> list[ReviewPair]:
    """Return pairs that annotators disagree about, with what each says in the context."""
    found = []
    for said in verdicts:
        pair = said[0].pair
        told = ", ".join(f"{one.annotator} says {one.label}" for one in said)
        parts = filter(None, (told, pair.context))
        found.append(pair._replace(context=CONTEXT_RULE.join(parts)))
    return found


def write_review(pairs: Sequence[ReviewPair], out: str | Path) -> None:
    """Write a sheet to fill in, ``.csv``, or a page that makes one, ``.html``.

    Args:
        pairs: the pairs.
        out: the file to write; a page needs nothing else, and opens from the disk.

    Raises:
        UnknownNameError: if its name ends on neither.
        UsageError: if there is no pair.
    """
    path = Path(out)
    if path.suffix.lower() not in _ENDINGS:
        raise UnknownNameError("ending of a review sheet", path.suffix, _ENDINGS)
    if not pairs:
        raise UsageError("there is no pair to review")
    if path.suffix.lower() == ".html":
        text = review_page(pairs, path.stem)
    else:
        text = csv_text(SHEET_COLUMNS, [(*_cells(pair), "", "") for pair in pairs])
    with write_atomically(path) as file:
        file.write(text.encode())


def _cells(pair: ReviewPair) -> tuple[str | float | None, ...]:
    cells = pair._asdict()
    return tuple(cells[name] for name in SHEET_COLUMNS[:-2])
