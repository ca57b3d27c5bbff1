"""What a model makes of the passages, in blocks on disk, so that nothing is encoded twice."""

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
"""Passages encoded and kept together: 60 MB of vectors with 768 dimensions."""


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
        """Read one of the arrays, and not the others."""
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
) -> EncodedPassages:
    """Encode passages in blocks and keep them; blocks that are there are not made again.

    A block's file bears the digest of its passages in its name, so that it is only ever taken for
    the same passages. It belongs to one model: the folder must not serve another.

    Args:
        encode: what makes arrays of the texts of a block.
        passages: the passages; streamed once.
        folder: where the blocks are kept.
        progress: called with ``(stage, done, total)``.
    """
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
        progress("encode", len(doc_ids), 0)
    return EncodedPassages(PassageIds(doc_ids), blocks)
