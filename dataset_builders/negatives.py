"""Negatives: passages that BM25 ranks high and nobody judged relevant.

Source: MS-Shift (ECIR 2023), section 3.1: 100 negatives per training query, sampled with BM25.

Published triples and baselines follow one rule. From a query's first passages without the relevant
ones, it takes those with the smallest keyed hashes. The keyed hash of a pair has 64 bits: the
BLAKE2b of the doc_id, exclusive-or the BLAKE2b of the query_id keyed by the seed, through the
finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014). So the choice depends on the seed, the query and the candidates alone, and a passage
is hashed once, however many queries find it. A query that matches too few passages gets other
passages of the collection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from msshift_bench.errors import DataError
from msshift_bench.plumbing import batches, map_in_threads
from msshift_bench.records import Row
from msshift_bench.search import BATCH, Bm25, PassageIds, Ranking

__all__ = [
    "NegativeSampler",
    "random_negatives",
    "ranked_negatives",
    "sample_negatives",
]


def sample_negatives(
    index: Bm25, rows: Sequence[Row], *, count: int, depth: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Choose passages that BM25 ranks high and nobody judged relevant, for each training query.

    Args:
        index: the index of the collection.
        rows: the training queries.
        count: negatives per query.
        depth: how far down the ranking candidates are taken from, e.g. 1000.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows; by keyed hash, ascending.

    Raises:
        DataError: if a query has not so many passages that are not relevant to it.
    """
    if count == 0:
        yield from (() for _ in rows)
        return
    sampler = NegativeSampler(index, count=count, depth=depth, seed=seed)
    for chosen in map_in_threads(sampler.choose, batches(rows, BATCH)):
        yield from map(tuple, index.ids.ids[chosen].tolist())


def ranked_negatives(
    ids: PassageIds,
    rows: Sequence[Row],
    rankings: Iterable[Ranking],
    *,
    count: int,
    seed: int,
) -> Iterator[tuple[str, ...]]:
    """Choose from given rankings as `sample_negatives` does from BM25's.

    Args:
        ids: the doc_ids of the collection.
        rows: the training queries.
        rankings: one for each row; all of its passages are candidates.
        count: negatives per query, at least 1.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows; by keyed hash, ascending.

    Raises:
        DataError: if a query has not so many passages that are not relevant to it.
    """
    rule = _Rule(ids, count=count, seed=seed)
    for part in batches(zip(rows, rankings, strict=True), BATCH):
        found = [ids.rows(list(ranking)) for _, ranking in part]
        candidates = np.full((len(part), max(1, *map(len, found))), -1)
        for place, places in enumerate(found):
            candidates[place, : len(places)] = places
        chosen = rule.apply([row for row, _ in part], candidates)
        yield from map(tuple, ids.ids[chosen].tolist())


def random_negatives(
    ids: PassageIds, rows: Sequence[Row], *, count: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Draw passages of the whole collection that nobody judged relevant, for each training query.

    A passage is drawn at most once for a query. The draw depends on the seed, the query and the
    doc_ids alone.

    Args:
        ids: the doc_ids of the collection.
        rows: the training queries.
        count: negatives per query.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows.

    Raises:
        DataError: if a query has not so many passages that are not relevant to it.
    """
    key = f"{seed}/random negatives".encode()
    for row in rows:
        relevant = [place for place in ids.rows(row.relevant_doc_ids) if place is not None]
        drawn = _draw(ids, [], relevant, row.query_id, count, key)
        yield tuple(ids.ids[drawn].tolist())


class NegativeSampler:
    """The rule on what BM25 ranks high.

    Args:
        index: the index of the collection.
        count: negatives per query, at least 1.
        depth: how far down the ranking candidates are taken from.
        seed: the seed of the random choice.

    Attributes:
        ids: the doc_ids of the collection.
    """

    def __init__(self, index: Bm25, *, count: int, depth: int, seed: int) -> None:
        self.ids = index.ids
        self._index = index
        self._depth = depth
        self._rule = _Rule(index.ids, count=count, seed=seed)

    def choose(self, queries: Sequence[Row]) -> npt.NDArray[np.int64]:
        """Choose the negatives of some queries, best `bm25.BATCH` at a time; see `_Rule.apply`."""
        texts = [query.text for query in queries]
        return self._rule.apply(queries, self._index.select(texts, depth=self._depth))


class _Rule:
    """The rule, with the hash of every passage.

    Args:
        ids: the doc_ids of the collection.
        count: negatives per query, at least 1.
        seed: the seed of the random choice.
    """

    def __init__(self, ids: PassageIds, *, count: int, seed: int) -> None:
        self._ids = ids
        self._count = count
        self._key = f"{seed}/negatives".encode()
        self._hashes = _hashes(ids.ids)

    def apply(
        self, queries: Sequence[Row], candidates: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Choose the negatives of some queries.

        Args:
            queries: the queries.
            candidates: rows of the collection, of shape ``(queries, candidates)``; -1 for none.

        Returns:
            Rows of the collection, of shape ``(queries, count)``; by keyed hash, ascending.
        """
        relevant = self._relevant(queries)
        allowed = candidates >= 0
        for place, barred in enumerate(relevant):
            for row in barred:
                allowed[place] &= candidates[place] != row
        query_hashes = _hashes((query.query_id for query in queries), self._key)
        keys = _mix(self._hashes[candidates] ^ query_hashes[:, None])
        keys[~allowed] = _LARGEST
        if candidates.shape[1] > self._count:
            # A sort of all candidates would take several times longer.
            last = np.partition(keys, self._count - 1, axis=1)[:, self._count - 1]
            allowed &= keys <= last[:, None]
        places, columns = np.nonzero(allowed)
        rows = candidates[places, columns]
        order = np.lexsort((self._ids.order[rows], keys[places, columns], places))
        rows = rows[order]  # lexsort leaves the places as they are: they are sorted already
        ranks = np.arange(len(rows)) - np.searchsorted(places, places)
        kept = ranks < self._count  # all, unless two hashes are equal
        chosen = np.full((len(queries), self._count), -1)
        chosen[places[kept], ranks[kept]] = rows[kept]
        for place in np.flatnonzero(chosen[:, -1] < 0).tolist():
            drawn: list[int] = chosen[place][chosen[place] >= 0].tolist()
            query_id = queries[place].query_id
            chosen[place] = _draw(
                self._ids, drawn, relevant[place], query_id, self._count, self._key
            )
        return chosen

    def _relevant(self, queries: Sequence[Row]) -> list[list[int]]:
        """Return the rows of the passages relevant to each query."""
        doc_ids = [doc_id for query in queries for doc_id in query.relevant_doc_ids]
        places = iter(self._ids.rows(doc_ids))
        return [
            [place for place in islice(places, len(query.relevant_doc_ids)) if place is not None]
            for query in queries
        ]


def _draw(
    ids: PassageIds,
    drawn: Sequence[int],
    relevant: Sequence[int],
    query_id: str,
    count: int,
    key: bytes,
) -> list[int]:
    """Fill up a query's negatives with other passages of the collection, none of them relevant."""
    drawn = list(drawn)
    taken = {*drawn, *relevant}
    if len(ids) - len(taken) < count - len(drawn):
        raise DataError(
            f"{len(ids)} passages are too few to give query {query_id!r} {count} negatives"
        )
    turn = 0
    while len(drawn) < count:
        text = f"{query_id}\0{turn}".encode()
        digest = hashlib.blake2b(text, digest_size=16, key=key).digest()
        passage = int(ids.sorted[int.from_bytes(digest, "little") % len(ids)])
        if passage not in taken:
            drawn.append(passage)
            taken.add(passage)
        turn += 1
    return drawn


_LARGEST = np.iinfo(np.uint64).max


def _hashes(names: Iterable[str], key: bytes = b"") -> npt.NDArray[np.uint64]:
    """Return the 64-bit BLAKE2b of each name, little-endian."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<u8")


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64, a bijection that spreads every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
