"""The interface of whatever ranks passages with a model: trained here, published, or in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msshift_bench.baselines.recipe import SearchSettings, refusal
from msshift_bench.baselines.system import Run
from msshift_bench.checked import check_value
from msshift_bench.search import Bm25

if TYPE_CHECKING:
    from msshift_bench.search import Ranking

__all__ = ["Ranker"]


class Ranker(ABC):
    """One way to rank passages with a model; its methods are the class's, it holds no state.

    Attributes:
        name: the kind of model, in sidecars and messages.
        libraries: the modules that its search needs, beyond those of the model.
    """

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def search_type(cls) -> type[SearchSettings]:
        """The class of the settings that `rankings` takes."""
        return SearchSettings

    @classmethod
    def search_by(cls, options: Mapping[str, Any]) -> SearchSettings:
        """Return how to search with a model that no recipe describes.

        Args:
            options: fields of ``[search]`` in the recipes of its kind; `None` means the default.

        Raises:
            UsageError: for an option that this kind does not have, or an impossible value.
        """
        chosen = {name: value for name, value in options.items() if value is not None}
        where = f"the search with {cls.name}"
        return check_value(chosen, cls.search_type(), where, partial(refusal, where))

    @classmethod
    def check_model(cls, model: Any) -> None:
        """Check, before passages are read, that a model can rank them.

        Raises:
            UsageError: saying what keeps it from that.
        """
        del model

    @classmethod
    @abstractmethod
    def rankings(
        cls, model: Any, task: Run, search: SearchSettings, index: Callable[[], Bm25]
    ) -> Iterator[tuple[str, Ranking]]:
        """Yield a ranking for each of the task's queries.

        Args:
            model: the model, which does not change.
            task: the queries to rank for.
            search: how to search, of the class `search_type`.
            index: returns the BM25 index of the collection, if one is needed.
        """

    @classmethod
    def reranks(cls, search: SearchSettings) -> int:
        """Return how many of BM25's first passages it reranks; 0 if it searches by itself."""
        del search
        return 0
