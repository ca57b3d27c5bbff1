"""Vectors of texts made from their words alone: the encoder `terms`, where leaks are looked for.

A text is the sum of its words, each weighted by its inverse document frequency; a word is a vector
of 1 and -1 that its hash gives, so that a dot product is that of the sparse vectors of words, with
noise that shrinks near a cosine of 1 (random projection; Achlioptas, JCSS 66, 2003). The topics'
term vectors (`msshift_bench.encoders`) go on and bring words that share neighbours near each other.
That is wrong here: "hometown of X" and "teacher of X" would become one query.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from msshift_bench.arrays import Vectors
from msshift_bench.encoders import DIMENSIONS, sign_vectors
from msshift_bench.similarity import normalise

__all__ = ["WordSpace"]

_SAMPLE = 200_000
"""Training texts that words are counted in; of more, those with the smallest hashes."""

_STEP = 64
"""Weights are whole numbers of 1/64, so that every sum is exact in any order."""


class WordSpace:
    """Vectors by the words of some texts.

    Args:
        texts: the texts whose words are counted, in any order.

    Attributes:
        facts: what decides a text's vector, as JSON values.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        sample = _sample(texts)
        self._texts = len(sample)
        self._frequency = Counter(word for text in sample for word in set(normalise(text).split()))
        self.facts: dict[str, object] = {
            "encoder": "terms",
            "weight": "idf",
            "turns": 0,
            "dimensions": DIMENSIONS,
            "counted_in": self._texts,
        }

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text, shape (texts, dimensions), not scaled to length 1.

        A word that no counted text holds weighs as much as one of a single text.
        """
        from scipy.sparse import csr_array

        words_of = [sorted(set(normalise(text).split())) for text in texts]
        vocabulary = sorted({word for words in words_of for word in words})
        place_of = {word: place for place, word in enumerate(vocabulary)}
        starts = np.cumsum([0, *map(len, words_of)])
        flat = np.array([place_of[word] for words in words_of for word in words], dtype=np.int64)
        shape = (len(texts), len(vocabulary))
        incidence = csr_array((np.ones(len(flat)), flat, starts), shape=shape)
        weights = np.array([self._weight(word) for word in vocabulary]).reshape(-1, 1)
        vectors: Vectors = (incidence @ (sign_vectors(vocabulary) * weights)).astype(np.float32)
        return vectors

    def _weight(self, word: str) -> float:
        frequency = self._frequency.get(word, 0) or 1
        return float(round(_STEP * math.log((self._texts + 1) / frequency)))


def _sample(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, or those with the smallest hashes where there are too many."""
    kept: dict[str, bytes] = {}
    highest = b""
    for text in texts:
        if text in kept:
            continue
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        if highest and digest > highest:
            continue
        kept[text] = digest
        if len(kept) == 2 * _SAMPLE:
            kept = dict(_smallest(kept))
            highest = max(kept.values())
    return sorted(text for text, _ in _smallest(kept))


def _smallest(kept: dict[str, bytes]) -> list[tuple[str, bytes]]:
    return heapq.nsmallest(_SAMPLE, kept.items(), key=lambda item: (item[1], item[0]))
