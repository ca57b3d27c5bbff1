"""BM25's weights of terms in passages, in 32 bits: what its inverted index holds.

The arithmetic is that of bm25s' "lucene", step by step, so that scores are the same bits.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.search.postings import Block, Spans

__all__ = ["BLOCK_SIZE", "CountedTerms", "ImpactBlock"]

BLOCK_SIZE = 1 << 16
"""Passages per block: their scores take 256 KB, and a passage's number two bytes."""


@dataclass(frozen=True, slots=True)
class ImpactBlock:
    """The postings of some passages in a row.

    Attributes:
        postings: their inverted index.
        terms: the numbers of the terms in it, ascending.
        starts: the first posting of each term, and at the end the number of postings.
    """

    postings: Block
    terms: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]

    def spans(self, queries: Sequence[Sequence[int]]) -> Spans:
        """Find the terms of queries.

        Args:
            queries: the term numbers of each query, in the order in which they are added.
        """
        sought = np.fromiter(chain.from_iterable(queries), np.int32)
        places = np.searchsorted(self.terms, sought)
        held = self.terms[np.minimum(places, len(self.terms) - 1)] == sought
        starts = self.starts[places]
        ends = self.starts[places + held]
        bounds = np.cumsum([0, *map(len, queries)], dtype=np.int64)
        return Spans(starts, ends, np.ones(len(sought), np.float32), bounds)


@dataclass(frozen=True, slots=True)
class _CountedBlock:
    lengths: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint16]
    counts: npt.NDArray[Any]
    terms: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]


class CountedTerms:
    """How often each term stands in each passage; passages are added in their order."""

    def __init__(self) -> None:
        self._blocks: list[_CountedBlock] = []
        self._numbers = array("i")
        self._lengths = array("i")

    def add(self, numbers: array[int]) -> None:
        """Add the term numbers of a passage."""
        self._numbers.extend(numbers)
        self._lengths.append(len(numbers))
        if len(self._lengths) == BLOCK_SIZE:
            self._count()

    def _count(self) -> None:
        """Make a block of the passages that were added since the last one."""
        lengths = np.array(self._lengths, np.int64)
        numbers = np.array(self._numbers, np.int64)
        # A posting as one integer, its term above its passage, sorts by term, then passage.
        pairs = np.sort(numbers * BLOCK_SIZE + np.repeat(np.arange(len(lengths)), lengths))
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        counts = np.diff(first, append=len(pairs))
        terms, rows = np.divmod(pairs[first], BLOCK_SIZE)
        starts = np.flatnonzero(np.diff(terms, prepend=-1))
        self._blocks.append(
            _CountedBlock(
                lengths,
                rows.astype(np.uint16),
                counts.astype(np.min_scalar_type(counts.max(initial=0))),
                terms[starts].astype(np.int32),
                np.append(starts, len(terms)),
            )
        )
        self._numbers, self._lengths = array("i"), array("i")

    def weigh(self, terms: int, k1: float, b: float) -> Iterator[ImpactBlock]:
        """Yield blocks with BM25's weights.

        Args:
            terms: how many terms there are, at least 1.
            k1: see `Bm25Parameters`.
            b: see `Bm25Parameters`.
        """
        if self._lengths:
            self._count()
        passages = sum(len(block.lengths) for block in self._blocks)
        average = np.float64(sum(int(block.lengths.sum()) for block in self._blocks)) / passages
        holders = np.zeros(terms, np.int64)
        for block in self._blocks:
            holders[block.terms] += np.diff(block.starts)
        # The logarithm is Python's, as in bm25s; numpy's may differ in the last bit.
        known, which = np.unique(holders, return_inverse=True)
        idf = np.array(
            [math.log(1 + (passages - df + 0.5) / (df + 0.5)) for df in known.tolist()], np.float32
        )[which]
        for block in self._blocks:
            norm = k1 * ((1 - b) + b * block.lengths / average)
            saturation = block.counts / (norm[block.rows] + block.counts)
            weights = np.repeat(idf[block.terms], np.diff(block.starts)) * saturation
            postings = Block(len(block.lengths), block.rows, weights.astype(np.float32))
            yield ImpactBlock(postings, block.terms, block.starts)
