"""The passages that hold a token near one of a query's (ColBERT, SIGIR 2020, section 3.6).

One index of faiss holds all token vectors of a collection, as IVF-PQ (Jegou et al., TPAMI 2011):
k-means cuts the space into cells, and a vector is stored as its cell and one byte for each of its
parts. For each token of a query, the search finds its nearest neighbours in the nearest cells. The
passages of all found tokens are the query's candidates, which exact MaxSim ranks.

The same blocks always give the same bytes: cells and parts are learnt from the vectors of passages
chosen by keyed hash, and faiss draws with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt

from msshift_bench.baselines.approximate import index_file
from msshift_bench.baselines.encoded_passages import EncodedPassages
from msshift_bench.baselines.late_interaction import PassageRows
from msshift_bench.baselines.recipe import Table
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.errors import UsageError, require

__all__ = ["TokenSearch", "find_token_index", "passages_of_tokens"]

_PER_CELL = 39
"""Fewest tokens per cell to learn cells from, as faiss recommends."""

_BYTE = 256
"""Values of one byte, which stores each part of a vector."""

_LEARNT = 64
"""Tokens per cell, and per value of a byte, to learn from: 1 GB with 32,768 cells."""

_QUERIES = 256
"""Queries searched together: 100 MB of found tokens, if each of 32 finds 1,024."""

_NUMBER = 8
"""Bytes of a token's number in the index."""


class TokenSearch(Table):
    """How to find the tokens nearest to a query's.

    Attributes:
        cells: most cells to cut the space into; fewer if a cell would get less than 39 tokens.
        probes: nearest cells to search for each token of a query.
        sub_vectors: parts of a vector, each stored as one byte. A divisor of `dimensions`.
        matches: nearest passage tokens to take for each token of a query.
    """

    cells: PositiveInt
    probes: PositiveInt
    sub_vectors: PositiveInt
    matches: PositiveInt

    def operations(self, tokens: int, dimensions: int) -> float:
        """Return the operations of a search for one token of a query, for plans.

        Args:
            tokens: the tokens of all passages.
            dimensions: dimensions of a vector.
        """
        looked_through = min(self.probes / self.cells, 1) * tokens
        return 2.0 * self.cells * dimensions + looked_through * self.sub_vectors

    @property
    def bytes_per_token(self) -> int:
        """The bytes that the index takes for a token."""
        return self.sub_vectors + _NUMBER


def find_token_index(passages: EncodedPassages, settings: TokenSearch, folder: Path) -> Path:
    """Return the file of an index of all tokens; make it if it is missing.

    Memory holds the index, one block of vectors, and the vectors to learn from.

    Args:
        passages: blocks that hold ``vectors`` and ``lengths``.
        settings: how tokens are found.
        folder: the folder of the index; it belongs to one model.

    Raises:
        UsageError: if the vectors cannot be cut into the parts, or there are too few to learn from.
    """
    name = "tokens-" + "-".join(map(str, settings.parameters().values()))
    return index_file(passages, name, folder, lambda: _made(passages, settings))


def _made(passages: EncodedPassages, settings: TokenSearch) -> Any:
    faiss = require("faiss", "neural", "ColBERT")
    dimensions = passages.blocks[0].read("vectors").shape[1]
    if dimensions % settings.sub_vectors:
        raise UsageError(
            f"dimensions is {dimensions}, which is no multiple of sub_vectors "
            f"{settings.sub_vectors}"
        )
    tokens = sum(int(block.read("lengths").sum()) for block in passages.blocks)
    if tokens < _BYTE:
        raise UsageError(
            f'{tokens} tokens are too few to index: candidates = "tokens" needs {_BYTE} or more; '
            'take candidates = "all"'
        )
    cells = max(1, min(settings.cells, tokens // _PER_CELL))
    learnt = _learnt(passages, tokens, max(cells, _BYTE) * _LEARNT)
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatL2(dimensions), dimensions, cells, settings.sub_vectors, 8
    )
    # faiss would warn on stderr of a sample that is as large as the collection allows.
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
    index.train(learnt)
    for block in passages.blocks:
        index.add(block.read("vectors").astype(np.float32))
    return index


def _learnt(passages: EncodedPassages, tokens: int, vectors: int) -> npt.NDArray[np.float32]:
    """Return about `vectors` vectors, of passages chosen by keyed hash."""
    count = round(len(passages.ids) * min(1.0, vectors / tokens))
    chosen = sample(passages.ids.ids.tolist(), count, seed=0, purpose="token index")
    taken = np.isin(passages.ids.ids, list(chosen))
    parts = []
    start = 0
    for block in passages.blocks:
        lengths = block.read("lengths")
        inside = np.repeat(taken[start : start + block.size], lengths)
        parts.append(block.read("vectors")[inside].astype(np.float32))
        start += block.size
    return np.concatenate(parts)


def passages_of_tokens(
    queries: npt.NDArray[np.float32], passages: EncodedPassages, file: Path, settings: TokenSearch
) -> Iterator[PassageRows]:
    """Yield, for each query, the passages of the tokens that are nearest to one of its own.

    Args:
        queries: vectors of shape (queries, tokens, dimensions); rows of zeros are no tokens.
        passages: the passages to search.
        file: the index.
        settings: how tokens are found.
    """
    faiss = require("faiss", "neural", "ColBERT")
    index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
    parameters = faiss.SearchParametersIVF(nprobe=min(settings.probes, index.nlist))
    ends = np.cumsum(np.concatenate([block.read("lengths") for block in passages.blocks]))
    matches = min(settings.matches, index.ntotal)
    for first in range(0, len(queries), _QUERIES):
        part = queries[first : first + _QUERIES]
        is_token = part.any(axis=2)
        _, nearest = index.search(part[is_token], matches, params=parameters)
        for tokens in np.split(nearest, np.cumsum(is_token.sum(axis=1))[:-1]):
            yield np.unique(np.searchsorted(ends, tokens[tokens >= 0], side="right"))
