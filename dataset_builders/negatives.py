"""Negatives: passages that BM25 ranks high and that are not judged relevant.

Source: MS-Shift (ECIR 2023), section 3.1: 100 negatives per training query, sampled with BM25.

Published triples and baselines follow one rule. The candidates are a query's first passages without
the relevant ones. The negatives are the candidates with the smallest keyed hashes. The keyed hash
of a pair has 64 bits. It is the BLAKE2b of the doc_id, exclusive-or the BLAKE2b of the query_id
keyed by the seed, through the finaliser of SplitMix64. So the choice depends on the seed, the query
and the candidates alone, and each passage is hashed only once. A query with too few candidates gets
other passages of the collection. SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.arrays import Ints
from msshift_bench.data import DATA_VERSION, Collection, ContentDigest, open_collection
from msshift_bench.engine import KeptArray, engine_in_use
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import batches, counted, map_in_threads, report_progress
from msshift_bench.records import Passage, Row
from msshift_bench.sampling import keyed_hash, keyed_hashes
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    cached_index,
    stemmer_version,
)

BLOCK_QUERIES = 2_000
"""Training queries whose negatives are stored in one block."""

Chooser = Callable[[Sequence[Row]], npt.NDArray[Any]]
"""A function from queries to the doc_ids of their negatives, of shape ``(queries, count)``."""


def sample_negatives(
    index: Bm25, rows: Sequence[Row], *, count: int, depth: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Choose negatives for each training query: passages that BM25 ranks high, not judged relevant.

    Args:
        index: the index of the collection.
        rows: the training queries.
        count: negatives per query; 0 gives empty tuples.
        depth: number of first passages of the ranking that are candidates, e.g. 1000.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows; candidates by keyed hash, ascending,
        then, if they are too few, other passages of the collection.

    Raises:
        DataError: if a query has fewer than `count` passages that are not relevant to it.
    """
    if count == 0:
        yield from (() for _ in rows)
        return
    for chosen in map_in_threads(_chooser(index, count, depth, seed), batches(rows, BATCH)):
        yield from map(tuple, chosen.tolist())


def _chooser(index: Bm25, count: int, depth: int, seed: int) -> Chooser:
    rule = _rule(index.ids, count, seed)

    def choose(rows: Sequence[Row]) -> npt.NDArray[Any]:
        return index.ids.ids[rule(rows, index.select([row.text for row in rows], depth=depth))]

    return choose


def ranked_negatives(
    ids: PassageIds, rows: Sequence[Row], rankings: Iterable[Ranking], *, count: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Choose negatives from given rankings, by the rule of `sample_negatives`.

    Args:
        ids: the doc_ids of the collection.
        rows: the training queries.
        rankings: one ranking for each row; all of its passages are candidates, and must be in
            `ids`.
        count: negatives per query, at least 1.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row; see `sample_negatives`.

    Raises:
        DataError: if a query has fewer than `count` passages that are not relevant to it.
    """
    rule = _rule(ids, count, seed)
    for part in batches(zip(rows, rankings, strict=True), BATCH):
        ranked = [ids.rows(list(ranking)) for _, ranking in part]
        candidates = np.full((len(part), max(1, *map(len, ranked))), -1)
        for place, places in enumerate(ranked):
            candidates[place, : len(places)] = places
        yield from map(tuple, ids.ids[rule([row for row, _ in part], candidates)].tolist())


def random_negatives(
    ids: PassageIds, rows: Sequence[Row], *, count: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Draw negatives for each training query from all passages that are not judged relevant.

    A passage is drawn at most once for a query. The draw depends on the seed, the query and the
    doc_ids alone.

    Args:
        ids: the doc_ids of the collection.
        rows: the training queries.
        count: negatives per query.
        seed: the seed of the random choice.

    Yields:
        `count` doc_ids for each row, in the order of the rows and draws.

    Raises:
        DataError: if a query has fewer than `count` passages that are not relevant to it.
    """
    key = f"{seed}/random negatives"
    for row in rows:
        drawn = _draw(ids, [], _relevant(ids, [row])[0], row.query_id, count, key)
        yield tuple(ids.ids[drawn].tolist())


def _rule(ids: PassageIds, count: int, seed: int) -> Callable[[Sequence[Row], Ints], Ints]:
    """Return the function that chooses negatives from candidates.

    Args:
        ids: the doc_ids of the collection.
        count: negatives per query, at least 1.
        seed: the seed of the random choice.

    Returns:
        A function that takes queries and their candidates, of shape ``(queries, candidates)`` with
        -1 for none. It returns the negatives, of shape ``(queries, count)``; see
        `sample_negatives`. Candidates and negatives are row numbers of the collection.
    """
    key = f"{seed}/negatives"
    hashes = _hashes(ids.ids)

    def apply(queries: Sequence[Row], candidates: Ints) -> Ints:
        relevant = _relevant(ids, queries)
        allowed = candidates >= 0
        for place, barred in enumerate(relevant):
            for row in barred:
                allowed[place] &= candidates[place] != row
        query_hashes = _hashes((query.query_id for query in queries), key)
        keys = _mix(hashes[candidates] ^ query_hashes[:, None])
        keys[~allowed] = _LARGEST
        if candidates.shape[1] > count:
            # A sort of all candidates would take several times longer.
            last = np.partition(keys, count - 1, axis=1)[:, count - 1]
            allowed &= keys <= last[:, None]
        places, columns = np.nonzero(allowed)
        rows = candidates[places, columns]
        order = np.lexsort((ids.order[rows], keys[places, columns], places))
        rows = rows[order]  # The places need no reordering: they are sorted already.
        ranks = np.arange(len(rows)) - np.searchsorted(places, places)
        first = ranks < count  # All of them, unless two hashes are equal.
        chosen = np.full((len(queries), count), -1)
        chosen[places[first], ranks[first]] = rows[first]
        for place in np.flatnonzero(chosen[:, -1] < 0).tolist():
            drawn: list[int] = chosen[place][chosen[place] >= 0].tolist()
            chosen[place] = _draw(ids, drawn, relevant[place], queries[place].query_id, count, key)
        return chosen

    return apply


def _relevant(ids: PassageIds, queries: Sequence[Row]) -> list[list[int]]:
    """Return for each query the row numbers of its relevant passages; others have no row."""
    places = iter(ids.rows([doc_id for query in queries for doc_id in query.relevant_doc_ids]))
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
    key: str,
) -> list[int]:
    """Return a query's negatives, filled up to `count` with passages that are not relevant.

    All passages are row numbers. Too few passages raise DataError.
    """
    drawn = list(drawn)
    taken = {*drawn, *relevant}
    if len(ids) - len(taken) < count - len(drawn):
        raise DataError(
            f"{len(ids)} passages are too few to give query {query_id!r} {count} negatives; "
            "give a smaller number of negatives, or a larger collection"
        )
    turn = 0
    while len(drawn) < count:
        number = int.from_bytes(keyed_hash(f"{query_id}\0{turn}", key), "little")
        passage = int(ids.sorted[number % len(ids)])
        if passage not in taken:
            drawn.append(passage)
            taken.add(passage)
        turn += 1
    return drawn


_LARGEST = np.iinfo(np.uint64).max


def _hashes(names: Iterable[str], key: str = "") -> npt.NDArray[np.uint64]:
    """Return the keyed hash of each name as a little-endian integer."""
    return np.frombuffer(keyed_hashes(names, key), "<u8")


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64, a bijection that spreads every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class _NegativesBlock:
    """A block of training queries, and all settings that determine their negatives.

    `queries` contains query_id, text and relevant doc_ids.
    """

    passages: str
    parameters: Bm25Parameters
    stemmed_by: str
    count: int
    seed: int
    queries: Sequence[tuple[str, str, Sequence[str]]]
    chooser: Callable[[], Chooser] = field(compare=False)
    version: str = DATA_VERSION


def mine_negatives(
    collection: Collection,
    rows: Sequence[Row],
    work: Path,
    *,
    passages: str,
    count: int = 100,
    depth: int = 1000,
    seed: int = 0,
    block_queries: int = BLOCK_QUERIES,
    words: str = "whitespace",
) -> list[KeptArray]:
    """Choose negatives by the rule of `sample_negatives`, and store them in blocks of queries.

    The engine in use computes the blocks. It does not compute a stored block again, if its queries
    and settings are the same. Only the index is in memory; it is stored in the cache.

    Args:
        collection: the passages.
        rows: the training queries, each once, sorted by query_id.
        work: the folder of the blocks, unless the engine has a store.
        passages: the digest of the collection's passages; see `digests.ContentDigest`.
        count: negatives per query, at least 1.
        depth: number of first passages of the ranking that are candidates.
        seed: the seed of the random choice.
        block_queries: queries per block.
        words: how texts are divided into words (`WORDS`).

    Returns:
        The blocks, in the order of the rows: doc_ids in UTF-8, of shape ``(queries, count)``.

    Raises:
        DataError: if a query has fewer than `count` passages that are not relevant to it.
        UsageError: if the machines of a cluster cannot find the collection.
        MissingExtraError: if the extra bm25 is not installed.
    """
    engine = engine_in_use()
    parameters = Bm25Parameters(depth=depth, words=words)
    stemmed_by = stemmer_version(parameters.stemmer)

    def stream(stage: str) -> Iterable[Passage]:
        return counted(collection.passages(), stage)

    @cache
    def local_chooser() -> Chooser:
        return _chooser(cached_index(stream, lambda: passages, parameters), count, depth, seed)

    chooser: Callable[[], Chooser] = local_chooser
    if engine.address is not None:
        address = shared_address(collection)
        chooser = partial(_named_chooser, address, passages, parameters, stemmed_by, count, seed)
    blocks = (
        _NegativesBlock(
            passages=passages,
            parameters=parameters,
            stemmed_by=stemmed_by,
            count=count,
            seed=seed,
            queries=[(row.query_id, row.text, row.relevant_doc_ids) for row in part],
            chooser=chooser,
        )
        for part in batches(rows, block_queries)
    )
    negatives: list[KeptArray] = []
    for block in engine.keep(_negatives, blocks, work):
        negatives.append(block)
        report_progress("negatives", min(len(negatives) * block_queries, len(rows)), len(rows))
    return negatives


def _negatives(block: _NegativesBlock) -> npt.NDArray[np.bytes_]:
    """Return the doc_ids of a block's negatives, of shape ``(queries, count)``, in UTF-8."""
    choose = block.chooser()
    rows = [
        Row.judged(query_id, text, "", dict.fromkeys(relevant, 1))
        for query_id, text, relevant in block.queries
    ]
    chosen = list(map_in_threads(choose, batches(rows, BATCH)))
    return np.char.encode(np.concatenate(chosen), "utf-8")


@lru_cache(maxsize=1)
def _named_chooser(
    address: str, passages: str, parameters: Bm25Parameters, stemmed_by: str, count: int, seed: int
) -> Chooser:
    index = open_shared_index(address, passages, parameters, stemmed_by)
    return _chooser(index, count, parameters.depth, seed)


def shared_address(collection: Collection) -> str:
    """Return the path or name by which other processes open a collection.

    Raises:
        UsageError: if it has neither.
    """
    if collection.address is None:
        raise UsageError(
            "the collection has no path and no name, so the machines of a cluster cannot open it; "
            "remove --ray"
        )
    return collection.address


# Cached: a process opens an index once for all its tasks.
@lru_cache(maxsize=1)
def open_shared_index(
    address: str, passages: str, parameters: Bm25Parameters, stemmed_by: str
) -> Bm25:
    """Return BM25's index of a collection, in a task of another process.

    Args:
        address: the result of `shared_address` in the other process.
        passages: the digest of the collection's passages.
        parameters: the parameters of the ranking.
        stemmed_by: the result of `stemmer_version` in the other process.

    Raises:
        NotFoundError: if this machine cannot find the collection.
        UsageError: if its passages, or the version of the stemmer, differ on this machine.
    """
    installed = stemmer_version(parameters.stemmer)
    if installed != stemmed_by:
        raise UsageError(
            f"the stemmer is {installed} on this machine, expected {stemmed_by} as in the process "
            "that made the tasks; install the same version on all machines"
        )
    collection = open_collection(address)
    content = ContentDigest()

    def stream(_: str) -> Iterator[Passage]:
        for passage in collection.passages():
            content.add(passage)
            yield passage

    def digest() -> str:
        return content.hexdigest() if content.rows else passages

    index = cached_index(stream, digest, parameters)
    if digest() != passages:
        raise UsageError(
            f"the passages of the collection {address} differ on this machine; copy the same files "
            "to all machines"
        )
    return index
