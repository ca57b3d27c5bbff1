"""MaxSim (ColBERT, SIGIR 2020, equation 3) with all passages in blocks, or with candidates.

The score of a passage is the sum, over the tokens of the query, of the highest dot product with one
of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.block_search import BlockScores, best_of
from msshift_bench.baselines.encoded_passages import Arrays, EncodedPassages
from msshift_bench.errors import require
from msshift_bench.search import Ranking

__all__ = ["PassageRows", "max_sim", "rerank", "scores_by_max_sim"]

PassageRows = npt.NDArray[np.int64]
"""The rows of some passages of a collection, each once, in any order."""

_TILE = {"cpu": (250_000, 128), "cuda": (32_000_000, 4096)}
"""Dot products at once, and of how many query tokens: 1 MB, which a processor's cache holds, or 128
MB."""

_TOGETHER = 32_000_000
"""Candidates ranked in one pass over the blocks: 12 bytes each, 400 MB."""


def max_sim(
    queries: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.floating[Any]],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    """Return MaxSim of queries with passages (ColBERT, equation 3), of shape (queries, passages).

    Args:
        queries: vectors of shape (queries, tokens, dimensions).
        tokens: the vectors of all passages' tokens, of shape (tokens, dimensions).
        lengths: the tokens of each passage, at least 1.
    """
    torch = require("torch", "neural", "ColBERT")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    products, columns = _TILE[device]
    width, dimensions = queries.shape[1:]
    together = max(1, columns // width)
    lefts = [
        torch.from_numpy(part.reshape(-1, dimensions)).to(device).T.contiguous()
        for part in np.split(queries, range(together, len(queries), together))
    ]
    scores = np.empty((len(lengths), len(queries)), np.float32)
    starts = np.cumsum(lengths) - lengths
    # Passages of one length are one tensor, whose maxima need no bounds.
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        step = max(1, products // (length * together * width))
        for part in np.split(rows, range(step, len(rows), step)):
            places = starts[part] + np.arange(length)[:, None]
            right = torch.from_numpy(tokens[places.ravel()]).to(device).float()
            found = [
                (right @ left).view(length, len(part), -1, width).amax(dim=0).sum(dim=2)
                for left in lefts
            ]
            scores[part] = torch.cat(found, dim=1).cpu().numpy()
    return np.ascontiguousarray(scores.T)


def scores_by_max_sim(queries: npt.NDArray[np.float32]) -> BlockScores:
    """Return what scores blocks that hold ``vectors`` and ``lengths``, for `search_blocks`.

    Args:
        queries: vectors of shape (queries, tokens, dimensions).
    """

    def scores(block: Arrays, part: slice) -> npt.NDArray[np.float32]:
        return max_sim(queries[part], block["vectors"], block["lengths"])

    return scores


def rerank(
    queries: npt.NDArray[np.float32],
    passages: EncodedPassages,
    candidates: Iterable[PassageRows],
    depth: int,
) -> Iterator[Ranking]:
    """Rank each query's candidates by MaxSim, one block of passages in memory at a time.

    Args:
        queries: vectors of shape (queries, tokens, dimensions).
        passages: blocks that hold ``vectors`` and ``lengths``.
        candidates: for each query, its candidates.
        depth: passages per ranking.
    """
    first = 0
    for group in _groups(candidates):
        scores = [np.empty(len(rows), np.float32) for rows in group]
        start = 0
        for block in passages.blocks:
            arrays = block.load()
            ends = np.cumsum(arrays["lengths"])
            for place, (rows, values) in enumerate(zip(group, scores, strict=True)):
                inside = slice(*np.searchsorted(rows, (start, start + block.size)))
                chosen = rows[inside] - start
                if len(chosen):
                    lengths = arrays["lengths"][chosen]
                    tokens = [
                        arrays["vectors"][end - length : end]
                        for end, length in zip(ends[chosen], lengths, strict=True)
                    ]
                    query = queries[first + place][None]
                    values[inside] = max_sim(query, np.concatenate(tokens), lengths)[0]
            start += block.size
        for rows, values in zip(group, scores, strict=True):
            yield best_of(passages.ids, rows, values, depth)
        first += len(group)


def _groups(candidates: Iterable[PassageRows]) -> Iterator[list[PassageRows]]:
    """Yield groups of queries to rank together, with their candidates sorted."""
    group: list[PassageRows] = []
    held = 0
    for rows in candidates:
        group.append(np.sort(rows))
        held += len(rows)
        if held >= _TOGETHER:
            yield group
            group, held = [], 0
    if group:
        yield group
