"""What a teacher is asked for, and what it is: an interface that all systems know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from msshift_bench.plumbing import Progress
from msshift_bench.records import Row
from msshift_bench.search import Bm25

__all__ = ["Lesson", "Teacher"]


@dataclass(frozen=True, slots=True)
class Lesson:
    """The queries and passages that a training meets together, and that are to be scored.

    Attributes:
        queries: the queries.
        doc_ids: the passages' ids.
        texts: their texts.
        candidates: for each query, the places of its passages in `doc_ids`, ascending.
    """

    queries: Sequence[Row]
    doc_ids: Sequence[str]
    texts: pa.Array
    candidates: Sequence[npt.NDArray[np.int64]]


class Teacher(ABC):
    """Scores passages for training queries.

    Attributes:
        facts: what decides the scores, for identities and sidecars; JSON values.
    """

    facts: Mapping[str, object]

    @abstractmethod
    def score(
        self, lesson: Lesson, index: Callable[[], Bm25], progress: Progress
    ) -> npt.NDArray[np.float32]:
        """Return the scores of each query's passages, one query's after the other's.

        Args:
            lesson: what to score.
            index: returns the BM25 index of the collection, if it is needed.
            progress: called with ``(stage, done, total)``.

        Raises:
            DataError: if scores are missing.
        """
