"""Passages encoded by a model, in blocks on disk, and search over them, one block at a time.

Every retriever searches in this form: passages are encoded block by block, each block in a file of
its own; every block is searched for all queries; and `Best` merges the blocks by score, then
doc_id. So neither the number of blocks nor a kill between two of them changes a ranking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.plumbing import (
    batches,
    report_progress,
    slices,
    write_atomically,
)
from msshift_bench.records import Passage
from msshift_bench.search import Best, PassageIds, Ranking, rankings_of

__all__ = [
    "AddBlock",
    "Arrays",
    "EncodedPassages",
    "PassageBlock",
    "best_of",
    "encode_passages",
    "search_blocks",
]

Arrays = Mapping[str, npt.NDArray[Any]]
"""The arrays of one block, by name."""

AddBlock = Callable[[Best, slice, Arrays, slice], None]
"""``(best, queries, block, rows)``: adds the scores that a block's passages, which have these rows
in the collection, have for some of the queries."""

_SIZE = 20_000
"""Passages per block: 60 MB of vectors with 768 dimensions."""

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""

_TOLD = 128
"""Rankings that are Python's mappings at the same time."""


@dataclass(frozen=True, slots=True)
class PassageBlock:
    """Some passages in a row.

    Attributes:
        path: the file of their arrays.
        size: how many passages.
    """

    path: Path
    size: int

    def load(self) -> dict[str, npt.NDArray[Any]]:
        """Read the arrays."""
        with np.load(self.path) as arrays:
            return dict(arrays)


@dataclass(frozen=True, slots=True)
class EncodedPassages:
    """All passages.

    Attributes:
        ids: their doc_ids, in the order of the blocks.
        blocks: the blocks.
    """

    ids: PassageIds
    blocks: Sequence[PassageBlock]

    @property
    def bytes(self) -> int:
        """The bytes that the blocks take on disk."""
        return sum(block.path.stat().st_size for block in self.blocks)


def encode_passages(
    encode: Callable[[list[str]], Arrays],
    passages: Iterable[Passage],
    folder: Path,
    total: int = 0,
) -> EncodedPassages:
    """Encode passages in blocks on disk; existing blocks are kept.

    A block's file name holds the digest of its passages, so that it is used for the same passages
    only. The folder belongs to one model and must not serve another.

    Args:
        encode: turns the texts of a block into arrays.
        passages: the passages; streamed once.
        folder: the folder of the blocks.
        total: how many passages there are; 0 if that is not known.
    """
    report_progress("encode", 0, total)
    doc_ids: list[str] = []
    blocks: list[PassageBlock] = []
    for block in batches(passages, _SIZE):
        digest = hashlib.sha256(repr(block).encode()).hexdigest()
        path = folder / f"{len(blocks):05d}-{digest[:32]}.npz"
        if not path.exists():
            arrays = encode([passage.text for passage in block])
            with write_atomically(path) as file:
                np.savez(file, allow_pickle=False, **arrays)
        blocks.append(PassageBlock(path, len(block)))
        doc_ids.extend(passage.doc_id for passage in block)
        report_progress("encode", len(doc_ids), total)
    return EncodedPassages(PassageIds(doc_ids), blocks)


def search_blocks(
    add: AddBlock,
    passages: EncodedPassages,
    queries: int,
    *,
    depth: int,
    floor: float = -np.inf,
) -> Iterator[Ranking]:
    """Rank passages for each query, one block of passages in memory at a time.

    Args:
        add: adds the scores of one block's passages.
        passages: the passages.
        queries: how many queries there are.
        depth: passages per ranking.
        floor: passages that do not score above it are not ranked.

    Yields:
        A ranking for each query, in their order.
    """
    for part in slices(queries, _QUERIES):
        best = Best(passages.ids, part.stop - part.start, depth, floor)
        start = 0
        for number, block in enumerate(passages.blocks, 1):
            add(best, part, block.load(), slice(start, start + block.size))
            start += block.size
            report_progress("search blocks", number, len(passages.blocks))
        for some in slices(len(best.keys), _TOLD):
            yield from rankings_of(best.keys[some], passages.ids)


def best_of(
    ids: PassageIds, rows: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], depth: int
) -> Ranking:
    """Rank some passages by score, then doc_id, both descending, and cut at `depth`.

    Args:
        ids: the collection's doc_ids.
        rows: the rows of the passages.
        scores: their scores.
        depth: most passages of the ranking.
    """
    best = np.lexsort((-ids.order[rows], -scores))[:depth]
    return dict(zip(ids.ids[rows[best]].tolist(), scores[best].tolist(), strict=True))
