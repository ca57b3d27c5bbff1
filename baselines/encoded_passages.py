"""Passages encoded by a model, in blocks on disk, so that nothing is encoded twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.plumbing import Progress, batches, write_atomically
from msshift_bench.records import Passage
from msshift_bench.search import PassageIds

__all__ = ["Arrays", "EncodedPassages", "PassageBlock", "encode_passages"]

Arrays = Mapping[str, npt.NDArray[Any]]
"""The arrays of one block, by name."""

_SIZE = 20_000
"""Passages per block: 60 MB of vectors with 768 dimensions."""


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

    def read(self, name: str) -> npt.NDArray[Any]:
        """Read one of the arrays only."""
        with np.load(self.path) as arrays:
            array: npt.NDArray[Any] = arrays[name]
            return array


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
    progress: Progress,
    total: int = 0,
) -> EncodedPassages:
    """Encode passages in blocks on disk; existing blocks are kept.

    A block's file name holds the digest of its passages, so that it is used for the same passages
    only. The folder belongs to one model and must not serve another.

    Args:
        encode: turns the texts of a block into arrays.
        passages: the passages; streamed once.
        folder: the folder of the blocks.
        progress: called with ``(stage, done, total)``.
        total: how many passages there are; 0 if that is not known.
    """
    progress("encode", 0, total)
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
        progress("encode", len(doc_ids), total)
    return EncodedPassages(PassageIds(doc_ids), blocks)
