"""A collection of MS MARCO's shape and any size, as TSV files: words by Zipf's and Heaps' laws.

The frequencies of words are those measured on the pool of 61,956 real passages (3.5 million words;
`FREQUENCIES`), and beyond rank 30,000 fall as its rarest words do. The pool's vocabulary grows as
the 0.54th power of its words (92,748 different ones), as does the generated one. The most frequent
words are Lucene's 33 stop words, so that as many words are left for BM25 as in real passages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from msshift_bench.plumbing import write_atomically
from msshift_bench.search.bm25 import STOP_WORD_LISTS

__all__ = ["FREQUENCIES", "vocabulary_of", "write_collection"]

FREQUENCIES = {
    1: 6.3e-2, 2: 3.4e-2, 5: 2.2e-2, 10: 7.7e-3, 20: 4.0e-3, 50: 1.5e-3, 100: 8.3e-4, 300: 3.3e-4,
    1_000: 1.3e-4, 3_000: 4.1e-5, 10_000: 8.0e-6, 30_000: 1.14e-6,
}  # fmt: skip
"""Rank of a word -> its share of all words of the pool."""

_TAIL = 1.85
"""By which power of their rank words beyond the last of `FREQUENCIES` grow rarer."""

_WORDS = 4_000_000
_BLOCK = 10_000
_LENGTHS = (4.0, 0.22)
"""Mean and deviation of the logarithm of a passage's length: 56 words on average."""

_SHORTEST, _LONGEST = 10, 120
_FREQUENT = sorted(STOP_WORD_LISTS["english"])
_BEGINNINGS = ("what is", "what", "how to", "how", "who", "when", "where", "", "", "")


def _cumulative() -> np.ndarray:
    ranks = np.arange(1, _WORDS + 1, dtype=np.float64)
    known = np.log(np.array(list(FREQUENCIES)))
    shares = np.log(np.array(list(FREQUENCIES.values())))
    logs = np.interp(np.log(ranks), known, shares)
    beyond = np.log(ranks) > known[-1]
    logs[beyond] = shares[-1] - _TAIL * (np.log(ranks[beyond]) - known[-1])
    cumulative = np.cumsum(np.exp(logs))
    return cumulative / cumulative[-1]


def _word(rank: int) -> str:
    return _FREQUENT[rank] if rank < len(_FREQUENT) else f"w{rank:x}"


def _blocks(passages: int) -> Iterator[list[np.ndarray]]:
    """Yield the ranks of the words of 10,000 passages at a time, always the same."""
    cumulative = _cumulative()
    for block in range(-(-passages // _BLOCK)):
        rng = np.random.default_rng(block)
        lengths = np.clip(rng.lognormal(*_LENGTHS, _BLOCK).astype(int), _SHORTEST, _LONGEST)
        drawn = np.searchsorted(cumulative, rng.random(int(lengths.sum())))
        whole = np.split(drawn, np.cumsum(lengths)[:-1])
        yield whole[: passages - block * _BLOCK]


def vocabulary_of(passages: int) -> tuple[int, int]:
    """Return how many words, and how many different ones, so many passages have."""
    total, seen = 0, np.zeros(_WORDS, bool)
    for block in _blocks(passages):
        ranks = np.concatenate(block)
        total += len(ranks)
        seen[ranks] = True
    return total, int(seen.sum())


def write_collection(folder: Path, passages: int, training: int, test: int) -> None:
    """Write a collection with its training queries, and test queries beside it.

    Args:
        folder: where to write ``collection.tsv``, ``queries.tsv`` and ``qrels.tsv``, and those of
            the test queries in ``test/``.
        passages: how many passages.
        training: how many training queries, each of words of one passage, which is relevant.
        test: how many test queries.
    """
    relevant = np.sort(np.random.default_rng(1_000_000_007).integers(0, passages, training + test))
    queries: list[tuple[int, str]] = []
    (folder / "test").mkdir(parents=True, exist_ok=True)
    number = 0
    with write_atomically(folder / "collection.tsv") as file:
        for start, block in enumerate(_blocks(passages)):
            rng = np.random.default_rng((start, 1))
            for place, ranks in enumerate(block):
                doc = start * _BLOCK + place
                text = " ".join(map(_word, ranks.tolist()))
                file.write(f"{doc}\t{text}\n".encode())
                while number < len(relevant) and relevant[number] == doc:
                    rare = ranks[ranks >= len(_FREQUENT)]
                    asked = rng.choice(rare, min(len(rare), int(rng.integers(2, 7))), replace=False)
                    beginning = _BEGINNINGS[int(rng.integers(len(_BEGINNINGS)))]
                    query = " ".join([beginning, *map(_word, asked.tolist())])
                    queries.append((doc, query.strip()))
                    number += 1
    order = np.random.default_rng(3).permutation(len(queries)).tolist()
    for part, chosen in (("", order[:training]), ("test/", order[training:])):
        with write_atomically(folder / f"{part}queries.tsv") as file:
            file.write("".join(f"{one}\t{queries[one][1]}\n" for one in sorted(chosen)).encode())
        with write_atomically(folder / f"{part}qrels.tsv") as file:
            file.write("".join(f"{one} 0 {queries[one][0]} 1\n" for one in sorted(chosen)).encode())
