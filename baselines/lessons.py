"""What a teacher is asked for, and what it is: values that all systems know."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Teacher:
    """Who scores passages for training queries.

    Attributes:
        facts: what decides the scores, for identities and sidecars; JSON values.
        score: takes a lesson, what returns the collection's BM25 index, and the function to report
            progress to; returns the scores of each query's passages, one query's after the other's.
            It raises a `DataError` if scores are missing.
    """

    facts: Mapping[str, object]
    score: Callable[[Lesson, Callable[[], Bm25], Progress], npt.NDArray[np.float32]]
