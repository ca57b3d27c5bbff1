"""Negatives: passages that BM25 ranks high and nobody judged relevant.

Source: MS-Shift (ECIR 2023), section 3.1: 100 negatives per training query, sampled with BM25.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from msshift_bench.bm25 import Bm25
from msshift_bench.errors import DataError
from msshift_bench.ranking import PassageIds
from msshift_bench.records import Row

__all__ = ["sample_negatives"]


def sample_negatives(
    index: Bm25, rows: Sequence[Row], *, count: int, depth: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Choose passages that BM25 ranks high and nobody judged relevant, for each training query.

    Of a query's first `depth` passages without the relevant ones, those with the smallest keyed
    hashes are taken: the choice depends on the seed, the query and the candidates, on nothing
    else. A query that matches too few passages is given others of the collection.

    Args:
        index: the index of the collection.
        rows: the training queries.
        count: negatives per query.
        depth: how far down the ranking candidates are taken from, e.g. 1000.
        seed: keys the choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows.

    Raises:
        DataError: if a query has not so many passages that are not relevant to it.
    """
    if count == 0:
        yield from (() for _ in rows)
        return
    rankings = index.search((row.text for row in rows), depth=depth)
    for row, ranking in zip(rows, rankings, strict=True):
        relevant = set(row.relevant_doc_ids)
        candidates = [doc_id for doc_id, _ in ranking if doc_id not in relevant]
        chosen = sorted(candidates, key=lambda doc_id: _keyed(seed, row.query_id, doc_id))[:count]
        if len(chosen) < count:
            chosen += _others(index.ids, row, {*relevant, *chosen}, count - len(chosen), seed)
        yield tuple(chosen)


def _others(ids: PassageIds, row: Row, taken: set[str], count: int, seed: int) -> list[str]:
    if len(ids) - len(taken) < count:
        raise DataError(f"{len(ids)} passages are too few to give {row.query_id!r} its negatives")
    chosen: list[str] = []
    turn = 0
    while len(chosen) < count:
        place = int.from_bytes(_keyed(seed, row.query_id, f"\0{turn}"), "big") % len(ids)
        doc_id = str(ids.ids[ids.sorted[place]])
        if doc_id not in taken:
            chosen.append(doc_id)
            taken.add(doc_id)
        turn += 1
    return chosen


def _keyed(seed: int, query_id: str, item: str) -> bytes:
    text = f"{query_id}\0{item}".encode()
    return hashlib.blake2b(text, digest_size=16, key=f"{seed}/negatives".encode()).digest()
