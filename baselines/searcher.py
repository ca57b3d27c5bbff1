"""How a model ranks passages: the table ``[search]`` of a recipe, and what it does.

A model that was trained here, one that is published and one in memory are searched alike, so what
searches knows the model's kind and nothing of its training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.candidates import reranks_tag
from msshift_bench.baselines.recipe import SearchSettings
from msshift_bench.baselines.system import Run

if TYPE_CHECKING:
    from msshift_bench.search import Ranking

__all__ = ["Candidates", "Scorer", "Searcher"]

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
