"""How a model ranks passages: the table ``[search]`` of a recipe, and what it does.

A model that was trained here, one that is published and one in memory are searched alike, so what
searches knows the model's kind and nothing of its training. A model that ranks BM25's passages is
a reranker: its recall is BM25's and cannot shift. Readers of the run must see that, so every run
names its candidates.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from msshift_bench.baselines.systems.recipe import SearchSettings
from msshift_bench.baselines.systems.system import Run

if TYPE_CHECKING:
    from msshift_bench.search import Ranking

__all__ = [
    "ALL_PASSAGES",
    "Candidates",
    "CandidatesName",
    "Scorer",
    "Searcher",
    "describe_candidates",
    "first_of_bm25",
    "reranks_tag",
]

ALL_PASSAGES = "all"

_FIRST = "bm25:([1-9][0-9]*)"

CandidatesName = Annotated[str, Field(pattern=f"^({ALL_PASSAGES}|{_FIRST})$")]
"""A recipe's ``candidates``: ``all`` or ``bm25:<number>``."""


def first_of_bm25(candidates: str) -> int:
    """Return the number of ``bm25:<number>``; 0 for other candidates."""
    match = re.fullmatch(_FIRST, candidates)
    return int(match[1]) if match else 0


def describe_candidates(candidates: str) -> str:
    """Return the candidates in a sidecar's words, e.g. ``reranks BM25's first 1000``."""
    if candidates == ALL_PASSAGES:
        return "all passages"
    return f"reranks BM25's first {first_of_bm25(candidates)}"


def reranks_tag(first: int) -> str:
    """Return the part of a run tag that says that BM25's first passages are reranked.

    Args:
        first: how many of them; 0 for a model that searches by itself, which gives "".
    """
    return f"-reranks-bm25-{first}" if first else ""


Candidates = Sequence[npt.NDArray[np.int64]]
"""For each query, the places of the passages to score."""


class Searcher(SearchSettings, ABC):
    """One way to rank passages with a model, which is handed to its methods.

    Attributes:
        libraries: the modules that it needs, beyond those of the model.
    """

    libraries: ClassVar[tuple[str, ...]] = ()

    def check_model(self, model: Any) -> None:
        """Check, before passages are read, that a model can rank them.

        Raises:
            UsageError: saying what keeps it from that.
        """
        del model

    @abstractmethod
    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield a ranking for each of the run's queries.

        Args:
            model: the model, which does not change.
            run: the queries to rank for; what is encoded stands in its work folder.
        """

    @property
    def reranks(self) -> int:
        """How many of BM25's first passages it reranks; 0 if it searches by itself."""
        return 0

    @property
    def tag(self) -> str:
        """The part of a run tag that says that the model only reranks; "" for others."""
        return reranks_tag(self.reranks)


class Scorer(Searcher):
    """A searcher that can score chosen passages, too: its models can be validated, and teach."""

    @abstractmethod
    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the scores of its candidates among the passages.

        Args:
            model: the model.
            queries: texts.
            passages: texts; each is a candidate of some query.
            candidates: the places of each query's candidates in `passages`.
        """
