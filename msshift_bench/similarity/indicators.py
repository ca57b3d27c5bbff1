"""The one table of indicators: what each of them says, what it needs, and where it comes from.

To add an indicator, add a row here and a module with its function; nothing else lists indicators.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from msshift_bench.errors import UnknownNameError

__all__ = ["INDICATORS", "Ingredients", "Indicator", "Tokenizer", "find_indicator", "split_words"]

Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
"""From the text of a query to its words."""


def split_words(text: str) -> list[str]:
    """Return the words of a text as the paper counts them: lower-cased, split at white space."""
    return text.lower().split()


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What indicators compute with, beyond the queries.

    Attributes:
        tokenizer: cuts texts into words.
    """

    tokenizer: Tokenizer = split_words


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
            none (``""``).
        higher: what a higher value says of the test queries: they are ``nearer`` to the training
            queries, ``farther`` from them, or, of a control, ``clearer``.
        source: where it is defined.
        function: ``module:function``; it takes the training queries, the test queries and
            `Ingredients`, and returns one value, or one per test query.
    """

    name: str
    title: str
    per_query: bool
    needs: str
    against: str
    higher: str
    source: str
    function: str

    def load(self) -> Callable[..., Any]:
        """Return its function."""
        module, _, function = self.function.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return loaded


_TABLE = (
    Indicator(
        name="weighted-jaccard",
        title="weighted Jaccard similarity of words",
        per_query=False,
        needs="",
        against="same",
        higher="nearer",
        source="MS-Shift (ECIR 2023), section 5.2; v1, section 3.1; BEIR, appendix F",
        function="msshift_bench.similarity.weighted_jaccard:weighted_jaccard",
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
