"""A collection of any size whose words are distributed as in natural text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from msshift_bench.data.collection import Collection
from msshift_bench.records import Passage, Qrel, Row

LONGEST, QUERY_WORDS, VOCABULARY = 90, 4, 500_000
BLOCK = 10_000


class Generated(Collection):
    """Passages that are drawn word by word, always the same."""

    layout = "generated"

    def __init__(self, size: int) -> None:
        self.name = f"zipf:{size}"
        self.size = size
        weights = 1 / (np.arange(VOCABULARY) + 60.0) ** 1.07
        self._cumulative = np.cumsum(weights / weights.sum())
        self._words = np.array([f"w{number}" for number in range(VOCABULARY)], dtype=object)

    def _words_of(self, block: int) -> list[np.ndarray]:
        """Return the words of the passages from ``block * BLOCK`` on."""
        generator = np.random.default_rng(block)
        lengths = np.clip(generator.lognormal(3.5, 0.35, BLOCK).astype(int), 8, LONGEST)
        draws = np.searchsorted(self._cumulative, generator.random((BLOCK, LONGEST)))
        words = self._words[np.minimum(draws, VOCABULARY - 1)]
        return [row[:length] for row, length in zip(words, lengths, strict=True)]

    def passages(self) -> Iterator[Passage]:
        for start in range(0, self.size, BLOCK):
            for place, words in enumerate(self._words_of(start // BLOCK)[: self.size - start]):
                yield Passage(str(start + place), " ".join(words))

    def rows(self, count: int) -> list[Row]:
        """Return training queries, each of words from the passage that is relevant to it."""
        generator = np.random.default_rng(1_000_000_007)
        relevant = np.sort(generator.integers(0, self.size, count))
        rows = []
        for block in np.unique(relevant // BLOCK).tolist():
            words = self._words_of(block)
            for passage in relevant[relevant // BLOCK == block].tolist():
                asked = generator.choice(words[passage % BLOCK], QUERY_WORDS, replace=False)
                rows.append(Row(f"q{len(rows)}", " ".join(asked), "", (str(passage),), (1,)))
        return sorted(rows)

    def _query_rows(self, _: object) -> Iterator[tuple[str, int, str, str]]:
        return iter(())

    def _qrel_rows(self, _: object) -> Iterator[tuple[str, int, Qrel]]:
        return iter(())
