"""The one table of indicators: what each of them says, what it needs, and where it comes from.

To add an indicator, write its function and add a row here; nothing else lists indicators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

from msshift_bench.errors import UnknownNameError
from msshift_bench.similarity.overlap import shares_passages
from msshift_bench.similarity.vectors import mean_cosine, model_based, nearest_query
from msshift_bench.similarity.words import Tokenizer, unseen_words, weighted_jaccard

__all__ = ["INDICATORS", "Indicator", "IndicatorOptions", "find_indicator"]


class IndicatorOptions(TypedDict, total=False):
    """What users may say about how an indicator is computed.

    Each indicator takes some of these; `Indicator.options` names them.

    Attributes:
        tokenizer: cuts a query into words. By default ``weighted-jaccard`` lower-cases and splits
            at white space, and ``unseen-words`` takes runs of two or more letters, lower-cased,
            without stop words.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``, which needs no model. By
            default the paper's ``distilbert-base-uncased``, or ``terms`` for data of ``mini``.
        pooling: ``cls`` (default), ``mean``, or ``own`` for a model that sentence-transformers
            saved, which makes a query's vector by itself.
        models: the bi-encoders: a folder of run sets of one system with kept models, held-out group
            -> model folder, or one model folder for two sets of queries.
        seed: the seed whose models count, if the run set has several; by default the smallest.

    Examples:
        >>> options = IndicatorOptions(tokenizer=str.split)
        >>> set_similarity({"1": "rome hotels"}, {"8": "Rome hotels"}, **options)
        0.3333333333333333
    """

    tokenizer: Tokenizer
    encoder: str | None
    pooling: str
    models: Mapping[str, str | Path] | str | Path | None
    seed: int | None


@dataclass(frozen=True, slots=True)
class Indicator:
    """One way to say how near test queries lie to training queries.

    Attributes:
        name: as the command and the functions take it.
        title: as tables show it.
        per_query: whether every test query has a value of its own; that of a set of test queries
            is then their mean. Otherwise only two sets have a value.
        needs: what it needs beyond the queries: ``""``, ``encoder``, ``model`` (a bi-encoder that
            was trained without the group) or ``labels`` (the queries' relevant passages).
        against: which queries of the other groups a group is compared with unless the user says
            otherwise: those of the same split (``same``), or their training queries (``train``).
        higher: what a higher value says of the test queries: they are ``nearer`` to the training
            queries, or ``farther`` from them.
        options: the `IndicatorOptions` that it takes.
        source: where it is defined.
        function: takes the training queries, the test queries and what it needs (a tokenizer or
            `None`, `TextVectors`, or query_id -> relevant passages), and returns one value, or
            `QueryValues` if it is defined per query.
    """

    name: str
    title: str
    per_query: bool
    needs: str
    against: str
    higher: str
    options: tuple[str, ...]
    source: str
    function: Callable[..., Any]


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
        function=weighted_jaccard,
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
        function=mean_cosine,
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
        function=model_based,
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
        function=nearest_query,
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
        function=unseen_words,
    ),
    Indicator(
        name="overlap",
        title="share of queries with a relevant passage in common",
        per_query=True,
        needs="labels",
        against="train",
        higher="nearer",
        options=(),
        source="Zhan et al. (CIKM 2022), section 3.2",
        function=shares_passages,
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
