"""The one table of indicators: what each of them says, what it needs, and where it comes from.

To add an indicator, add a row here and a module with its function; nothing else lists indicators.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from msshift_bench.errors import UnknownNameError

__all__ = ["INDICATORS", "Indicator", "find_indicator"]


@dataclass(frozen=True, slots=True)
class Indicator:
    """One way to say how near test queries lie to training queries.

    Attributes:
        name: as the command and the functions take it.
        title: as tables show it.
        per_query: whether every test query has a value of its own; that of a set of test queries
            is then their mean. Otherwise only two sets have a value.
        needs: what it needs beyond the queries: ``""``, ``encoder``, ``model`` (a bi-encoder that
            was trained without the group) or ``collection``.
        against: which queries of the other groups a group is compared with unless the user says
            otherwise: those of the same split (``same``), their training queries (``train``), or
            none (``""``), whatever the user says.
        higher: what a higher value says of the test queries: they are ``nearer`` to the training
            queries, ``farther`` from them, or, of a control, ``clearer``.
        options: the `IndicatorOptions` that it takes.
        source: where it is defined.
        function: ``module:function``; it takes the training queries, the test queries and
            `Ingredients`, and returns one value, or `QueryValues` if it is defined per query.
    """

    name: str
    title: str
    per_query: bool
    needs: str
    against: str
    higher: str
    options: tuple[str, ...]
    source: str
    function: str

    def load(self) -> Callable[..., Any]:
        """Return its function."""
        module, _, function = self.function.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return loaded


_ROOM = "msshift_bench.similarity"

_TABLE = (
    Indicator(
        name="weighted-jaccard",
        title="weighted Jaccard similarity of words",
        per_query=False,
        needs="",
        against="same",
        higher="nearer",
        options=("tokenizer",),
        source="MS-Shift (ECIR 2023), section 5.2; BEIR, appendix F",
        function=f"{_ROOM}.weighted_jaccard:weighted_jaccard",
    ),
    Indicator(
        name="mean-cosine",
        title="mean cosine similarity of query vectors",
        per_query=True,
        needs="encoder",
        against="same",
        higher="nearer",
        options=("encoder", "pooling"),
        source="MS-Shift v1 (2022), section 3.1",
        function=f"{_ROOM}.mean_cosine:mean_cosine",
    ),
    Indicator(
        name="model-based",
        title="model-based similarity R",
        per_query=True,
        needs="model",
        against="train",
        higher="nearer",
        options=("models", "seed"),
        source="MS-Shift (ECIR 2023), equation 1",
        function=f"{_ROOM}.model_based:model_based",
    ),
    Indicator(
        name="nearest-query",
        title="cosine with the nearest query",
        per_query=True,
        needs="encoder",
        against="train",
        higher="nearer",
        options=("encoder", "pooling"),
        source="this package",
        function=f"{_ROOM}.nearest_query:nearest_query",
    ),
    Indicator(
        name="unseen-words",
        title="share of content words never met",
        per_query=True,
        needs="",
        against="train",
        higher="farther",
        options=("tokenizer",),
        source="this package",
        function=f"{_ROOM}.unseen_words:unseen_words",
    ),
    Indicator(
        name="clarity",
        title="clarity under BM25 (a control: difficulty, not distance)",
        per_query=True,
        needs="collection",
        against="",
        higher="clearer",
        options=("collection", "depth"),
        source="Cronen-Townsend et al. (SIGIR 2002)",
        function=f"{_ROOM}.clarity:clarity",
    ),
)

INDICATORS: Mapping[str, Indicator] = MappingProxyType({row.name: row for row in _TABLE})
"""Every indicator by name."""


def find_indicator(name: str) -> Indicator:
    """Return the indicator called `name`.

    Raises:
        UnknownNameError: if there is none; the message lists them and names the nearest.
    """
    if name not in INDICATORS:
        raise UnknownNameError("indicator", name, INDICATORS)
    return INDICATORS[name]
